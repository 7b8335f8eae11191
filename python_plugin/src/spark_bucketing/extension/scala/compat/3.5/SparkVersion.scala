package org.apache.spark.sql.bucketing
package compat

import org.apache.hadoop.fs.{FileSystem, Path}

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.catalyst.analysis.UnresolvedTable
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, MergeIntoTable}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.command.CreateDataSourceTableAsSelectCommand

/** Contains code that depends on class names and constructors of Spark 3.5. */
object SparkVersion {

  type ClassicSession = SparkSession

  /** An error condition whose message consists only of the parameter `errorMessage`. */
  val AnyMessage: String = "_LEGACY_ERROR_TEMP_1332"

  def conditionOf(error: SparkThrowable): String = error.getErrorClass

  def unresolvedTable(name: Seq[String], command: String): LogicalPlan = UnresolvedTable(name, command, None)

  /** Spark 3.5 has no clause WITH SCHEMA EVOLUTION. */
  def evolvesSchema(merge: MergeIntoTable): Boolean = false

  /** Deletes files that may not exist. */
  def delete(fs: FileSystem, files: Seq[Path]): Unit = Compat.inParallel(files)(fs.delete(_, false))

  /** Spark 3.5 has no such rules. */
  def injectEarlyRule(extensions: SparkSessionExtensions, rule: SparkSession => Rule[LogicalPlan]): Unit = ()
}

/** A command that wraps a CTAS. In Spark 3.5, a CTAS does not keep common table expressions. */
trait CreateWithCtes extends LogicalPlan {
  def of: CreateDataSourceTableAsSelectCommand
  def withCreate(changed: CreateDataSourceTableAsSelectCommand): LogicalPlan
}
