package org.apache.spark.sql.bucketing
package compat

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.parser.ParserInterface
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.types.StructType

/** What only this Spark asks of a parser, which is Spark's own to answer. */
trait ForwardingParser extends ParserInterface {

  protected def spark: ParserInterface

  /** Values for `:name` and for `?` in a statement on buckets. */
  protected def orBuckets(sql: String, named: Map[String, Expression] = Map.empty, positional: Seq[Expression] = Nil)(
      stock: => LogicalPlan): LogicalPlan

  override def parseRoutineParam(sql: String): StructType = spark.parseRoutineParam(sql)
}
