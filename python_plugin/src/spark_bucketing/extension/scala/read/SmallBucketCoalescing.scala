package org.apache.spark.sql.bucketing
package read

import org.apache.spark.sql.bucketing.hash.BucketCounts
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.internal.SQLConf

/**
 * Reads several small buckets in one task. Otherwise, 1,000 buckets with a few rows each would need 1,000 tasks. Similarly,
 * Spark's own scan combines small files, and adaptive execution combines small shuffle partitions.
 *
 * There is at least one task per core, and there are enough tasks for the rows that joins shuffle. Each task must be able to
 * merge its files, so that Spark adds no sort. Tables with compatible numbers of buckets get the same number of partitions, so that
 * they stay compatible.
 */
object SmallBucketCoalescing {

  def apply(plan: SparkPlan): SparkPlan = if (BucketingConf.partitionBytes <= 0) plan else {
    // Use the same number of tasks for the whole query, because later stages must match stages that have already run.
    val wanted = PerQueryCache("tasks")((1L +: plan.collect { case scan: BucketScan => tasks(scan) } ++: ofOthers(plan) ++: ofUnions(plan)).max)
    val numbers = plan.collect { case scan: BucketScan => scan.read.of.buckets }.toSet
    plan.transformUp {
      case scan: BucketScan if scan.read.partitions > wanted =>
        val common = BucketCounts.common(compatible(Set(scan.read.of.buckets), numbers))
        divisor(common, wanted).fold(scan)(scan.as)
    }
  }

  /**
   * Returns the number of tasks for each input that Spark shuffles into buckets. An input of unknown size may be large, so it
   * gets one task per bucket.
   */
  private def ofOthers(plan: SparkPlan): Seq[Long] = {
    val advised = SQLConf.get.getConf(SQLConf.ADVISORY_PARTITION_SIZE_IN_BYTES)
    BucketTasks.joins(plan).filter(_.inPlace.nonEmpty).flatMap(_.moved).map(BucketTasks.bytesOf(_).fold(Long.MaxValue)(tasks(_, advised)))
  }

  /** Returns the number of tasks of each input of a union that Spark shuffles into buckets. */
  private def ofUnions(plan: SparkPlan): Seq[Long] = plan.collect { case union: BucketUnionExec =>
    union.children.filterNot(_.exists(_.isInstanceOf[BucketScan])).map(_.outputPartitioning.numPartitions.toLong)
  }.flatten

  /** Returns the minimum number of tasks for a scan. */
  private def tasks(scan: BucketScan): Long = {
    Seq(BucketTasks.cores(scan.session).toLong, tasks(scan.bytes, BucketingConf.partitionBytes),
      if (scan.read.of.sorts.isEmpty) 1L else tasks(scan.numFiles, BucketingConf.mergeFiles.max(1))).max
  }

  private def tasks(all: Long, most: Long): Long = all / most + (if (all % most == 0) 0 else 1)

  /** Extends the given numbers by all numbers that divide, or are multiples of, a number already in the result. */
  @scala.annotation.tailrec
  private def compatible(these: Set[Int], all: Set[Int]): Set[Int] = {
    val more = all.filter(n => these.exists(BucketCounts.areCompatible(_, n)))
    if (more == these) these else compatible(more, all)
  }

  private def divisor(buckets: Int, atLeast: Long): Option[Int] =
    (1 to buckets).find(n => n >= atLeast && buckets % n == 0)
}
