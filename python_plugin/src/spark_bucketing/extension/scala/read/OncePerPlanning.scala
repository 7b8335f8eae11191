package org.apache.spark.sql.bucketing
package read

import scala.collection.mutable

import org.apache.spark.sql.catalyst.expressions.{Attribute, ExprId, Expression, PlanExpression}

/** What is asked of the metastore while a query is planned is asked once, however often its tables occur in it. */
object OncePerPlanning {

  private val answered = new ThreadLocal[mutable.Map[Any, Any]]

  def within[T](plan: => T): T = {
    answered.set(mutable.Map.empty)
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
