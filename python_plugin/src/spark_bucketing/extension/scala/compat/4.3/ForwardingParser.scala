package org.apache.spark.sql.bucketing
package compat

import org.apache.spark.sql.catalyst.parser._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.types.StructType

/** Forwards the version-specific methods of a parser to Spark's parser. */
trait ForwardingParser extends BucketParser {

  override def parseRoutineParam(sql: String): StructType = spark.parseRoutineParam(sql)

  override def parsePlanWithParameters(sql: String, parameters: ParameterContext): LogicalPlan = {
    def stock(text: String) = spark.parsePlanWithParameters(text, parameters)
    parameters match {
      case NamedParameterContext(values) => orBuckets(sql, named = values)(stock)
      case PositionalParameterContext(values) => orBuckets(sql, positional = values)(stock)
      case _ => orBuckets(sql)(stock)
    }
  }

  override def parseTemporalTableIdentifier(sql: String): TemporalIdentifier = spark.parseTemporalTableIdentifier(sql)
  override def splitStatements(sql: String): SqlStatementSplitResult = spark.splitStatements(sql)
}
