package org.apache.spark.sql.bucketing.dml

import java.lang.management.ManagementFactory

import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.sql.bucketing.metadata.{ColumnStats, FileStats}
import org.apache.spark.sql.bucketing.read.FileRangeFilter
import org.apache.spark.sql.bucketing.write.GroupKey
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{And, AttributeReference, GreaterThan, LessThan, Literal}
import org.apache.spark.sql.types.{Decimal, LongType, StructField}

/** Plans a statement over the statistics of many files, as its driver does. Prints the milliseconds of CPU time, and the MiB that the plan occupies. */
object ManyFiles {

  private val (files, filesOfPartition) = (100000, 500)
  private val column = StructField("o", LongType)

  def main(arguments: Array[String]): Unit = {
    val known = (0 until files).map { i =>
      val lower = (i % filesOfPartition) * 1000L
      FileStats(1000, 1, 1000, Decimal(0), Map("o" -> ColumnStats(LongType, lower, lower + 999, 0)))
    }
    for (_ <- 1 to 3) {
      val (before, start) = (used, cpu)
      val plan = planned(known)
      val milliseconds = (cpu - start) / 1000000
      println(s"$milliseconds ${used - before} ${plan.map(_.size).mkString(" ")}")
    }
  }

  /** Returns the files of the snapshot, the files that a condition selects, and the bins for changes in each third file. */
  private def planned(known: Seq[FileStats]): Seq[Seq[Any]] = {
    val groups = known.indices.map(i => GroupKey.of(Seq[Any](i / filesOfPartition)))
    val ranges = FileRanges(Some(column), groups.zip(known))
    val all = known.indices.map { i =>
      val cell = Cell(groups(i), ranges.rangeOf(groups(i), known(i).column(column)))
      TableFile(i, new FileStatus(1000, false, 1, 1, 1, new Path(s"/t/p=${i / filesOfPartition}/part-$i")), InternalRow(i / filesOfPartition), Some(known(i)), cell)
    }
    val o = AttributeReference("o", LongType)()
    val mayMatch = FileRangeFilter.mayMatch(Seq(And(GreaterThan(o, Literal(4999L)), LessThan(o, Literal(6000L)))))
    KeyCandidates(all, Seq(0), Some(column))
    val rows = all.groupBy(_.cell).toSeq.map { case (cell, of) => RangeRows(cell, of, if (cell.range % 3 == 0) 600 else 0, isDeleted = true, 0, Nil) }
    Seq(all, all.filter(file => mayMatch(file.known.get)), CompactionBins.of(rows, 1000))
  }

  private def cpu: Long = ManagementFactory.getThreadMXBean.getCurrentThreadCpuTime

  private def used: Long = {
    System.gc()
    (Runtime.getRuntime.totalMemory - Runtime.getRuntime.freeMemory) >> 20
  }
}
