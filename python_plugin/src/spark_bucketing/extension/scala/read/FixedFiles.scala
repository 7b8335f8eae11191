package org.apache.spark.sql.bucketing
package read

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.expressions.{And, AttributeReference, BoundReference, Expression, Predicate}
import org.apache.spark.sql.execution.datasources.{FileIndex, PartitionDirectory}
import org.apache.spark.sql.types.StructType

/**
 * An index of given files, which lists nothing.
 *
 * @param rootPaths the location of the table
 * @param directories the files by partition
 */
class FixedFiles(override val rootPaths: Seq[Path], override val partitionSchema: StructType, directories: => Seq[PartitionDirectory]) extends FileIndex {

  private lazy val known = directories

  override def listFiles(partitionFilters: Seq[Expression], dataFilters: Seq[Expression]): Seq[PartitionDirectory] =
    partitionFilters.reduceOption(And).fold(known) { condition =>
      val bound = Predicate.createInterpreted(condition.transform { case column: AttributeReference =>
        val at = partitionSchema.indexWhere(_.name.equalsIgnoreCase(column.name))
        BoundReference(at, partitionSchema(at).dataType, nullable = true)
      })
      known.filter(directory => bound.eval(directory.values))
    }

  override def inputFiles: Array[String] = known.flatMap(_.files.map(_.getPath.toString)).toArray
  override def refresh(): Unit = ()
  override def sizeInBytes: Long = known.flatMap(_.files.map(_.getLen)).sum
}
