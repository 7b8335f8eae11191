package org.apache.spark.sql.bucketing
package compat

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.analysis.UnresolvedTable
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{CTEInChildren, CTERelationDef, LogicalPlan}
import org.apache.spark.sql.execution.{LocalTableScanExec, SparkPlan}
import org.apache.spark.sql.execution.command.CreateDataSourceTableAsSelectCommand

/** Names and constructors of Spark 4. */
object SparkVersion {

  type ClassicSession = org.apache.spark.sql.classic.SparkSession

  /** The condition of an error whose text is its only parameter, `errorMessage`. */
  val AnyMessage: String = "USER_RAISED_EXCEPTION"

  def conditionOf(error: SparkThrowable): String = error.getCondition

  def knownRows(output: Seq[Attribute], rows: Seq[InternalRow]): SparkPlan = LocalTableScanExec(output, rows, None)

  def unresolvedTable(name: Seq[String], command: String): LogicalPlan = UnresolvedTable(name, command)
}

/** A CTAS in a command, which keeps its common table expressions. */
trait CreateWithCtes extends CTEInChildren {
  def of: CreateDataSourceTableAsSelectCommand
  def withCreate(changed: CreateDataSourceTableAsSelectCommand): LogicalPlan

  override def withCTEDefs(definitions: Seq[CTERelationDef]): LogicalPlan =
    withCreate(of.withCTEDefs(definitions).asInstanceOf[CreateDataSourceTableAsSelectCommand])
}
