package org.apache.spark.sql.bucketing
package dml

import org.apache.spark.sql.bucketing.metadata.SealedSpec
import org.apache.spark.sql.bucketing.read.FileStatisticsColumns
import org.apache.spark.sql.bucketing.write.GroupKey
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, Expression}
import org.apache.spark.sql.types.{StructField, StructType}

/** Finds the place of a row from the values of some columns. */
trait RowPlaces extends Serializable {

  /** The columns that determine the place of a row. Partition columns come first. */
  def columns: Seq[StructField]

  def cellOf(values: Seq[Any]): Cell
}

/** The places of rows in an organized table: the group of files, and the range of the last column if the table has a range column. */
class OrganizedPlaces(of: FileStatisticsColumns, val ranges: FileRanges) extends RowPlaces {

  override val columns: Seq[StructField] = of.partition ++ of.implicitPartition ++ of.organized
  private val group = of.partition.size + of.implicitPartition.size

  override def cellOf(values: Seq[Any]): Cell = {
    val key = GroupKey.of(values.take(group))
    Cell(key, ranges.rangeOf(key, if (values.size > group) values.last else null))
  }
}

/** The places of rows in a bucketed table: the partition and the bucket. */
class BucketPlaces(partition: StructType, spec: SealedSpec, dataSchema: StructType) extends RowPlaces {

  private val keys = spec.columns.map(name => dataSchema.find(_.name.equalsIgnoreCase(name)).get)
  override val columns: Seq[StructField] = partition ++ keys

  @transient private lazy val bucket = bucketOf(keys.indices.map(i => BoundReference(partition.size + i, keys(i).dataType, nullable = true)))

  /** Returns an expression for the bucket of a row with these keys. */
  def bucketOf(keys: Seq[Expression]): Expression = spec.hash.partitioning(keys, spec.numBuckets).partitionIdExpression

  override def cellOf(values: Seq[Any]): Cell =
    BucketPlaces.cell(GroupKey.of(values.take(partition.size)), bucket.eval(InternalRow.fromSeq(values)).asInstanceOf[Int])
}

object BucketPlaces {

  def cell(partition: Seq[Any], bucket: Int): Cell = Cell(partition :+ bucket, 1)

  /** The place of files in whose partition rows may be in any bucket. */
  def unknown(partition: Seq[Any]): Cell = Cell(partition :+ null, Cell.Unknown)

  def bucketOf(cell: Cell): Int = cell.group.last.asInstanceOf[Int]
}
