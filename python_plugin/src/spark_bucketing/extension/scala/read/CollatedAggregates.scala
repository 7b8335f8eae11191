package org.apache.spark.sql.bucketing
package read

import org.apache.spark.sql.execution.{SortExec, SparkPlan}
import org.apache.spark.sql.execution.aggregate.SortAggregateExec
import org.apache.spark.sql.types.StringType

/**
 * Adds a sort below each sort aggregate whose buffer has strings with a collation. Without generated code, Spark does not copy
 * such a string into the buffer, so the string changes when the input reuses its row. A sort does not reuse its rows.
 */
object CollatedAggregates {

  def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
    case aggregate: SortAggregateExec if aggregate.groupingExpressions.nonEmpty && isCollated(aggregate) => aggregate.child match {
      case _: SortExec => aggregate
      case child => aggregate.withNewChildren(Seq(SortExec(aggregate.requiredChildOrdering.head, global = false, child)))
    }
  }

  private def isCollated(aggregate: SortAggregateExec): Boolean =
    aggregate.aggregateExpressions.flatMap(_.aggregateFunction.aggBufferAttributes).exists(_.dataType match {
      case string: StringType => string != StringType
      case _ => false
    })
}
