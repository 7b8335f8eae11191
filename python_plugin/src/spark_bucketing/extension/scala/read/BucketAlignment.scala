package org.apache.spark.sql.bucketing
package read

import org.apache.spark.sql.bucketing.hash.BucketCounts
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.joins.{ShuffledHashJoinExec, SortMergeJoinExec}
import org.apache.spark.sql.internal.SQLConf

/**
 * Aligns the two sides of a one-to-many bucket join, which have N and k x N buckets. A row that is in bucket b of k x N buckets
 * would be in bucket b mod N of N buckets. Therefore, two plans without a shuffle are possible:
 *
 *  - Coalesce: each task reads k buckets of the side with k x N buckets as one bucket (N tasks).
 *  - Split: k tasks read each bucket of the side with N buckets, and filter its rows by the other side's bucket id (k x N tasks).
 *    Exactly one task keeps each row, so outer joins are correct.
 *
 * Stock Spark's `CoalesceBucketsInJoin` coalesces buckets in the Spark layout, and is disabled by default.
 */
object BucketAlignment {

  def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
    case join @ (_: SortMergeJoinExec | _: ShuffledHashJoinExec) => aligned(join)
  }

  private def aligned(join: SparkPlan): SparkPlan = {
    val Seq(left, right) = join.children
    (scans(left), scans(right)) match {
      case (Seq(), _) | (_, Seq()) => join
      case (here, there) =>
        val (a, b) = (here.head.read.partitions, there.head.read.partitions)
        val fits = a != b && BucketCounts.areCompatible(a, b)
        // A lower join may already have changed a scan's number of partitions, so compare with the scan's original number of buckets.
        val target = if (fits) wanted(here, there).filter(n => (here ++ there).forall(_.read.canHave(n))) else None
        target.map(n => join.withNewChildren(Seq(readAs(left, here, n), readAs(right, there, n))))
          .filter(coPartitioned).getOrElse(join)
    }
  }

  /** Returns the scans whose partitions the plan preserves, or no scans if their numbers of partitions differ. */
  private def scans(plan: SparkPlan): Seq[BucketScan] = {
    val found = BucketRequirements.scansOf(plan)
    if (found.map(_.read.partitions).distinct.length == 1) found else Nil
  }

  private def wanted(here: Seq[BucketScan], there: Seq[BucketScan]): Option[Int] = {
    val (coarse, fine) = if (here.head.read.partitions < there.head.read.partitions) (here, there) else (there, here)
    val (few, many) = (coarse.head.read.partitions, fine.head.read.partitions)
    BucketingConf.alignment match {
      case "coalesce" => Some(few)
      case "split" => Some(many)
      case "off" => None
      case _ if worthSplitting(coarse, fine, many / few) => Some(many)
      case _ if enoughTasks(few, many, cores(coarse)) &&
          !BucketTasks.areTooFew(few, (bytes(coarse) + bytes(fine)) / few, coarse.head.session) => Some(few)
      case _ => None
    }
  }

  /**
   * Returns whether a bucketed scan of partitions with different numbers of buckets pays off, compared with an ordinary scan.
   *
   * @param few greatest common divisor of the numbers of buckets
   * @param many largest number of buckets
   */
  def worthMerging(few: Int, many: Int, cores: Int): Boolean = few == many || few > 1 && (BucketingConf.alignment match {
    case "off" => false
    case "auto" => enoughTasks(few, many, cores)
    case _ => true
  })

  // With too few tasks, the query would be slower than with a shuffle.
  private def enoughTasks(few: Int, many: Int, cores: Int): Boolean =
    few >= cores || many / few <= SQLConf.get.coalesceBucketsInJoinMaxBucketRatio

  private def cores(scans: Seq[BucketScan]): Int = BucketTasks.cores(scans.head.session)

  /**
   * Returns whether to split the buckets of the side that has fewer buckets. Each of these buckets is read by k tasks. Therefore,
   * splitting pays off only if this side is small, and if one task per bucket would leave cores idle.
   */
  private def worthSplitting(coarse: Seq[BucketScan], fine: Seq[BucketScan], times: Int): Boolean =
    coarse.head.read.partitions < cores(coarse) &&
      bytes(coarse) * times <= bytes(fine)

  private def bytes(scans: Seq[BucketScan]): Long = scans.map(_.bytes).sum

  private def readAs(plan: SparkPlan, scans: Seq[BucketScan], n: Int): SparkPlan = plan.transformUp {
    case scan: BucketScan if scans.exists(_ eq scan) => scan.as(n)
  }

  /** Returns whether the inputs of a join already have compatible partitions. */
  def coPartitioned(join: SparkPlan): Boolean = {
    val specs = join.children.map(BucketRequirements.partitioning).zip(join.requiredChildDistribution).map {
      case (partitioning, required: ClusteredDistribution) if partitioning.satisfies(required) =>
        Some(partitioning.createShuffleSpec(required))
      case _ => None
    }
    specs.forall(_.isDefined) && specs.head.get.isCompatibleWith(specs(1).get)
  }
}
