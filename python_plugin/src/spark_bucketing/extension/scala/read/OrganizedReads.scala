package org.apache.spark.sql.bucketing
package read

import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path

import org.apache.spark.internal.Logging
import org.apache.spark.sql.bucketing.records.{DataMap, MappedColumn, MappedFile}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet, Expression, GenericInternalRow}
import org.apache.spark.sql.columnar.{CachedBatch, SimpleMetricsCachedBatch}
import org.apache.spark.sql.execution.{FileSourceScanExec, SparkPlan}
import org.apache.spark.sql.execution.columnar.DefaultCachedBatchSerializer
import org.apache.spark.sql.execution.datasources.{FileIndex, PartitionDirectory}
import org.apache.spark.sql.types.StructType

/** Leaves out files of organized tables whose intervals the filters of a query rule out, without opening them. */
object OrganizedReads {

  def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
    case scan: FileSourceScanExec if !scan.isInstanceOf[ScanOfBuckets] && scan.dataFilters.nonEmpty => withMap(scan).getOrElse(scan)
  }

  private def withMap(scan: FileSourceScanExec): Option[FileSourceScanExec] = for {
    relation <- SealedSpecs.relationOf(scan)
    table <- relation.catalogTable
    if DataMap.isKept(table.properties) && SealedSpecs.otherColumns(scan.relation).isEmpty
    map <- DataMap.read(scan.relation.sparkSession, new Path(table.location), table.partitionColumnNames.size)
  } yield {
    val files = OrganizedFiles(scan.relation.location)(map)
    ScanOfBuckets.like(scan, scan.copy(relation = scan.relation.copy(location = files)(scan.relation.sparkSession)))
  }
}

/** The files of an organized table, of which those are listed that may have rows for a query's filters. */
case class OrganizedFiles(all: FileIndex)(map: DataMap) extends FileIndex with Logging {

  override def listFiles(partitionFilters: Seq[Expression], dataFilters: Seq[Expression]): Seq[PartitionDirectory] = {
    val listed = all.listFiles(partitionFilters, dataFilters)
    // No query is to fail for what only makes it faster.
    try {
      val mayMatch = FileIntervals.mayMatch(dataFilters)
      listed.map { directory =>
        directory.copy(files = directory.files.filter(file => map.of(file.fileStatus).forall(mayMatch)))
      }.filter(_.files.nonEmpty)
    } catch {
      case NonFatal(error) =>
        logWarning("All files of an organized table are read, since its intervals could not be compared with the filters.", error)
        listed
    }
  }

  override def rootPaths: Seq[Path] = all.rootPaths
  override def inputFiles: Array[String] = all.inputFiles
  override def refresh(): Unit = all.refresh()
  override def sizeInBytes: Long = all.sizeInBytes
  override def partitionSchema: StructType = all.partitionSchema
  override def metadataOpsTimeNs: Option[Long] = all.metadataOpsTimeNs
  override def toString: String = all.toString
}

/**
 * Whether a file whose columns have these least and greatest values may have rows that filters let pass: as Spark asks
 * of the batches of a cached table, whose statistics are just these.
 */
object FileIntervals {

  private case class Statistics(numRows: Int, stats: InternalRow) extends SimpleMetricsCachedBatch

  def mayMatch(filters: Seq[Expression]): MappedFile => Boolean = {
    // Spark's own code for them, made once for all files that know the same columns in the same types.
    val made = scala.collection.mutable.Map.empty[Seq[Attribute], Iterator[CachedBatch] => Iterator[CachedBatch]]
    val asked = filters.flatMap(_.references).distinct
    file => {
      val columns = asked.flatMap(attribute => columnOf(file, attribute).map(attribute -> _))
      val attributes = columns.map(_._1)
      columns.isEmpty || {
        val kept = made.getOrElseUpdate(attributes, {
          val known = filters.filter(_.references.subsetOf(AttributeSet(attributes)))
          new DefaultCachedBatchSerializer().buildFilter(known, attributes)(0, _)
        })
        kept(Iterator(statistics(file, columns.map(_._2)))).hasNext
      }
    }
  }

  private def columnOf(file: MappedFile, attribute: Attribute): Option[MappedColumn] =
    file.columns.collectFirst { case (name, column) if name.equalsIgnoreCase(attribute.name) && column.dataType == attribute.dataType => column }

  /** In the order of Spark's ColumnStatisticsSchema: least and greatest value, NULLs, rows, bytes. */
  private def statistics(file: MappedFile, columns: Seq[MappedColumn]): Statistics = {
    def count(rows: Long) = math.min(rows, Int.MaxValue).toInt
    val values = columns.flatMap { column =>
      Seq[Any](column.lower, column.upper, count(column.nulls), count(file.rows), 0L)
    }
    Statistics(count(file.rows), new GenericInternalRow(values.toArray))
  }
}
