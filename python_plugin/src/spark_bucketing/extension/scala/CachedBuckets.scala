package org.apache.spark.sql.bucketing

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec
import org.apache.spark.sql.execution.columnar.{CachedRDDBuilder, InMemoryRelation, InMemoryTableScanExec}
import org.apache.spark.sql.vectorized.ColumnarBatch

/**
 * A cached query that reads buckets, and is not in the cache yet, is read and checked as a whole before a limit takes a
 * part of it, and before a write that cannot be taken back. Adaptive execution does so by itself, but not in all cases.
 */
object CachedBuckets {

  /** What lies below a limit is loaded when it is read. */
  def apply(plan: SparkPlan): SparkPlan =
    if (!plan.exists { case cache: InMemoryTableScanExec => isWaiting(cache.relation); case _ => false }) plan
    else {
      val early = EarlyUses.of(plan, ofWrite = None)
      plan.transformUp {
        case cache: InMemoryTableScanExec if early.containsKey(cache) && isWaiting(cache.relation) =>
          LoadCacheExec(cache.relation.cacheBuilder, cache)
      }
    }

  /** What a statement reads, in its subqueries too, is loaded before it starts; EXPLAIN of such a statement does so as well. */
  def load(session: SparkSession, query: LogicalPlan): Unit =
    if (BucketingConf.early == "checked" && BucketingConf.checksReads) {
      EarlyUses.everywhere(Compat.withCaches(session, query)) {
        case relation: InMemoryRelation if isWaiting(relation) => load(relation.cacheBuilder)
        case _ =>
      }
    }

  def load(cache: CachedRDDBuilder): Unit =
    if (!cache.isCachedColumnBuffersLoaded) cache.cachedColumnBuffers.foreach(_ => ())

  private def isWaiting(cache: InMemoryRelation): Boolean =
    !cache.cacheBuilder.isCachedColumnBuffersLoaded && readsBuckets(cache.cachedPlan)

  private def readsBuckets(plan: SparkPlan): Boolean = plan.exists {
    case adaptive: AdaptiveSparkPlanExec => readsBuckets(adaptive.inputPlan)
    case cache: InMemoryTableScanExec => isWaiting(cache.relation)
    case other => other.isInstanceOf[BucketScan]
  }
}

/** Reads a cached query below a limit. */
case class LoadCacheExec(cache: CachedRDDBuilder, child: SparkPlan) extends UnaryExecNode {

  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override def supportsColumnar: Boolean = child.supportsColumnar
  override def simpleString(maxFields: Int): String = "LoadCache"

  override protected def doExecute(): RDD[InternalRow] = {
    CachedBuckets.load(cache)
    child.execute()
  }

  override protected def doExecuteColumnar(): RDD[ColumnarBatch] = {
    CachedBuckets.load(cache)
    child.executeColumnar()
  }

  override protected def withNewChildInternal(newChild: SparkPlan): LoadCacheExec = copy(child = newChild)
}
