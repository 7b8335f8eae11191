package org.apache.spark.sql.bucketing
package dml

import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.write._
import org.apache.spark.sql.types.StructField

/** The new files of an organized table. The rows of a range stay together, small ranges are combined, and large ranges are split. */
class RangeRewrite(
    session: SparkSession, statement: ChangeRows, snapshot: OrganizedSnapshot, changed: RowQueries, touched: Touched)
    extends FileRewrite(session, statement, snapshot, changed, touched) {

  private val FilesPerTask = 8

  private val organized = snapshot.columns
  private val ranges = snapshot.places.ranges
  private val bins: Seq[CompactionBin] = CompactionBins.of(touchedRanges(touched.changes), snapshot.rowsPerFile)
  private val boundaries: Array[Array[Any]] = bins.map(boundariesOf).toArray
  private val binOfSlot: IndexedSeq[Int] = bins.indices.flatMap(i => Seq.fill(boundaries(i).length + 1)(i))

  override protected val slots: IndexedSeq[Slot] = binOfSlot.map { i =>
    val bytes = bins(i).rows.fold(bins(i).files.map(_.status.getLen).sum.toDouble)(_ * snapshot.bytesPerRow)
    val limit = bins(i).rows.fold(snapshot.rowsPerFile)(rows => if (bins(i).numFiles > 1) (rows + bins(i).numFiles - 1) / bins(i).numFiles else Long.MaxValue)
    Slot(bins(i).group.take(depth), bytes / (boundaries(i).length + 1), limit, None)
  }

  override val old: Seq[TableFile] = bins.flatMap(_.files)

  override protected val read: Seq[TableFile] = bins.flatMap(_.ranges).filterNot(range => range.rows == 0 && range.isDeleted).flatMap(_.files)

  override protected val order: Seq[StructField] = organized.implicitPartition ++ organized.organized

  /** Returns the touched ranges, and the other ranges of the same groups. */
  private def touchedRanges(changes: ChangeCounts): Seq[RangeRows] = {
    val removed = changes.removed.toMap
    val groups = changes.added.keySet.map(_.group) ++ removed.keys.map(snapshot.files(_).cell.group)
    val byCell = snapshot.files.filter { file =>
      groups(file.cell.group) && (file.cell.range != Cell.Unknown || removed.contains(file.id))
    }.groupBy(_.cell)
    (byCell.keySet ++ changes.added.keySet).toSeq.map { cell =>
      val files = byCell.getOrElse(cell, Nil)
      val added = changes.added.get(cell)
      RangeRows(cell, files, files.flatMap(file => removed.get(file.id)).sum, !files.exists(file => changes.rewritten(file.id)), added.fold(0L)(_.rows), added.fold(Seq.empty[Any])(_.samples.toSeq))
    }
  }

  /** Returns values that split a bin of many files, so that several tasks write it. */
  private def boundariesOf(bin: CompactionBin): Array[Any] = {
    val parts = (bin.numFiles / FilesPerTask).toInt
    if (parts < 2 || bin.samples.size < parts) Array.empty else ranges.order.quantiles(bin.samples, parts)
  }

  override protected def routing: SlotRouting = {
    val first = boundaries.scanLeft(0)(_ + _.length + 1)
    val ofFiles = for ((bin, i) <- bins.zipWithIndex; file <- bin.files) yield file.id -> i
    val ofCells = for ((bin, i) <- bins.zipWithIndex; range <- bin.ranges) yield range.cell -> i
    new RangeRouting(snapshot.places, ofFiles.toMap, ofCells.toMap, first, boundaries)
  }

  override protected def columns: FileColumns = FileColumns(data, organized.implicitPartition.map(at), organized.organized.headOption.map(at))

  override protected def checkWritten(files: Seq[NewFile]): Unit = {
    val written = files.groupBy(file => binOfSlot(file.slot)).map { case (bin, of) => bin -> of.map(_.sums.rows).sum }
    refuse(bins.indices.count(i => bins(i).rows.exists(_ != written.getOrElse(i, 0L))) -> "range(s) whose row count is wrong")
  }

  override def record(files: Seq[NewFile], folder: Path, written: Seq[FileStatus]): Unit =
    new FileStatisticsWriter(session, snapshot.table).write(folder, files.zip(written).map { case (file, status) => (file, slots(file.slot).partition, status) })

  override def check(files: Seq[NewFile], stored: Stored): Unit = {
    val known = bins.filter(_.rows.nonEmpty).flatMap(_.files)
    val counted = sums(known, stored)
    val damaged = known.count { file =>
      val (found, expected) = (counted(file.id), file.known.get)
      found.rows != expected.rows || found.hashes != expected.checksum.toBigDecimal.toBigInt
    }
    val written = files.groupBy(file => binOfSlot(file.slot))
    val wrong = bins.zipWithIndex.count { case (bin, i) =>
      val found = FileSums.total(written.getOrElse(i, Nil).map(_.sums))
      bin.rows.nonEmpty && !found.hasSameKept(FileSums.total(bin.files.map(file => counted(file.id))))
    }
    refuse(damaged -> "old file(s) that differ from their file statistics", wrong -> "range(s) whose row count or checksum is wrong")
  }

  private def refuse(problems: (Int, String)*): Unit = {
    val name = snapshot.table.identifier.unquotedString
    refuse(s"check the file statistics with `spark-bucketing table verify --deep $name`, and rebuild them with `spark-bucketing table stats --repair $name`", problems: _*)
  }
}

/**
 * The rows of a range after a statement.
 *
 * @param files the current files of the range; none if it is new
 * @param removed the number of rows that the statement deletes or updates
 * @param isDeleted whether it updates none of them
 * @param added the number of rows that it adds
 * @param samples some values of the added rows in the range column
 */
case class RangeRows(cell: Cell, files: Seq[TableFile], removed: Long, isDeleted: Boolean, added: Long, samples: Seq[Any]) {
  val rows: Long = files.flatMap(_.known).map(_.rows).sum - removed + added
  def isTouched: Boolean = removed + added > 0
  def isNew: Boolean = files.isEmpty
}

/**
 * Ranges whose rows are written together. The new files of a bin have disjoint ranges.
 *
 * @param rows the number of rows; None if a file has no statistics
 * @param numFiles the number of new files
 */
case class CompactionBin(group: Seq[Any], ranges: Seq[RangeRows], rows: Option[Long], numFiles: Long) {
  def files: Seq[TableFile] = ranges.flatMap(_.files)
  def samples: Seq[Any] = ranges.flatMap(_.samples)
}

object CompactionBins {

  /**
   * Returns the bins of all touched files. Files with NULLs in the range column and files without statistics have separate bins. A bin
   * without rows has no new files.
   *
   * @param ranges the ranges of all groups with a touched range
   * @param target the target number of rows of a file
   */
  def of(ranges: Seq[RangeRows], target: Long): Seq[CompactionBin] = ranges.groupBy(_.cell.group).toSeq.flatMap { case (group, of) =>
    val (alone, others) = of.partition(range => range.cell.range < 0 || range.rows == 0)
    val single = alone.filter(_.isTouched).map { range =>
      if (range.cell.range == Cell.Unknown) CompactionBin(group, Seq(range), None, 1)
      else CompactionBin(group, Seq(range), Some(range.rows), math.min(1, range.rows))
    }
    single ++ new CompactionBins(others.sortBy(_.cell.range).toIndexedSeq, target).bins.map { of =>
      val rows = of.map(_.rows).sum
      CompactionBin(group, of, Some(rows), numFiles(rows, of.size == 1, target))
    }
  }

  /** A single range stays one file up to twice the target. */
  private def numFiles(rows: Long, isAlone: Boolean, target: Long): Long =
    if (!isAlone) math.max(1, math.round(rows.toDouble / target))
    else if (rows <= 2 * target) 1
    else (rows + target - 1) / target
}

/**
 * Combines ranges that would become small files. To prevent files from shrinking with every statement, it also touches small
 * neighbors: a file with less than half of the target rows next to a touched range. If a bin still has less than half of the target
 * rows, it takes the file before it or, if there is none, the file after it. It never takes a file with more than twice the target rows: such
 * a file may consist of a single value, and every statement would rewrite it.
 *
 * @param ranges the ranges of a group with rows, in order
 */
private class CompactionBins(ranges: IndexedSeq[RangeRows], target: Long) {

  private val size = ranges.size
  private val changed = ranges.map(_.isTouched).toArray
  private def isSmall(i: Int) = ranges(i).rows * 2 < target
  private def isOversized(i: Int) = ranges(i).rows > 2 * target

  def bins: Seq[Seq[RangeRows]] = {
    def isChanged(i: Int) = i >= 0 && i < size && changed(i)
    val touched = Array.tabulate(size)(i => changed(i) || isSmall(i) && !ranges(i).isNew && (isChanged(i - 1) || isChanged(i + 1)))
    val neighbors = runs(touched).filter { run =>
      run.exists(!ranges(_).isNew) && run.map(ranges(_).rows).sum * 2 < target
    }.flatMap(run => Seq(run.head - 1, run.last + 1).find(i => i >= 0 && i < size && !isOversized(i)))
    neighbors.foreach(touched(_) = true)
    runs(touched).map(_.map(ranges))
  }

  /** Returns the runs of adjacent touched ranges. A range and the range before it are in one run if one of them is small. */
  private def runs(touched: Array[Boolean]): Seq[Range] = {
    val starts = (0 until size).filter(i => touched(i) && !(i > 0 && touched(i - 1) && (isSmall(i) || isSmall(i - 1))))
    starts.zip(starts.drop(1) :+ size).map { case (start, next) => start until (start until next).takeWhile(touched(_)).last + 1 }
  }
}
