package org.apache.spark.sql.bucketing
package explain

import org.json4s.JsonAST.{JObject, JString}
import org.json4s.JsonDSL._
import org.json4s.jackson.JsonMethods.{compact, render}

import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.ddl.ExplainBuckets
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.{QueryExecution, SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.command.{ExecutedCommandExec, LeafRunnableCommand}
import org.apache.spark.sql.internal.SQLConf

/** Plans the statement EXPLAIN BUCKETS. */
object PlanExplainBuckets extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case statement: ExplainBuckets => ExecutedCommandExec(ExplainBucketsCommand(statement, statement.output)) :: Nil
    case _ => Nil
  }
}

/** Plans a query without running it, and returns its shuffles, sorts and scans as text or as a JSON document. */
case class ExplainBucketsCommand(statement: ExplainBuckets, override val output: Seq[Attribute]) extends LeafRunnableCommand {

  override def run(session: SparkSession): Seq[Row] = {
    val assumptions = statement.assumed.fold(Assumptions.None)(Assumptions.parse)
    val document = Compat.withSettings(session, assumptions.settings) { session =>
      assumptions.within {
        val query = Compat.planned(session, statement.query)
        ExplainBucketsCommand.document(session, query, statement.firstLine, assumptions)
      }
    }
    Seq(Row(if (statement.isJson) compact(render(document)) else ExplainText(document)))
  }
}

object ExplainBucketsCommand {

  /** The version of the document. Versions with the same number differ only in additional fields. */
  val Version = 1

  /** The settings that determine how Spark plans queries over bucketed tables. */
  private val Settings = Seq(
    "spark.sql.extensions", "spark.sql.shuffle.partitions", "spark.sql.sources.bucketing.enabled",
    "spark.sql.legacy.bucketedTableScan.outputOrdering", "spark.sql.bucketing.coalesceBucketsInJoin.enabled",
    "spark.sql.bucketing.coalesceBucketsInJoin.maxBucketRatio", "spark.sql.requireAllClusterKeysForCoPartition",
    "spark.sql.files.maxRecordsPerFile", "spark.sql.hive.convertMetastoreParquet", "spark.sql.hive.convertMetastoreOrc",
    "spark.bucketing.enabled", "spark.bucketing.write.distribute", "spark.bucketing.read.mergeFiles",
    "spark.bucketing.read.sparkLayout", "spark.bucketing.join.alignment")

  private def document(session: SparkSession, query: QueryExecution, firstLine: Int, assumptions: Assumptions): JObject = {
    val tables = new TableFacts(session, assumptions)
    document(query, new PlanNodes(session, tables, firstLine)) ~ ("tables" -> JObject(tables.all.toList))
  }

  /** Describes the plan that a query has run. */
  def executed(query: QueryExecution): JObject = {
    val session = query.sparkSession
    session.withActive(document(query, new PlanNodes(session, new TableFacts(session, Assumptions.None), 1, hasRun = true)) ~ ("tables" -> JObject()))
  }

  private def document(query: QueryExecution, nodes: PlanNodes): JObject = {
    val roots = nodes.add(query.executedPlan)
    val output: Seq[JObject] = query.analyzed.output.map(column => ("name" -> column.name) ~ ("type" -> column.dataType.catalogString))
    val settings = Settings.flatMap(key => scala.util.Try(SQLConf.get.getConfString(key)).toOption.filter(_ != null).map(key -> JString(_)))
    ("version" -> Version) ~ ("spark" -> SPARK_VERSION) ~ ("adaptive" -> nodes.isAdaptive) ~
      ("settings" -> JObject(settings.toList)) ~ ("output" -> output) ~ ("roots" -> roots) ~ ("nodes" -> nodes.all)
  }
}
