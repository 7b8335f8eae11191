package org.apache.spark.sql.bucketing

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec
import org.apache.spark.sql.execution.columnar.{CachedRDDBuilder, InMemoryTableScanExec}
import org.apache.spark.sql.execution.command.{DataWritingCommand, DataWritingCommandExec}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.vectorized.ColumnarBatch

/**
 * A cached query that reads buckets, and is not in the cache yet, is read and checked as a whole before a limit takes a
 * part of it and before an overwrite deletes anything. Adaptive execution does that for every cached query anyway.
 */
object CachedBuckets {

  def apply(plan: SparkPlan): SparkPlan = {
    val adaptive = SQLConf.get.adaptiveExecutionEnabled
    lazy val early = EarlyUses.of(plan, ofOverwrite = false)
    plan match {
      case write: DataWritingCommandExec if !(adaptive && SQLConf.get.plannedWriteEnabled) && waiting(write).nonEmpty &&
          !early.isEmpty =>
        write.copy(cmd = WriteOfCaches(waiting(write), write.cmd))
      case _ if adaptive || waiting(plan).isEmpty => plan
      case _ => plan.transformUp {
        case cache: InMemoryTableScanExec if early.containsKey(cache) => LoadCachesExec(waiting(cache), cache)
      }
    }
  }

  private def waiting(plan: SparkPlan): Seq[CachedRDDBuilder] = plan.collect {
    case cache: InMemoryTableScanExec if readsBuckets(cache.relation.cachedPlan) => cache.relation.cacheBuilder
  }.filterNot(_.isCachedColumnBuffersLoaded)

  private def readsBuckets(plan: SparkPlan): Boolean = plan.exists {
    case adaptive: AdaptiveSparkPlanExec => readsBuckets(adaptive.inputPlan)
    case other => other.isInstanceOf[BucketScan]
  }

  def load(caches: Seq[CachedRDDBuilder]): Unit = caches.filterNot(_.isCachedColumnBuffersLoaded).foreach { cache =>
    cache.cachedColumnBuffers.foreach(_ => ())
  }
}

/** Reads a cached query below a limit. */
case class LoadCachesExec(caches: Seq[CachedRDDBuilder], child: SparkPlan) extends UnaryExecNode {

  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override def supportsColumnar: Boolean = child.supportsColumnar
  override def simpleString(maxFields: Int): String = "LoadCaches"

  override protected def doExecute(): RDD[InternalRow] = {
    CachedBuckets.load(caches)
    child.execute()
  }

  override protected def doExecuteColumnar(): RDD[ColumnarBatch] = {
    CachedBuckets.load(caches)
    child.executeColumnar()
  }

  override protected def withNewChildInternal(newChild: SparkPlan): LoadCachesExec = copy(child = newChild)
}

/** An overwrite whose query reads cached queries. */
case class WriteOfCaches(caches: Seq[CachedRDDBuilder], write: DataWritingCommand) extends DataWritingCommand {

  override def query: LogicalPlan = write.query
  override def outputColumnNames: Seq[String] = write.outputColumnNames
  override lazy val metrics: Map[String, SQLMetric] = write.metrics
  override def simpleString(maxFields: Int): String = write.simpleString(maxFields)

  override def run(session: SparkSession, child: SparkPlan): Seq[Row] = {
    CachedBuckets.load(caches)
    write.run(session, child)
  }

  override protected def withNewChildInternal(newChild: LogicalPlan): WriteOfCaches =
    copy(write = write.withNewChildren(newChild :: Nil).asInstanceOf[DataWritingCommand])
}
