package org.apache.spark.sql.bucketing
package read

import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.internal.SQLConf

/**
 * Reads several small buckets as one, where there are more of them than work for their tasks: a thousand buckets of a
 * few rows are a thousand tasks, where Spark's own scan puts many files into one task, and adaptive execution many small
 * partitions of a shuffle.
 *
 * There stay a task for each core, and tasks that can merge their files, so that no sort comes back; and enough for the rows
 * that joins move into as many. Tables whose numbers of buckets fit are read as the same number, so that they still fit.
 */
object SmallBucketCoalescing {

  def apply(plan: SparkPlan): SparkPlan = if (BucketingConf.partitionBytes <= 0) plan else {
    // As long as a query runs this stays: what is planned later has to fit what has run.
    val wanted = PerQueryCache("tasks")((1L +: plan.collect { case scan: BucketScan => tasks(scan) } ++: ofOthers(plan)).max)
    val numbers = plan.collect { case scan: BucketScan => scan.read.of.buckets }.toSet
    plan.transformUp {
      case scan: BucketScan if scan.read.partitions > wanted =>
        val common = alike(Set(scan.read.of.buckets), numbers).map(BigInt(_)).reduce(_ gcd _).toInt
        divisor(common, wanted).fold(scan)(scan.as)
    }
  }

  /** Tasks for what is moved into buckets. What nobody knows the size of may be large: then each bucket stays a task. */
  private def ofOthers(plan: SparkPlan): Seq[Long] = {
    val advised = SQLConf.get.getConf(SQLConf.ADVISORY_PARTITION_SIZE_IN_BYTES)
    BucketTasks.joins(plan).filter(_.inPlace.nonEmpty).flatMap(_.moved).map(BucketTasks.bytesOf(_).fold(Long.MaxValue)(tasks(_, advised)))
  }

  /** The fewest tasks that are worth having for a scan. */
  private def tasks(scan: BucketScan): Long = {
    Seq(BucketTasks.cores(scan.session).toLong, tasks(scan.bytes, BucketingConf.partitionBytes),
      if (scan.read.of.sorts.isEmpty) 1L else tasks(scan.numFiles, BucketingConf.mergeFiles.max(1))).max
  }

  private def tasks(all: Long, most: Long): Long = all / most + (if (all % most == 0) 0 else 1)

  /** Numbers of buckets that fit these, or fit such ones. */
  @scala.annotation.tailrec
  private def alike(these: Set[Int], all: Set[Int]): Set[Int] = {
    val more = all.filter(n => these.exists(m => n % m == 0 || m % n == 0))
    if (more == these) these else alike(more, all)
  }

  private def divisor(buckets: Int, atLeast: Long): Option[Int] =
    (1 to buckets).find(n => n >= atLeast && buckets % n == 0)
}
