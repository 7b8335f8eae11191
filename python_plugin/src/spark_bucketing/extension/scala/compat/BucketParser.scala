package org.apache.spark.sql.bucketing
package compat

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.parser.ParserInterface
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan

/** A parser that replaces Spark's parser, but passes every statement to Spark's parser first. */
trait BucketParser extends ParserInterface {

  protected def spark: ParserInterface

  /**
   * Parses a statement with Spark's parser, or as a bucket statement if Spark rejects it.
   *
   * @param named values for `:name` parameters
   * @param positional values for `?` parameters
   * @param stock a call to Spark's parser
   */
  protected def orBuckets(sql: String, named: Map[String, Expression] = Map.empty, positional: Seq[Expression] = Nil)(
      stock: => LogicalPlan): LogicalPlan
}
