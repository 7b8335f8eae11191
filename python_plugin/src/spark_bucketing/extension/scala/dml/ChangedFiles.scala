package org.apache.spark.sql.bucketing
package dml

import java.util.UUID

import scala.collection.mutable

import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.TaskContext
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.ddl.{FileReplacement, Move}
import org.apache.spark.sql.bucketing.metadata.FileStatistics
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project, Sort}
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * A part of a bin that one task writes.
 *
 * @param rows the approximate number of rows
 * @param limit the number of rows of a file
 */
private case class Slot(bin: Int, rows: Long, limit: Long)

/**
 * Writes the new files of a statement.
 *
 * @param folder the directory of the new files
 */
class ChangedFiles(session: SparkSession, statement: ChangeRows, snapshot: TableSnapshot, changed: ChangedRows, bins: Seq[CompactionBin], folder: Path) {

  private val columns = snapshot.columns
  private val target = statement.target.output
  private val depth = columns.partition.size
  private val boundaries: Array[Array[Any]] = bins.map(boundariesOf).toArray
  private val slots: IndexedSeq[Slot] = bins.indices.flatMap { i =>
    val parts = boundaries(i).length + 1
    val rows = bins(i).rows.getOrElse(bins(i).files.map(_.status.getLen / snapshot.bytesPerRow).sum.toLong)
    val limit = bins(i).rows.fold(snapshot.rowsPerFile)(rows => if (bins(i).numFiles > 1) (rows + bins(i).numFiles - 1) / bins(i).numFiles else Long.MaxValue)
    Seq.fill(parts)(Slot(i, rows / parts, limit))
  }

  /** Returns values that split a bin of many files, so that several tasks write it. */
  private def boundariesOf(bin: CompactionBin): Array[Any] = {
    val parts = (bin.numFiles / ChangedFiles.FilesPerTask).toInt
    val (samples, order) = (bin.samples, snapshot.ranges.order)
    if (parts < 2 || samples.size < parts) Array.empty else {
      val sorted = samples.toArray[Any].sorted(order.ordering)
      (1 until parts).map(i => sorted((i.toLong * sorted.length / parts).toInt)).foldLeft(Vector.empty[Any]) { (all, value) =>
        if (all.lastOption.exists(order.ordering.gteq(_, value))) all else all :+ value
      }.toArray
    }
  }

  /** Writes the rows in one job, and checks that the bins have the expected number of rows. */
  def write(touched: Touched, stored: Stored): Seq[NewFile] = {
    val read = bins.flatMap(_.ranges).filterNot(range => range.rows == 0 && range.isDeleted).flatMap(_.files)
    if (read.isEmpty && touched.counts.inserted == 0) Nil else {
      val plan = sorted(changed.content(read, touched.unmatched))
      val writer = new NewFiles(opener, rowsToWrite(plan.output), slots.map(_.limit).toArray, slots.map(slot => folderOf(bins(slot.bin)).toString).toArray, UUID.randomUUID.toString)
      val files = session.sparkContext.runJob(stored.rows(plan), (task: TaskContext, rows: Iterator[InternalRow]) => writer.write(task, rows)).toSeq.flatten
      val written = files.groupBy(file => slots(file.slot).bin).map { case (bin, of) => bin -> of.map(_.rows).sum }
      val wrong = bins.indices.filter(i => bins(i).rows.exists(_ != written.getOrElse(i, 0L)))
      if (wrong.nonEmpty) throw unexpected(Seq(s"${wrong.size} range(s) whose row count is wrong"))
      files
    }
  }

  private def sorted(content: LogicalPlan): LogicalPlan = {
    val (rows, rest) = content.output.splitAt(target.size)
    val slot = Alias(SlotOf(rest, depth + columns.implicitPartition.size, routing), "slot")()
    val project = Project(rows ++ Seq(slot, Alias(ChangedRows.hash(rows), "hash")(), rest(1)), content)
    val order = (slot.toAttribute +: (columns.implicitPartition ++ columns.organized).map(column => rows(at(column)))).map(SortOrder(_, Ascending))
    Sort(order, global = false, RowsBySlot(slot.toAttribute, tasks, project))
  }

  private def routing: SlotRouting = {
    val first = boundaries.scanLeft(0)(_ + _.length + 1)
    val ofFiles = for ((bin, i) <- bins.zipWithIndex; file <- bin.files) yield file.id -> i
    val ofCells = for ((bin, i) <- bins.zipWithIndex; range <- bin.ranges) yield range.cell -> i
    new SlotRouting(snapshot.ranges, ofFiles.toMap, ofCells.toMap, first, boundaries)
  }

  /** Returns the task of each slot. Few tasks write many small files, and each core has several tasks. */
  private def tasks: Seq[Int] = {
    val total = slots.map(_.rows).sum
    val number = math.max(ChangedFiles.TasksPerCore * session.sparkContext.defaultParallelism, (total * snapshot.bytesPerRow / ChangedFiles.BytesPerTask).toLong).max(1)
    val size = math.max(1, (total + number - 1) / number)
    slots.map(_.rows).scanLeft(0L)(_ + _).init.map(_ / size).foldLeft((Vector.empty[Int], -1L, -1)) { case ((all, last, task), place) =>
      val next = if (place == last) task else task + 1
      (all :+ next, place, next)
    }._1
  }

  private def at(column: StructField): Int = target.indexWhere(_.name.equalsIgnoreCase(column.name))

  private def rowsToWrite(output: Seq[Attribute]) = RowsToWrite(output.map(_.dataType).toArray, statement.files.dataSchema.map(at).toArray,
    columns.implicitPartition.map(at).toArray, columns.organized.headOption.map(at), target.size)

  private def opener = FileOpener(session, statement.files.fileFormat, statement.files.options, statement.files.dataSchema.asNullable)

  /** The directories of the partitions that have files. */
  private lazy val folders: Map[Seq[Any], Path] = snapshot.files.map(file => file.cell.group.take(depth) -> file.status.getPath.getParent).toMap
  private lazy val numbers: Map[Seq[Any], Int] = bins.map(_.group.take(depth)).distinct.zipWithIndex.toMap
  private def folderOf(bin: CompactionBin): Path = new Path(folder, numbers(bin.group.take(depth)).toString)

  def move(file: NewFile, replacement: FileReplacement): Move = {
    val (from, partition) = (new Path(file.path), bins(slots(file.slot).bin).group.take(depth))
    if (depth == 0) Move(from, replacement.pathInTable(from.getName), None, isNewPartition = false)
    else folders.get(partition).fold(replacement.moveToNew(from, spec(partition)))(folder => Move(from, new Path(folder, from.getName), None, isNewPartition = false))
  }

  private def spec(values: Seq[Any]): TablePartitionSpec = columns.partition.zip(values).map { case (column, value) =>
    val text = Cast(Literal.create(GroupKey.valueOf(value, column.dataType), column.dataType), StringType, Some(SQLConf.get.sessionLocalTimeZone)).eval()
    column.name -> Option(text).fold(ExternalCatalogUtils.DEFAULT_PARTITION_NAME)(_.toString)
  }.toMap

  /** Writes the statistics of the new files. */
  def record(files: Seq[NewFile], name: String, location: Path, written: Seq[FileStatus]): Unit = if (files.nonEmpty) {
    val schema = StructType(columns.attributes.filter(_.name != "path").map(column => StructField(column.name, column.dataType)))
    val opener = FileOpener(session, new ParquetFileFormat, Map.empty, schema)
    val context = opener.context(0, 0)
    val part = new Path(folder, s"statistics/part-00000${opener.extension(context)}")
    val project = UnsafeProjection.create(schema.map(_.dataType).toArray)
    val writer = opener.open(part, context)
    try files.zip(written).foreach { case (file, status) => writer.write(project(statistics(file, status))) } finally writer.close()
    val fs = part.getFileSystem(Compat.hadoopConf(session))
    val parts = new Path(location, FileStatistics.Folder)
    fs.mkdirs(parts)
    if (!fs.rename(part.getParent, new Path(parts, name))) throw new java.io.IOException(s"${part.getParent} cannot be renamed to $parts/$name")
  }

  private def statistics(file: NewFile, status: FileStatus): InternalRow = {
    def struct(of: StructType, values: Seq[Any]) = if (of.isEmpty) Nil else Seq(InternalRow.fromSeq(values))
    val partition = bins(slots(file.slot).bin).group.take(depth).zip(columns.partition).map { case (value, column) => GroupKey.valueOf(value, column.dataType) }
    InternalRow.fromSeq(Seq(UTF8String.fromString(FileStatistics.lastNames(status.getPath, depth)), status.getLen, status.getModificationTime * 1000)
      ++ struct(columns.partition, partition) ++ struct(columns.implicitPartition, file.implicitPartition)
      ++ struct(columns.organized, Seq(file.lower)) ++ struct(columns.organized, Seq(file.upper))
      ++ Seq(if (columns.organized.isEmpty) null else file.nulls, file.rows, Decimal(BigDecimal(file.hashes), 38, 0)))
  }

  /** Reads the touched files again, and compares them with their statistics and with the rows that the new files keep. */
  def check(files: Seq[NewFile], stored: Stored): Unit = {
    val known = bins.filter(_.rows.nonEmpty).flatMap(_.files)
    val isKept = changed.isUpdate.indices.map(_ == 0)
    val counted = stored.rows(changed.hashed(known)).mapPartitions { rows =>
      val sums = mutable.HashMap.empty[Int, FileSum]
      rows.foreach(row => sums.getOrElseUpdate(row.getInt(0), new FileSum).add(row.getLong(2), isKept(row.getInt(1))))
      Iterator(sums.map { case (file, sum) => file -> sum.value })
    }.collect().toSeq.flatten.groupBy(_._1).map { case (file, of) => file -> of.map(_._2).reduce(_ + _) }
    val nothing = FileSums(0, 0, 0, 0)
    val damaged = known.count { file =>
      val (found, expected) = (counted.getOrElse(file.id, nothing), file.known.get)
      found.rows != expected.rows || found.hashes != expected.checksum.toBigDecimal.toBigInt
    }
    val written = files.groupBy(file => slots(file.slot).bin)
    val wrong = bins.zipWithIndex.count { case (bin, i) =>
      val kept = bin.files.map(file => counted.getOrElse(file.id, nothing)).foldLeft(nothing)(_ + _)
      val found = written.getOrElse(i, Nil)
      bin.rows.nonEmpty && (found.map(_.kept).sum != kept.kept || found.map(_.keptHashes).sum != kept.keptHashes)
    }
    val problems = Seq(damaged -> "old file(s) that differ from their file statistics", wrong -> "range(s) whose row count or checksum is wrong")
      .filter(_._1 > 0).map { case (number, words) => s"$number $words" }
    if (problems.nonEmpty) throw unexpected(problems)
  }

  private def unexpected(problems: Seq[String]) = {
    val name = snapshot.table.identifier.unquotedString
    Compat.refusal(s"Cannot change rows of ${snapshot.table.identifier.quotedString}.", s"${problems.mkString("; ")}; the table is unchanged",
      "the rows of the replaced files, merged with the new rows", s"check the file statistics with `spark-bucketing table verify --deep $name`, " +
      s"and rebuild them with `spark-bucketing table stats --repair $name`")
  }
}

private object ChangedFiles {
  val FilesPerTask = 8
  val TasksPerCore = 3
  val BytesPerTask: Long = 128L << 20
}

/** Row counts and sums of hashes of a file; `kept` counts the rows that the statement keeps. */
private case class FileSums(rows: Long, hashes: BigInt, kept: Long, keptHashes: BigInt) {
  def +(other: FileSums): FileSums = FileSums(rows + other.rows, hashes + other.hashes, kept + other.kept, keptHashes + other.keptHashes)
}

private class FileSum {
  private var (rows, kept) = (0L, 0L)
  private val (hashes, keptHashes) = (new HashSum, new HashSum)

  def add(hash: Long, isKept: Boolean): Unit = {
    rows += 1
    hashes.add(hash)
    if (isKept) {
      kept += 1
      keptHashes.add(hash)
    }
  }

  def value: FileSums = FileSums(rows, hashes.value, kept, keptHashes.value)
}
