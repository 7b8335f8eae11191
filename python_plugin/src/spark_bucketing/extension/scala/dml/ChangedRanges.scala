package org.apache.spark.sql.bucketing
package dml

import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.write._
import org.apache.spark.sql.types.StructField

/** The new files of an organized table. The rows of a range stay together, small ranges are combined, and large ranges are split. */
class ChangedRanges(
    session: SparkSession, statement: ChangeRows, snapshot: OrganizedSnapshot, changed: ChangedRows, touched: Touched)
    extends ChangedFiles(session, statement, snapshot, changed, touched) {

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
  private def touchedRanges(changes: Changes): Seq[RangeRows] = {
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

  override protected def checkWritten(files: Seq[NewFile], stored: Stored): Unit = {
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
