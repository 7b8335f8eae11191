package org.apache.spark.sql.bucketing
package read

import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.joins.{ShuffledHashJoinExec, SortMergeJoinExec}
import org.apache.spark.sql.internal.SQLConf

/**
 * One-to-many bucket joins: N buckets against k x N. A row of bucket b of k x N is of bucket b mod N of N, so that the
 * sides fit when the finer one reads k buckets as one (N tasks), or when each of k tasks reads a coarse bucket and keeps
 * the rows of its own finer bucket (k x N tasks; every row is kept by one task, so that it is right for outer joins).
 *
 * Stock Spark's `CoalesceBucketsInJoin` does the first one, for its own layout and off by default.
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
        val fits = a != b && (a % b == 0 || b % a == 0)
        // A scan may be read as other than its own number already, for a join below: what counts is its buckets.
        val target = if (fits) wanted(here, there).filter(n => (here ++ there).forall(_.read.canBe(n))) else None
        target.map(n => join.withNewChildren(Seq(readAs(left, here, n), readAs(right, there, n))))
          .filter(coPartitioned).getOrElse(join)
    }
  }

  /** The scans whose partitions are those of the plan; none unless all have the same number. */
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

  /** Whether files of up to so many buckets are better read as few than plainly. */
  def worthMerging(few: Int, many: Int, cores: Int): Boolean = few == many || few > 1 && (BucketingConf.alignment match {
    case "off" => false
    case "auto" => enoughTasks(few, many, cores)
    case _ => true
  })

  // Too few tasks would be slower than moving rows.
  private def enoughTasks(few: Int, many: Int, cores: Int): Boolean =
    few >= cores || many / few <= SQLConf.get.coalesceBucketsInJoinMaxBucketRatio

  private def cores(scans: Seq[BucketScan]): Int = BucketTasks.cores(scans.head.session)

  /** Splitting reads the coarse side k times over: worth it for a small side, where the tasks are otherwise too few. */
  private def worthSplitting(coarse: Seq[BucketScan], fine: Seq[BucketScan], times: Int): Boolean =
    coarse.head.read.partitions < cores(coarse) &&
      bytes(coarse) * times <= bytes(fine)

  private def bytes(scans: Seq[BucketScan]): Long = scans.map(_.bytes).sum

  private def readAs(plan: SparkPlan, scans: Seq[BucketScan], n: Int): SparkPlan = plan.transformUp {
    case scan: BucketScan if scans.exists(_ eq scan) => scan.as(n)
  }

  private def coPartitioned(join: SparkPlan): Boolean = {
    val specs = join.children.map(BucketRequirements.partitioning).zip(join.requiredChildDistribution).map {
      case (partitioning, required: ClusteredDistribution) if partitioning.satisfies(required) =>
        Some(partitioning.createShuffleSpec(required))
      case _ => None
    }
    specs.forall(_.isDefined) && specs.head.get.isCompatibleWith(specs(1).get)
  }
}
