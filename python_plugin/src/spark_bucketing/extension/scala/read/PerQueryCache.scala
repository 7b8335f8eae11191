package org.apache.spark.sql.bucketing
package read

import scala.collection.concurrent.TrieMap

import org.apache.spark.sql.catalyst.expressions.{Attribute, ExprId, Expression, PlanExpression}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution.datasources.LogicalRelation

/**
 * What is asked of the metastore and of file systems for a query is asked once, however often its tables occur in it, and
 * however often adaptive execution plans the rest of it anew.
 *
 * The answers stay with the query's own relations: Spark plans from a copy of the optimized plan, and keeps that copy
 * for what is planned later.
 */
object PerQueryCache {

  private type Answers = TrieMap[Any, Any]

  private val Known = TreeNodeTag[Answers]("bucketing.answers")
  private val answered = new ThreadLocal[Answers]

  def within[T](query: LogicalPlan)(plan: => T): T = {
    val relations = query.collect { case relation: LogicalRelation => relation }
    val answers = relations.flatMap(_.getTagValue(Known)).headOption.getOrElse(TrieMap.empty[Any, Any])
    relations.foreach(_.setTagValue(Known, answers))
    answered.set(answers)
    try plan finally answered.remove()
  }

  def apply[T](question: Any)(ask: => T): T = Option(answered.get) match {
    case Some(answers) => answers.getOrElseUpdate(question, ask).asInstanceOf[T]
    case None => ask
  }

  /** Filters as part of a question: columns of the same table have another number each time that it is read. */
  def comparable(filters: Seq[Expression]): Set[Expression] =
    filters.map(_.transform { case column: Attribute => column.withExprId(ExprId(0)).withQualifier(Nil) }).toSet

  /** Filters whose values are known when a query is planned. */
  def known(filters: Seq[Expression]): Seq[Expression] = filters.filterNot(_.exists(_.isInstanceOf[PlanExpression[_]]))
}
