package org.apache.spark.sql.bucketing
package compat

import java.io.IOException

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.{FileSystem, Path}

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.catalyst.analysis.UnresolvedTable
import org.apache.spark.sql.catalyst.plans.logical.{CTEInChildren, CTERelationDef, LogicalPlan, MergeIntoTable}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.command.CreateDataSourceTableAsSelectCommand

/** Contains code that depends on class names and constructors of Spark 4. */
object SparkVersion {

  type ClassicSession = org.apache.spark.sql.classic.SparkSession

  /** An error condition whose message consists only of the parameter `errorMessage`. */
  val AnyMessage: String = "USER_RAISED_EXCEPTION"

  def conditionOf(error: SparkThrowable): String = error.getCondition

  def unresolvedTable(name: Seq[String], command: String): LogicalPlan = UnresolvedTable(name, command)

  def evolvesSchema(merge: MergeIntoTable): Boolean = merge.withSchemaEvolution

  /** Deletes files that may not exist. An object store deletes many of them with one request. */
  def delete(fs: FileSystem, files: Seq[Path]): Unit = if (files.nonEmpty) {
    val deletion = fs.createBulkDelete(fs.makeQualified(new Path("/")))
    try {
      if (deletion.pageSize == 1) Compat.inParallel(files)(fs.delete(_, false))
      else Compat.inParallel(files.grouped(deletion.pageSize).toSeq)(page => deletion.bulkDelete(page.asJava).asScala.foreach { failed =>
        throw new IOException(s"${failed.getKey} cannot be deleted: ${failed.getValue}")
      })
    } finally deletion.close()
  }

  /** Adds a rule that runs before Spark resolves tables and columns. */
  def injectEarlyRule(extensions: SparkSessionExtensions, rule: SparkSession => Rule[LogicalPlan]): Unit = extensions.injectHintResolutionRule(rule(_))
}

/** A command that wraps a CTAS and keeps its common table expressions. */
trait CreateWithCtes extends CTEInChildren {
  def of: CreateDataSourceTableAsSelectCommand
  def withCreate(changed: CreateDataSourceTableAsSelectCommand): LogicalPlan

  override def withCTEDefs(definitions: Seq[CTERelationDef]): LogicalPlan =
    withCreate(of.withCTEDefs(definitions).asInstanceOf[CreateDataSourceTableAsSelectCommand])
}
