package org.apache.spark.sql.bucketing
package read

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.internal.SQLConf

/**
 * Reads several small buckets as one, where there are more of them than work for their tasks: a thousand buckets of a
 * few rows are a thousand tasks, where Spark's own scan puts many files into one task, and adaptive execution many small
 * partitions of a shuffle.
 *
 * There stay a task for each core, and tasks that can merge their files, so that no sort comes back; and enough for the
 * plain tables of the query, whose rows may be moved into as many. All scans of a query are read as about as many partitions,
 * so that tables that were written for each other still fit together.
 */
object SmallBuckets {

  def apply(plan: SparkPlan): SparkPlan = if (BucketingConf.partitionBytes <= 0) plan else {
    // As long as a query runs this stays: what is planned later has to fit what has run.
    val wanted = OncePerQuery("tasks")((plan.collect { case scan: BucketScan => tasks(scan) } :+ ofOthers(plan)).max)
    plan.transformUp {
      case scan: BucketScan if scan.read.partitions > wanted => scan.as(divisor(scan.read.of.buckets, wanted))
    }
  }

  private def ofOthers(plan: SparkPlan): Long =
    tasks(BucketTasks.bytesOf(plan), SQLConf.get.getConf(SQLConf.ADVISORY_PARTITION_SIZE_IN_BYTES))

  /** The fewest tasks that are worth having for a scan. */
  private def tasks(scan: BucketScan): Long = {
    val listing = scan.selectedPartitions
    Seq(scan.session.sparkContext.defaultParallelism.toLong, tasks(listing.totalFileSize, BucketingConf.partitionBytes),
      if (scan.read.of.sorts.isEmpty) 1L else tasks(listing.totalNumberOfFiles, BucketingConf.mergeFiles.max(1))).max
  }

  private def tasks(all: Long, most: Long): Long = all / most + (if (all % most == 0) 0 else 1)

  private def divisor(buckets: Int, atLeast: Long): Int =
    (1 to buckets).find(n => n >= atLeast && buckets % n == 0).getOrElse(buckets)
}
