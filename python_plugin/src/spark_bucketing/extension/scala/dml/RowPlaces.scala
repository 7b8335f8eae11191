package org.apache.spark.sql.bucketing
package dml

import java.util.BitSet

import org.apache.spark.sql.bucketing.metadata.{ColumnStats, FileStats, SealedSpec}
import org.apache.spark.sql.bucketing.read.FileStatisticsColumns
import org.apache.spark.sql.bucketing.write.{GroupKey, RangeOrder, SlotRouting}
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
  def bucketOf(keys: Seq[Expression]): Expression = spec.hash.bucketId(keys, spec.numBuckets)

  override def cellOf(values: Seq[Any]): Cell =
    BucketPlaces.cell(GroupKey.of(values.take(partition.size)), bucket.eval(InternalRow.fromSeq(values)).asInstanceOf[Int])
}

object BucketPlaces {

  def cell(partition: Seq[Any], bucket: Int): Cell = Cell(partition :+ bucket, 1)

  /** The place of files in whose partition rows may be in any bucket. */
  def unknown(partition: Seq[Any]): Cell = Cell(partition :+ null, Cell.Unknown)

  def bucketOf(cell: Cell): Int = cell.group.last.asInstanceOf[Int]
}

/**
 * Slots are parts of bins. Most bins have one slot. Rows that do not change stay in the range of their file.
 *
 * @param first the first slot of each bin
 * @param boundaries the minimums of the further slots of each bin
 */
class RangeRouting(places: OrganizedPlaces, binOfFile: Map[Int, Int], binOfCell: Map[Cell, Int], first: Array[Int], boundaries: Array[Array[Any]]) extends SlotRouting {
  override def slotOf(file: Int, isNew: Boolean, place: => Seq[Any]): Int = {
    lazy val values = place
    val bin = if (isNew) binOfCell.getOrElse(places.cellOf(values), throw unexpected) else binOfFile.getOrElse(file, throw unexpected)
    if (boundaries(bin).isEmpty || values.last == null) first(bin) else first(bin) + places.ranges.order.search(boundaries(bin), values.last)
  }
}

/**
 * Slots are buckets of partitions. Rows that do not change stay in the bucket of their file.
 *
 * @param slotOfFile the slots of files whose rows are all in one bucket
 * @param slotOfCell the slots of the other rows
 */
class BucketRouting(places: BucketPlaces, slotOfFile: Map[Int, Int], slotOfCell: Map[Cell, Int]) extends SlotRouting {
  override def slotOf(file: Int, isNew: Boolean, place: => Seq[Any]): Int = {
    val known = if (isNew) None else slotOfFile.get(file)
    known.getOrElse(slotOfCell.getOrElse(places.cellOf(place), throw unexpected))
  }
}

/**
 * The place of rows in a table.
 *
 * @param group the values from [[GroupKey]]
 * @param range the number of the range: from 1 for the ranges of files, 0 below all, their number plus one above all
 */
case class Cell(group: Seq[Any], range: Int) {
  override lazy val hashCode: Int = 31 * group.hashCode + range
}

object Cell {
  /** The range of files with only NULLs in the range column. */
  val Nulls: Int = -2
  /** The range of files without statistics. */
  val Unknown: Int = -1
}

/**
 * The ranges of the files of a group.
 *
 * @param lowers the distinct minimums of the files, ascending
 * @param last the maximum of all files
 */
private case class GroupRanges(lowers: Array[Any], last: Any)

/** Finds the place of rows from the file statistics. A table without a range column has one range per group. */
class FileRanges private (val order: RangeOrder, groups: Map[Seq[Any], GroupRanges]) extends Serializable {

  /** Returns the range of a new row. */
  def rangeOf(group: Seq[Any], value: Any): Int =
    if (order.dataType.isEmpty) 1
    else if (value == null) Cell.Nulls
    else groups.get(group).fold(1) { of =>
      if (order.ordering.gt(value, of.last)) of.lowers.length + 1 else order.search(of.lowers, value)
    }

  /** Returns the range of a file with these statistics of the range column. */
  def rangeOf(group: Seq[Any], column: ColumnStats): Int =
    if (column.lower == null) Cell.Nulls else order.search(groups(group).lowers, column.lower)
}

object FileRanges {

  def apply(column: Option[StructField], files: Seq[(Seq[Any], FileStats)]): FileRanges = {
    val order = RangeOrder(column.map(_.dataType))
    val groups = column.toSeq.flatMap { of =>
      val known = files.map { case (group, stats) => group -> stats.column(of) }.filter(_._2.lower != null)
      known.groupBy(_._1).map { case (group, all) =>
        group -> GroupRanges(order.distinct(all.map(_._2.lower)), all.map(_._2.last).max(order.ordering))
      }
    }.toMap
    new FileRanges(order, groups)
  }
}

/**
 * Finds the files that may contain a row of the target for a row of the source.
 *
 * @param groups expressions for values of the group of a file
 * @param range an expression for a value of the range column
 */
case class KeyLookup(candidates: KeyCandidates, groups: Seq[Expression], range: Option[Expression])

/**
 * Finds the files that may contain a row with certain values of group columns and of the range column.
 *
 * @param always the files that may contain any row
 */
class KeyCandidates private (order: RangeOrder, val always: Seq[Int], byKey: Map[Seq[Any], Intervals]) extends Serializable {

  /** Adds the files that may contain a row. */
  def add(group: Seq[Any], value: Any, found: BitSet): Unit = byKey.get(group).foreach { of =>
    if (order.dataType.isEmpty) of.files.foreach(found.set(_))
    else {
      var i = order.search(of.lowers, value) - 1
      while (i >= 0 && order.ordering.gteq(of.highest(i), value)) {
        if (order.ordering.gteq(of.uppers(i), value)) found.set(of.files(i))
        i -= 1
      }
    }
  }
}

object KeyCandidates {

  /**
   * @param at the positions of the group columns in the group of a file
   * @param column the range column if it is one of the keys
   */
  def apply(files: Seq[TableFile], at: Seq[Int], column: Option[StructField]): KeyCandidates = {
    val order = RangeOrder(column.map(_.dataType))
    val (described, others) = files.partition(_.cell.range != Cell.Unknown)
    val byKey = described.groupBy(file => at.map(file.cell.group(_))).map { case (key, of) => key -> intervals(of, column, order) }
    new KeyCandidates(order, others.map(_.id), byKey)
  }

  private def intervals(files: Seq[TableFile], column: Option[StructField], order: RangeOrder): Intervals =
    column.fold(Intervals(files.map(_.id).toArray, Array.empty, Array.empty, Array.empty)) { of =>
      val sorted = files.map(file => file.id -> file.known.get.column(of)).filter(_._2.lower != null).sortBy(_._2.lower)(order.ordering)
      val uppers = sorted.map(_._2.last).toArray[Any]
      val highest = uppers.scanLeft(null: Any)((most, upper) => if (most == null || order.ordering.gt(upper, most)) upper else most).tail
      Intervals(sorted.map(_._1).toArray, sorted.map(_._2.lower).toArray[Any], uppers, highest)
    }
}

/**
 * Files in the order of their minimum.
 *
 * @param highest the largest maximum of the files up to each position
 */
private case class Intervals(files: Array[Int], lowers: Array[Any], uppers: Array[Any], highest: Array[Any])
