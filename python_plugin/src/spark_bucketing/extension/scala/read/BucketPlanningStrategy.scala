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
import org.apache.spark.sql.internal.SQLConf

/**
 * The way in for rules on the physical plan before Spark decides on exchanges. Spark's own hook for such rules runs
 * only under adaptive execution; a strategy runs always. At the outermost call it lets the session's planner plan the
 * whole query, itself standing aside, and applies the rules to the outcome.
 */
case class BucketPlanningStrategy(session: SparkSession) extends SparkStrategy with Logging {

  override def apply(plan: LogicalPlan): Seq[SparkPlan] =
    if (BucketPlanningStrategy.planning.get || !BucketingConf.enabled || !SQLConf.get.bucketingEnabled || isStreaming(plan) ||
      areScansReplaced || hasWrongUnions) Nil
    else {
      BucketPlanningStrategy.planning.set(true)
      val planned = try Compat.planner(session).plan(plan).next() finally BucketPlanningStrategy.planning.set(false)
      withBuckets(plan, planned) :: Nil
    }

  // A query that can be planned without buckets is not to fail for them, nor for classes that this Spark does not have.
  private def withBuckets(query: LogicalPlan, planned: SparkPlan): SparkPlan =
    try OrganizedReads(PerQueryCache.within(query)(BucketedReads(planned))) catch {
      case error @ (NonFatal(_) | _: LinkageError) =>
        BucketPlanningStrategy.failures.incrementAndGet()
        logWarning("A query is planned without buckets, since planning it with them failed.", error)
        planned
    }

  // Another engine takes a bucketed scan for Spark's, and would spread its files over tasks in its own way.
  private def areScansReplaced: Boolean = {
    val rules = Compat.otherColumnarRules(session)
    rules.foreach(rule => warnOnce(s"$rule may replace their scans by its own."))
    rules.nonEmpty
  }

  private def hasWrongUnions: Boolean = {
    KnownBugs.ofUnions.foreach(warnOnce)
    KnownBugs.ofUnions.isDefined
  }

  private def warnOnce(why: String): Unit =
    if (BucketPlanningStrategy.warnedOf.add(why)) logWarning(s"Bucketed tables are read plainly in this session: $why")

  // A stream keeps state by Spark's own hash, and its planner knows strategies that the session's does not.
  private def isStreaming(plan: LogicalPlan): Boolean =
    plan.isStreaming || session.sparkContext.getLocalProperty(BucketPlanningStrategy.StreamingQuery) != null
}

object BucketPlanningStrategy {

  /** The local property in which Spark's StreamExecution, whose package changes, keeps the id of its query. */
  private val StreamingQuery = "sql.streaming.queryId"

  /** How many queries of this JVM were planned without buckets because of an error; tests see that there are none. */
  val failures = new AtomicLong

  private val warnedOf = ConcurrentHashMap.newKeySet[String]
  private val planning = ThreadLocal.withInitial[Boolean](() => false)
}

/**
 * What is done once exchanges and sorts stand: under adaptive execution as a rule of its own each time that it plans,
 * otherwise as the last rule before columns are turned into rows. The second finds nothing left to do after the first.
 */
object FinalizeBucketScans extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan =
    if (plan.exists(_.isInstanceOf[BucketScan])) BucketMerges(RemoveUnneededBucketScans(plan)) else plan
}

/** Buckets are split last, so that no other rule has to look through the filters that do it. */
object FinalizeAndSplitBucketScans extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan = SplitBuckets(FinalizeBucketScans(plan))
}
