package org.apache.spark.sql.bucketing
package write

import scala.collection.mutable
import scala.util.Try

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.{Compat, Tasks}
import org.apache.spark.sql.bucketing.metadata.FileStatistics
import org.apache.spark.sql.bucketing.read.{CurrentFiles, FileStatisticsColumns}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.expressions.{Cast, EvalMode, Literal}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{StructField, StructType}

/**
 * New rows with the same values in the partition and implicit partition columns.
 *
 * @param values the values from [[GroupKey]]
 * @param isNull whether the rows have NULL in the range column
 */
case class InsertedGroup(values: Seq[Any], isNull: Boolean)

/**
 * The slots of new rows. Each slot is one file.
 *
 * @param first the first slot of each group
 * @param files the number of slots of each group
 * @param boundaries the minimums of the further slots of each group
 * @param starts for each task, the slot of its first row of a group, among the group's slots
 */
class InsertPlan(
    val slots: IndexedSeq[Slot], first: Map[InsertedGroup, Int], files: Map[InsertedGroup, Int], boundaries: Map[InsertedGroup, Array[Any]],
    starts: Seq[Map[InsertedGroup, Int]], order: RangeOrder, depth: Int)
    extends SlotRouting {

  // Without a range column, the tasks distribute the rows of a group evenly, one after another.
  override def isDeterministic: Boolean = order.dataType.nonEmpty
  @transient private lazy val next = mutable.HashMap.empty[InsertedGroup, Int]

  override def slotOf(file: Int, isNew: Boolean, place: => Seq[Any]): Int = {
    val values = place
    val group = InsertedGroups.of(values, order.dataType.nonEmpty, depth)
    val number = files(group)
    first(group) + (
      if (number == 1) 0
      else if (order.dataType.nonEmpty) order.search(boundaries(group), values.last)
      else {
        val slot = next.getOrElse(group, starts(TaskContext.getPartitionId())(group))
        next(group) = (slot + 1) % number
        slot
      })
  }
}

object InsertedGroups {
  private val SamplesPerFile = 100L

  /** @param values the values of the group columns and, if there is a range column, its value */
  def of(values: Seq[Any], hasRange: Boolean, depth: Int): InsertedGroup = {
    val (partition, others) = (if (hasRange) values.init else values).splitAt(depth)
    InsertedGroup(GroupKey.ofPartition(partition) ++ GroupKey.of(others), hasRange && values.last == null)
  }

  /** Returns the number of rows of each group in each task. */
  def count(places: RDD[Seq[Any]], hasRange: Boolean, depth: Int): Seq[Map[InsertedGroup, Long]] = Tasks.run(places) { (_, rows) =>
    val counts = mutable.HashMap.empty[InsertedGroup, Long]
    rows.foreach { values =>
      val group = copied(of(values, hasRange, depth))
      counts(group) = counts.getOrElse(group, 0L) + 1
    }
    counts.toMap
  }

  def total(counts: Seq[Map[InsertedGroup, Long]]): Map[InsertedGroup, Long] =
    counts.flatten.groupBy(_._1).map { case (group, counts) => group -> counts.map(_._2).sum }

  private def starts(counts: Seq[Map[InsertedGroup, Long]], files: Map[InsertedGroup, Int]): Seq[Map[InsertedGroup, Int]] = {
    val before = mutable.HashMap.empty[InsertedGroup, Long]
    counts.map(_.collect { case (group, rows) if files(group) > 1 =>
      val start = before.getOrElse(group, 0L)
      before(group) = start + rows
      group -> (start % files(group)).toInt
    })
  }

  /**
   * Returns the slots of all groups. With a range column, the slots of a group have disjoint ranges, with quantiles of a sample as boundaries.
   *
   * @param counts the number of rows of each group in each task
   * @param files the number of files of a group
   * @param shared the boundaries of each group by its values, if another table determines them
   * @param depth the number of partition columns, which are the first columns of a group
   */
  def plan(
      counts: Seq[Map[InsertedGroup, Long]], files: InsertedGroup => Int, shared: Option[Map[Seq[Any], Array[Any]]], places: => RDD[Seq[Any]], order: RangeOrder,
      depth: Int, bytesPerRow: Double): InsertPlan = {
    val rows = total(counts)
    val several = if (order.dataType.isEmpty || shared.nonEmpty) Map.empty[InsertedGroup, Int] else rows.keysIterator.map(group => group -> files(group)).filter(_._2 > 1).toMap
    val samples = if (several.isEmpty) Map.empty[InsertedGroup, Seq[Any]]
      else sample(places, several.map { case (group, number) => group -> math.max(1, rows(group) / (number * SamplesPerFile)) }, depth)
    val boundaries = shared.fold(several.map { case (group, number) => group -> order.quantiles(samples.getOrElse(group, Nil), number) }) { of =>
      rows.keysIterator.filterNot(_.isNull).map(group => group -> of.getOrElse(group.values, Array.empty[Any])).toMap
    }
    val numbers = rows.keysIterator.map(group => group -> boundaries.get(group).fold(if (order.dataType.isEmpty) files(group) else 1)(_.length + 1)).toSeq
    val slots = numbers.flatMap { case (group, number) => Seq.fill(number)(group -> rows(group).toDouble / number) }
    new InsertPlan(slots.map { case (group, number) => Slot(group.values.take(depth), number * bytesPerRow, Long.MaxValue, None) }.toIndexedSeq,
      numbers.map(_._1).zip(numbers.scanLeft(0)(_ + _._2)).toMap, numbers.toMap, boundaries,
      if (order.dataType.isEmpty) starts(counts, numbers.toMap) else Nil, order, depth)
  }

  /** Returns every n-th value of each group. The first one depends on the task, because a task may have fewer rows. */
  private def sample(places: RDD[Seq[Any]], steps: Map[InsertedGroup, Long], depth: Int): Map[InsertedGroup, Seq[Any]] = Tasks.run(places) { (task, rows) =>
    val sampled = mutable.HashMap.empty[InsertedGroup, Sample]
    rows.foreach { values =>
      val group = of(values, hasRange = true, depth)
      steps.get(group).foreach { step =>
        sampled.getOrElseUpdate(copied(group), new Sample(step, Math.floorMod(task.partitionId() * 0x9E3779B1L, step))).add(values.last)
      }
    }
    sampled.toSeq.map { case (group, sample) => group -> sample.values.toSeq }
  }.flatten.groupBy(_._1).map { case (group, found) => group -> found.flatMap(_._2) }

  // The values of a row are valid only until the next row.
  private def copied(group: InsertedGroup): InsertedGroup = group.copy(values = GroupKey.copied(group.values))

  private class Sample(step: Long, first: Long) {
    val values = mutable.ArrayBuffer.empty[Any]
    private var number = first

    def add(value: Any): Unit = {
      if (number % step == 0) values += InternalRow.copyValue(value)
      number += 1
    }
  }
}

/** Range boundaries that an organized table gets from the files of another organized table. */
object SharedBoundaries {

  /** The table property with the SQL name of the other table. */
  private val Property = "bucketing.range_boundaries_from"

  /**
   * Returns the boundaries of each group of files, by the values of [[InsertedGroup]]; None if the table has boundaries of its own.
   *
   * @param columns the columns of the table. The other table has the same partition and implicit partition columns, and a range column of any name.
   */
  def of(session: SparkSession, table: CatalogTable, columns: FileStatisticsColumns, order: RangeOrder): Option[Map[Seq[Any], Array[Any]]] =
    table.properties.get(Property).filter(_ => columns.organized.nonEmpty).map { name =>
      val lowers = lowersOf(session, other(session, table, name, columns), columns)
      // The first file also gets the rows below its minimum.
      lowers.groupBy(_._1).map { case (group, of) => group -> order.distinct(of.map(_._2)).drop(1) }
    }

  private def other(session: SparkSession, table: CatalogTable, name: String, columns: FileStatisticsColumns): CatalogTable = {
    def refused(found: String, expected: String) = Compat.refusal(s"Cannot write into ${table.identifier.quotedString}.", s"$found in the table property '$Property'", expected,
      s"set the property to such a table, or remove it with ALTER TABLE ... UNSET TBLPROPERTIES ('$Property'); nothing has been inserted")
    val catalog = Compat.catalog(session)
    val identifier = Compat.tableNamed(session, name)
    if (!catalog.tableExists(identifier)) throw refused(s"the table $name, which does not exist,", "an existing table with a range column")
    val found = catalog.getTableMetadata(identifier)
    def names(of: FileStatisticsColumns) = Seq(of.partition, of.implicitPartition).map(_.fieldNames.map(_.toLowerCase(java.util.Locale.ROOT)).toSeq)
    val others = FileStatisticsColumns(found)
    if (others.organized.isEmpty || names(others) != names(columns))
      throw refused(s"the table $name", "a table with a range column, and with the same partition and implicit partition columns")
    found
  }

  /** Returns the group and the minimum of each file of the other table, with the column types of the table. */
  private def lowersOf(session: SparkSession, other: CatalogTable, columns: FileStatisticsColumns): Seq[(Seq[Any], Any)] = {
    val of = FileStatisticsColumns(other)
    val statistics = FileStatistics.read(session, other)
    for {
      directory <- CurrentFiles.now(session, other)
      file <- directory.files
      stats <- statistics.toSeq.flatMap(_.of(file.fileStatus)) if of.describe(stats)
      lower <- Option(converted(stats.column(of.organized.head).lower, of.organized.head, columns.organized.head)).toSeq
    } yield {
      val partition = all(directory.values.copy().toSeq(of.partition), of.partition, columns.partition)
      val implicitPartition = all(of.implicitPartition.map(stats.column(_).lower), of.implicitPartition, columns.implicitPartition)
      (GroupKey.ofPartition(partition) ++ GroupKey.of(implicitPartition), lower)
    }
  }

  private def all(values: Seq[Any], from: StructType, to: StructType): Seq[Any] =
    values.zip(from.zip(to)).map { case (value, (from, to)) => converted(value, from, to) }

  private def converted(value: Any, from: StructField, to: StructField): Any = if (from.dataType == to.dataType) value
    else if (!Cast.canCast(from.dataType, to.dataType)) null
    else Cast(Literal(value, from.dataType), to.dataType, Some(SQLConf.get.sessionLocalTimeZone), EvalMode.TRY).eval()
}

/** The size or the number of the files of an organized table, from its properties. An invalid value is an error. */
class FileSizes(table: CatalogTable) {

  /** The number of rows of a file, if it does not depend on the existing files. */
  def rowsPerFile(bytesPerRow: => Double): Option[Long] =
    property("bucketing.rows_per_file").orElse(property("bucketing.target_file_size").map(bytes => (bytes / math.max(0.01, bytesPerRow)).toLong.max(1)))

  def numFiles: Option[Long] = property("bucketing.num_files")
  def filesPerPartition: Option[Long] = property("bucketing.files_per_partition")

  private def property(key: String): Option[Long] = table.properties.get(key).map { text =>
    Try(text.trim.toLong).toOption.filter(_ > 0).getOrElse(throw Compat.refusal(s"Cannot write files of ${table.identifier.quotedString}.",
      s"the table property '$key' = '$text'", "a positive integer", "set the property with ALTER TABLE ... SET TBLPROPERTIES; nothing has been written"))
  }
}

object FileSizes {
  def defaultRowsPerFile(bytesPerRow: Double): Long = (DefaultSize / math.max(0.01, bytesPerRow)).toLong.max(1)

  private val DefaultSize: Long = 128L << 20
}

/**
 * The number of files of each group of new rows.
 *
 * @param groups the number of rows of each group
 */
class FileCounts(table: CatalogTable, groups: Map[InsertedGroup, Long], bytesPerRow: () => Double) {

  private val Maximum = 100000
  private val sizes = new FileSizes(table)
  // Rows with NULL have their own file.
  private lazy val all = groups.collect { case (group, rows) if !group.isNull => rows }.sum
  private lazy val bytes = bytesPerRow()
  private lazy val rowsPerFile: Long = sizes.rowsPerFile(bytes).getOrElse(FileSizes.defaultRowsPerFile(bytes))

  def of(group: InsertedGroup): Int = if (group.isNull) 1 else {
    val rows = groups(group)
    val files = sizes.filesPerPartition.orElse(sizes.numFiles.map(number => math.round(number.toDouble * rows / all)))
      .getOrElse((rows + rowsPerFile - 1) / rowsPerFile)
    math.min(math.min(rows, math.max(1, files)), Int.MaxValue).toInt
  }

  def check(): Unit = {
    val files = groups.keysIterator.map(of(_).toLong).sum
    if (files > Maximum) throw Compat.refusal(s"Cannot write into ${table.identifier.quotedString}.",
      f"$files%,d files for ${groups.values.sum}%,d rows in ${groups.size}%,d groups", f"at most $Maximum%,d files in one statement",
      "write larger files, or use a coarser `partition_by`; nothing has been inserted")
  }
}
