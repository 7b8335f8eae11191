package org.apache.spark.sql.bucketing
package read

import java.util.{Collections, IdentityHashMap, Set => JSet}

import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.internal.SQLConf

/**
 * Which bucketed scans an operator above makes use of. A scan that nothing uses is better read plainly, since buckets
 * limit the number of tasks. After Spark's `DisableUnnecessaryBucketedScan`, and switched off with it.
 */
object BucketRequirements {

  type Scans = JSet[BucketScan]

  /**
   * How an operator's output is partitioned. Before exchanges stand, the inputs of a join may differ in their number of
   * partitions, and Spark answers the question with an exception; they will be shuffled, or aligned (BucketAlignment).
   */
  def partitioning(plan: SparkPlan): Partitioning =
    try plan.outputPartitioning catch { case _: IllegalArgumentException => UnknownPartitioning(0) }

  def of(plan: SparkPlan): Scans = {
    val needed: Scans = Collections.newSetFromMap(new IdentityHashMap)
    collect(plan, used = !SQLConf.get.autoBucketedScanEnabled, needed)
    needed
  }

  private def collect(plan: SparkPlan, used: Boolean, needed: Scans): Unit = plan match {
    case scan: BucketScan => if (used) needed.add(scan)
    case _ =>
      // An operator that scatters rows anew hides what lies below from the operators above; and so does one that is not
      // served by what lies below, since Spark puts an exchange between.
      val passes = used && (!SQLConf.get.autoBucketedScanEnabled || keepsPartitions(plan))
      plan.children.zip(plan.requiredChildDistribution).foreach { case (child, required) =>
        // What a partial aggregate leaves is moved at no cost; that one task reads the whole table is one.
        val served = serves(child, required) && !(required == AllTuples && plan.isInstanceOf[BaseAggregateExec])
        collect(child, passes && required == UnspecifiedDistribution || served, needed)
      }
  }

  /** Whether partition i of an operator comes from partition i of what lies below. */
  def keepsPartitions(plan: SparkPlan): Boolean =
    !plan.isInstanceOf[Exchange] && !partitioning(plan).isInstanceOf[UnknownPartitioning]

  /** The scans whose partitions are those of a plan. */
  def scansOf(plan: SparkPlan): Seq[BucketScan] = plan match {
    case scan: BucketScan => Seq(scan)
    case _ if keepsPartitions(plan) => plan.children.flatMap(scansOf)
    case _ => Nil
  }

  /** Whether an operator that requires this of an input has its rows in place. */
  def serves(child: SparkPlan, required: Distribution): Boolean = required match {
    case AllTuples | _: ClusteredDistribution => partitioning(child).satisfies(required)
    case _ => false
  }
}
