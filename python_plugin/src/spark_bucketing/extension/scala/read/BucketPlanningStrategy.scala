package org.apache.spark.sql.bucketing
package read

import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.atomic.AtomicLong

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.{Compat, KnownBugs}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.datasources.LogicalRelation
import org.apache.spark.sql.internal.SQLConf

/**
 * Applies rules to the physical plan before Spark adds exchanges. Spark applies injected rules of this kind only with adaptive
 * execution, but it always applies a strategy. The outermost call plans the whole query with the session's planner and applies
 * the rules to the result. Nested calls return nothing, so that the other strategies plan the query.
 */
case class BucketPlanningStrategy(session: SparkSession) extends SparkStrategy with Logging {

  override def apply(plan: LogicalPlan): Seq[SparkPlan] =
    if (BucketPlanningStrategy.planning.get || !BucketingConf.enabled || plan.isStreaming) Nil
    else if (usesBuckets) withBuckets(plan, planned(plan)) :: Nil
    // Without this rule, a scan could read the old and the new files of a replacement, and return their rows twice.
    else if (readsChangeableTable(plan)) planned(plan) :: Nil
    else Nil

  private def planned(plan: LogicalPlan): SparkPlan = {
    BucketPlanningStrategy.planning.set(true)
    try {
      val made = Compat.planner(session).plan(plan).next()
      PerQueryCache.within(plan)(CurrentReads(RuntimeFilters(session, made)))
    } finally BucketPlanningStrategy.planning.set(false)
  }

  private def usesBuckets: Boolean = SQLConf.get.bucketingEnabled && !isInStream && !areScansReplaced && !hasWrongUnions

  private def readsChangeableTable(plan: LogicalPlan): Boolean = plan.exists {
    case relation: LogicalRelation => relation.catalogTable.exists(CurrentReads.isChangeable)
    case _ => false
  }

  // A query must not fail if stock Spark can plan it. A LinkageError means that a class or method is missing in this Spark.
  private def withBuckets(query: LogicalPlan, planned: SparkPlan): SparkPlan =
    try PerQueryCache.within(query)(BucketedReads(planned)) catch {
      case error @ (NonFatal(_) | _: LinkageError) =>
        BucketPlanningStrategy.failures.incrementAndGet()
        logWarning("Failed to plan bucketed scans. Falling back to ordinary scans.", error)
        planned
    }

  // Another engine that replaces scans treats a bucketed scan as an ordinary scan, and assigns its files to tasks differently.
  private def areScansReplaced: Boolean = {
    val why = NativeReads.engine(session).left.toOption
    why.foreach(warnOnce)
    why.isDefined
  }

  private def hasWrongUnions: Boolean = {
    KnownBugs.ofUnions.foreach(warnOnce)
    KnownBugs.ofUnions.isDefined
  }

  private def warnOnce(why: String): Unit =
    if (BucketPlanningStrategy.warnedOf.add(why)) logWarning(s"This session uses ordinary scans for bucketed tables: $why")

  // Streaming state is partitioned by Spark's hash. The planner for streaming queries has strategies that the session's planner
  // lacks, so this strategy plans only the subtrees that are not streaming.
  private def isInStream: Boolean = session.sparkContext.getLocalProperty(BucketPlanningStrategy.StreamingQuery) != null
}

object BucketPlanningStrategy {

  /** The local property that contains the query id in Spark's StreamExecution, a class whose package differs between Spark versions. */
  private val StreamingQuery = "sql.streaming.queryId"

  /** The number of queries in this JVM for which planning with buckets failed. Tests expect zero. */
  val failures = new AtomicLong

  private val warnedOf = ConcurrentHashMap.newKeySet[String]
  private val planning = ThreadLocal.withInitial[Boolean](() => false)
}

/**
 * Finalizes bucketed scans after Spark has added exchanges and sorts. Adaptive execution applies this rule each time it
 * plans. Without adaptive execution, it runs before Spark inserts columnar transitions. The rule is idempotent.
 */
object FinalizeBucketScans extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan =
    if (plan.exists(_.isInstanceOf[BucketScan])) NativeReads(CollatedAggregates(BucketMerges(RemoveUnneededBucketScans(plan)))) else plan
}

/** Also splits buckets, as the last step, so that no other rule has to handle the filters that split them. */
object FinalizeAndSplitBucketScans extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan = SplitBuckets(FinalizeBucketScans(plan))
}
