package org.apache.spark.sql.bucketing
package dml

import org.apache.spark.sql.catalyst.expressions.{Expression, PythonUDF, Unevaluable}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.types.DataType

/**
 * A Python function in a condition or an assigned value. Spark's optimizer adds the results of Python functions to the columns of an operator's input, but
 * the rows of a table must keep their columns. Therefore, it optimizes the functions only in the queries that a statement runs.
 *
 * @param children the arguments of the function
 */
case class DeferredFunction(override val children: Seq[Expression], function: PythonUDF) extends Expression with Unevaluable {
  override lazy val deterministic: Boolean = function.udfDeterministic && children.forall(_.deterministic)
  override def nullable: Boolean = function.nullable
  override def dataType: DataType = function.dataType
  override protected def withNewChildrenInternal(changed: IndexedSeq[Expression]): Expression = copy(children = changed)
}

object DeferredFunction {

  def deferred(statement: ChangeRows): LogicalPlan = statement.transformExpressions {
    case function: PythonUDF => DeferredFunction(function.children, function)
  }

  def in(expression: Expression): Seq[DeferredFunction] = expression.collect { case function: DeferredFunction => function }

  def restored(statement: ChangeRows): ChangeRows = statement.transformExpressions {
    case DeferredFunction(arguments, function) => function.copy(children = arguments)
  }.asInstanceOf[ChangeRows]
}
