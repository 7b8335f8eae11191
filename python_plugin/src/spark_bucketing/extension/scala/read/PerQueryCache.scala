package org.apache.spark.sql.bucketing
package read

import scala.collection.concurrent.TrieMap

import org.apache.spark.sql.catalyst.expressions.{Attribute, ExprId, Expression, PlanExpression}
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LogicalPlan}
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution.datasources.LogicalRelation

/**
 * Caches the results of metastore and file system calls for one query. A table may occur in a query several times, and
 * adaptive execution plans a query several times.
 *
 * The query's relations carry the cache as a tag. Spark plans from a copy of the optimized plan, and adaptive execution
 * keeps this copy.
 */
object PerQueryCache {

  private type Answers = TrieMap[Any, Any]

  private val Known = TreeNodeTag[Answers]("bucketing.answers")
  private val answered = new ThreadLocal[Answers]

  def within[T](query: LogicalPlan)(plan: => T): T = {
    val relations = nodes(query).collect { case relation: LogicalRelation => relation }
    val answers = relations.flatMap(_.getTagValue(Known)).headOption.getOrElse(TrieMap.empty[Any, Any])
    relations.foreach(_.setTagValue(Known, answers))
    answered.set(answers)
    try plan finally answered.remove()
  }

  /** Removes the answers for another query from the relations of a plan, which have copied them with the relations of that query. */
  def forget(plan: LogicalPlan): Unit = nodes(plan).foreach(_.unsetTagValue(Known))

  private def nodes(plan: LogicalPlan): Seq[LogicalPlan] = plan.collect {
    case hiding: HidesPlan => hiding +: nodes(hiding.plan)
    case other => Seq(other)
  }.flatten

  def apply[T](question: Any)(ask: => T): T = Option(answered.get).fold(ask)(_.getOrElseUpdate(question, ask).asInstanceOf[T])

  /**
   * Returns filters in a form that can be part of a cache key. The result has no expression ids, because they differ
   * for every reference to a table.
   */
  def comparable(filters: Seq[Expression]): Set[Expression] =
    filters.map(_.transform { case column: Attribute => column.withExprId(ExprId(0)).withQualifier(Nil) }).toSet

  /** Returns the filters whose values are already known when Spark plans the query. */
  def known(filters: Seq[Expression]): Seq[Expression] = filters.filterNot(_.exists(_.isInstanceOf[PlanExpression[_]]))
}

/** A leaf that hides a plan from the rules of the optimizer. */
trait HidesPlan extends LeafNode {
  def plan: LogicalPlan
}
