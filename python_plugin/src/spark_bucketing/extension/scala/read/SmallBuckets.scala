package org.apache.spark.sql.bucketing
package read

import org.apache.spark.sql.execution.SparkPlan

/**
 * Reads several small buckets as one, where there are more of them than work for their tasks: a thousand buckets of a
 * few rows are a thousand tasks, where Spark's own scan puts many files into one task, and adaptive execution many small
 * partitions of a shuffle.
 *
 * There stay a task for each core, and tasks that can merge their files, so that no sort comes back. All scans of a query
 * are read as about as many partitions, so that tables that were written for each other still fit together.
 */
object SmallBuckets {

  def apply(plan: SparkPlan): SparkPlan = if (BucketingConf.partitionBytes <= 0) plan else {
    val wanted = plan.collect { case scan: BucketScan => tasks(scan) }.maxOption.getOrElse(0L)
    plan.transformUp {
      case scan: BucketScan if scan.read.partitions > wanted => scan.as(divisor(scan.read.of.buckets, wanted))
    }
  }

  /** The fewest tasks that are worth having for a scan. */
  private def tasks(scan: BucketScan): Long = {
    val listing = scan.selectedPartitions
    def each(all: Long, most: Long): Long = (all + most - 1) / most
    Seq(scan.session.sparkContext.defaultParallelism.toLong, each(listing.totalFileSize, BucketingConf.partitionBytes),
      if (scan.read.of.sorts.isEmpty) 1L else each(listing.totalNumberOfFiles, BucketingConf.mergeFiles.max(1))).max
  }

  private def divisor(buckets: Int, atLeast: Long): Int =
    (1 to buckets).find(n => n >= atLeast && buckets % n == 0).getOrElse(buckets)
}
