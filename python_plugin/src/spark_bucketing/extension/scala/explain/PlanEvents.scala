package org.apache.spark.sql.bucketing
package explain

import scala.util.control.NonFatal

import org.json4s.jackson.JsonMethods.{compact, render}

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.scheduler.{EventLoggingListener, SparkListener, SparkListenerEvent}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanHelper
import org.apache.spark.sql.execution.exchange.ShuffleExchangeLike
import org.apache.spark.sql.execution.ui.SparkListenerSQLExecutionEnd

/**
 * The plan that a statement has run, in event logs. Spark's History Server ignores events whose class it does not have.
 *
 * @param document the document of EXPLAIN BUCKETS FORMAT JSON, without estimates and tables, and with the ids of the metrics of operators
 */
case class SparkListenerBucketPlan(executionId: Long, document: String) extends SparkListenerEvent

/** Writes the plan of each successful statement into the event log, because adaptive execution has changed the plan of its start. */
class PlanEvents(context: SparkContext) extends SparkListener with Logging {

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case end: SparkListenerSQLExecutionEnd if end.qe != null && end.executionFailure.isEmpty =>
      val logs = context.listenerBus.findListenersByClass[EventLoggingListener]()
      if (logs.nonEmpty) try {
        PlanEvents.document(end.qe).filter(_.length <= PlanEvents.MaxLength).foreach { document =>
          logs.foreach(_.onOtherEvent(SparkListenerBucketPlan(end.executionId, document)))
        }
      } catch {
        // Spark stops if a listener raises the error of a plan that is too deep.
        case error @ (NonFatal(_) | _: StackOverflowError) =>
          logWarning(s"The event log does not contain the plan of statement ${end.executionId}.", error)
      }
    case _ =>
  }
}

object PlanEvents extends AdaptiveSparkPlanHelper {

  /** Spark's reader of event logs accepts texts of at most 20 million characters. */
  private val MaxLength = 4 << 20

  /** Other events wait for the description of a plan. */
  private val MaxOperators = 2000

  /** Registers the listener once in each context, in the queue of the event log, so that only one thread writes to the log. */
  def register(session: SparkSession): Unit = synchronized {
    val context = session.sparkContext
    val bus = context.listenerBus
    if (!context.isStopped && bus.findListenersByClass[PlanEvents]().isEmpty) bus.addToEventLogQueue(new PlanEvents(context))
  }

  private def document(query: QueryExecution): Option[String] = {
    val operators = collectWithSubqueries(query.executedPlan) { case plan => plan }
    if (operators.size > MaxOperators || !operators.exists(isRelevant)) None
    else Some(compact(render(ExplainBucketsCommand.executed(query))))
  }

  private def isRelevant(plan: SparkPlan): Boolean = plan match {
    case _: ShuffleExchangeLike | _: SortExec => true
    case scan: FileSourceScanExec => scan.relation.bucketSpec.isDefined || TableFacts.metadata(scan).exists(_.bucketSpec.isDefined)
    case _ => PlanNodes.ranBefore(plan).nonEmpty
  }
}
