package org.apache.spark.sql.bucketing
package read

import java.util.{Collections, IdentityHashMap, Set => JSet}

import org.apache.spark.sql.bucketing.compat.KnownBugs
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.execution.{FilterExec, SparkPlan, TakeOrderedAndProjectExec, UnaryExecNode}
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.exchange.{Exchange, REPARTITION_BY_NUM, ShuffleExchangeExec}
import org.apache.spark.sql.internal.SQLConf

/** An operator directly above a shuffle by bucket. The shuffle is unnecessary if the rows are already partitioned by bucket. */
trait RepartitionsByBucket extends UnaryExecNode {

  /** Returns whether a partitioning assigns all rows of a bucket to one task. A task may get several buckets. */
  def isSatisfiedBy(found: Partitioning): Boolean
}

/**
 * Finds the bucketed scans whose partitioning an operator above them requires. All other scans become ordinary scans, because
 * buckets limit the number of tasks. Spark's `DisableUnnecessaryBucketedScan` does the same, and the same setting disables both.
 */
object BucketRequirements {

  type Scans = JSet[BucketScan]

  /**
   * Returns the output partitioning of an operator. Spark throws an exception if the inputs of a join have different
   * numbers of partitions, which is valid before Spark adds exchanges. Later, Spark shuffles these inputs,
   * or BucketAlignment aligns them.
   */
  def partitioning(plan: SparkPlan): Partitioning =
    try plan.outputPartitioning catch { case _: IllegalArgumentException => UnknownPartitioning(0) }

  def of(plan: SparkPlan): Scans = {
    val needed: Scans = Collections.newSetFromMap(new IdentityHashMap)
    collect(plan, used = !SQLConf.get.autoBucketedScanEnabled, needed)
    needed
  }

  private def collect(plan: SparkPlan, used: Boolean, needed: Scans): Unit = plan match {
    case scan: BucketScan => if (used || scan.read.slices.isDefined) needed.add(scan)
    case top: TakeOrderedAndProjectExec if takesFirstRows(top) => collect(top.child, used = true, needed)
    case _ =>
      // Operators above cannot use the buckets below an operator that changes the partitioning. They also cannot use them if
      // a child does not satisfy the required distribution, because Spark then adds an exchange.
      val passes = used && (!SQLConf.get.autoBucketedScanEnabled || keepsPartitions(plan))
      plan.children.zip(plan.requiredChildDistribution).foreach { case (child, required) =>
        // Shuffling the output of a partial aggregate is cheaper than reading the whole table in one task.
        val served = satisfies(child, required) && !(required == AllTuples && plan.isInstanceOf[BaseAggregateExec]) || isReplaced(plan)
        collect(child, passes && required == UnspecifiedDistribution || served, needed)
      }
  }

  // An operator of another engine states no requirements, although it may replace a join without exchanges.
  private def isReplaced(plan: SparkPlan): Boolean =
    !plan.isInstanceOf[Exchange] && !Seq("execution", "bucketing").exists(name => plan.getClass.getName.startsWith(s"org.apache.spark.sql.$name."))

  /** Returns whether ORDER BY ... LIMIT needs only the first rows of each bucket. Then, its tasks do not read further, unless a filter finds few rows. */
  private def takesFirstRows(top: TakeOrderedAndProjectExec): Boolean = scansOf(top.child) match {
    case Seq(scan) => scan.isSortedBy(top.sortOrder) && (scan.read.partitions >= BucketTasks.cores(scan.session) || !top.child.exists(_.isInstanceOf[FilterExec]))
    case _ => false
  }

  /** Returns whether an operator computes its partition i from partition i of its children. */
  def keepsPartitions(plan: SparkPlan): Boolean =
    !plan.isInstanceOf[Exchange] && !partitioning(plan).isInstanceOf[UnknownPartitioning]

  /** Returns the scans whose partitions the plan preserves. */
  def scansOf(plan: SparkPlan): Seq[BucketScan] = plan match {
    case scan: BucketScan => Seq(scan)
    case _ if keepsPartitions(plan) => plan.children.flatMap(scansOf)
    case _ => Nil
  }

  /** Returns whether the output partitioning of a child satisfies the required distribution. */
  def satisfies(child: SparkPlan, required: Distribution): Boolean = required match {
    case AllTuples | _: ClusteredDistribution => partitioning(child).satisfies(required)
    case _ => false
  }

  /**
   * Removes unnecessary shuffles by bucket. This method also runs before Spark adds its exchanges, so that the search for
   * required buckets does not stop at these shuffles.
   */
  def withoutNeedlessShuffles(plan: SparkPlan): SparkPlan = if (KnownBugs.ofUnions.nonEmpty) plan else plan.transformUp {
    case operator: RepartitionsByBucket => operator.child match {
      case shuffle: ShuffleExchangeExec
          if shuffle.shuffleOrigin == REPARTITION_BY_NUM && operator.isSatisfiedBy(partitioning(shuffle.child)) =>
        operator.withNewChildren(Seq(shuffle.child))
      case _ => operator
    }
  }
}
