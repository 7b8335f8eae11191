package org.apache.spark.sql.bucketing
package dml

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
