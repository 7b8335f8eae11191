package org.apache.spark.sql.bucketing
package explain

import java.util.IdentityHashMap

import scala.collection.mutable
import scala.util.Try

import org.json4s.JsonAST.{JField, JInt, JObject, JValue}
import org.json4s.JsonDSL._

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.hash.{BucketRangePartitioning, HiveHashPartitioning, SaltedPartitioning}
import org.apache.spark.sql.bucketing.read.BucketRequirements
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.{BuildLeft, BuildRight}
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.logical.{Aggregate, Join, LogicalPlan}
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, LogicalQueryStage, QueryStageExec}
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.columnar.{InMemoryRelation, InMemoryTableScanExec}
import org.apache.spark.sql.execution.command.ExecutedCommandExec
import org.apache.spark.sql.execution.exchange._
import org.apache.spark.sql.execution.joins._
import org.apache.spark.sql.execution.window.WindowExec

/**
 * Describes the operators of a physical plan.
 *
 * @param firstLine the line in which the text of the query starts
 * @param hasRun whether to describe a plan that has run: with its metrics, and without estimates and reasons, which take time
 */
class PlanNodes(session: SparkSession, tables: TableFacts, firstLine: Int, hasRun: Boolean = false) {

  private val ids = new IdentityHashMap[AnyRef, Int]
  private val lineages = mutable.Map.empty[Int, Lineage]
  // Described only when all operators have ids.
  private val nodes = mutable.ArrayBuffer.empty[() => JObject]
  private val subqueries = mutable.LinkedHashMap.empty[Int, SparkPlan]
  private val shuffles = new ShuffleReasons(lineages(_), id, isAdaptive)

  /** Whether adaptive execution may change the plan. */
  var isAdaptive = false

  def all: Seq[JObject] = nodes.toSeq.map(_())

  /** Adds a plan and its subqueries. Returns the ids of their root operators. */
  def add(plan: SparkPlan): Seq[Int] = {
    val roots = mutable.ArrayBuffer(visit(plan, None))
    var done = 0
    while (done < subqueries.size) {
      val subquery = subqueries.toSeq.apply(done)._2
      done += 1
      roots += visit(subquery.children.headOption.getOrElse(subquery), None)
    }
    roots.toSeq.distinct
  }

  private def id(plan: SparkPlan): Int = ids.get(PlanNodes.inner(plan))

  /** Adds an operator after its inputs, and returns its id. */
  private def visit(wrapped: SparkPlan, parent: Option[Place]): Int = {
    val plan = PlanNodes.inner(wrapped)
    isAdaptive |= wrapped.isInstanceOf[AdaptiveSparkPlanExec]
    if (ids.containsKey(plan)) ids.get(plan) else {
      val inputs = if (hasRun && plan.isInstanceOf[ExecutedCommandExec]) Nil else PlanNodes.inputs(session, plan)
      val above = parent.filter(_ => ShuffleReasons.passes(plan))
      val below = inputs.zipWithIndex.map { case (input, i) => visit(input, above.orElse(Some(Place(plan, i)))) }
      val children = plan match {
        case scan: InMemoryTableScanExec => Seq(cached(scan.relation))
        case _ => below
      }
      val number = nodes.size
      ids.put(plan, number)
      // A subquery whose result Spark reuses is the same operator as the first one.
      plan.subqueries.map(PlanNodes.subquery).foreach(found => subqueries.getOrElseUpdate(System.identityHashCode(found), found))
      val table = tables.scanned(plan)
      val lineage = Lineage.of(plan, number, table, children.map(lineages))
      lineages(number) = lineage
      nodes += (() => node(plan, number, children, table, lineage, parent))
      number
    }
  }

  /** Adds the plan whose rows a table scan in memory reads. */
  private def cached(relation: InMemoryRelation): Int = {
    val key = relation.cacheBuilder
    if (ids.containsKey(key)) ids.get(key) else {
      val child = visit(relation.cachedPlan, None)
      val number = nodes.size
      ids.put(key, number)
      lineages(number) = lineages(child)
      nodes += (() => ("id" -> number) ~ ("operator" -> "InMemoryRelation") ~ ("kind" -> "other") ~ ("children" -> Seq(child)))
      number
    }
  }

  private def node(plan: SparkPlan, number: Int, children: Seq[Int], table: Option[String], lineage: Lineage, parent: Option[Place]): JObject = {
    val (operator, title) = PlanNodes.name(plan)
    val isEmptyJoin = PlanNodes.ranBefore(plan).nonEmpty
    val kind = if (table.isDefined) "scan" else if (isEmptyJoin) "unknown" else PlanNodes.kind(plan, operator)
    val guess = if (kind != "unknown") None else if (isEmptyJoin) Some("join")
      else PlanNodes.Guesses.collectFirst { case (word, of) if operator.contains(word) => of }
    val stats = PlanNodes.link(plan).filter(_ => !hasRun).filter(_.collectLeaves().forall(_.stats.sizeInBytes < AssumedTable.Unknown)).map(_.stats)
    val input = children.headOption.fold(Lineage.Empty)(lineages)
    val common = ("id" -> number) ~ ("operator" -> operator) ~ ("title" -> title) ~ ("kind" -> kind) ~ ("guess" -> guess) ~ ("children" -> children) ~
      output(plan, lineage)
    val more = if (hasRun) JObject() ~ ("metrics" -> JObject(PlanNodes.metrics(plan))) else
      ("line" -> line(plan)) ~ ("rows" -> stats.flatMap(_.rowCount)) ~ ("bytes" -> stats.map(_.sizeInBytes)) ~
        ("requires" -> plan.children.indices.map(i => requirement(plan, i))) ~ ("delivers" -> delivered(plan))
    common ~ more ~ details(plan, kind, children, input, parent, table)
  }

  private def output(plan: SparkPlan, lineage: Lineage): JObject = {
    val passed = plan.children.size == 1 && !plan.isInstanceOf[ReusedExchangeExec] && plan.output.map(_.exprId) == plan.children.head.output.map(_.exprId) &&
      !plan.isInstanceOf[ProjectExec] && !plan.isInstanceOf[BaseAggregateExec]
    if (passed) JObject() else JObject(JField("output", plan.output.map { column =>
      ("id" -> column.exprId.id) ~ ("name" -> column.name) ~ ("type" -> column.dataType.catalogString) ~ lineage.of(column).json
    }))
  }

  private def requirement(plan: SparkPlan, i: Int): JObject =
    ("distribution" -> Lineage.withoutIds(PlanNodes.text(plan.requiredChildDistribution(i)))) ~
      ("ordering" -> plan.requiredChildOrdering(i).map(order => Lineage.withoutIds(order.toString)))

  private def delivered(plan: SparkPlan): JObject =
    ("partitioning" -> Lineage.withoutIds(BucketRequirements.partitioning(plan).toString)) ~
      ("ordering" -> Try(plan.outputOrdering).getOrElse(Nil).map(order => Lineage.withoutIds(order.toString)))

  /** Returns the line of a clause in the query. A view has lines of its own. */
  private def line(plan: SparkPlan): Option[Int] = {
    def ofAll(expressions: Seq[Expression]) = expressions.flatMap(_.collect { case found => found.origin })
    val link = plan.logicalLink
    val origins = plan match {
      // The origin of a join is that of its SELECT.
      case _: BaseJoinExec => link.toSeq.flatMap {
        case join: Join => ofAll(join.condition.toSeq).filter(_ != join.origin)
        case _ => Nil
      }
      case _: BaseAggregateExec => link.toSeq.flatMap {
        case aggregate: Aggregate => ofAll(aggregate.groupingExpressions) :+ aggregate.origin
        case other => Seq(other.origin)
      }
      case window: WindowExec => ofAll(window.windowExpression) ++ link.map(_.origin)
      case _ => Nil
    }
    origins.find(_.line.isDefined).filter(_.objectName.isEmpty).flatMap(_.line).map(_ - firstLine + 1).filter(_ > 0)
  }

  private def details(plan: SparkPlan, kind: String, children: Seq[Int], input: Lineage, parent: Option[Place], table: Option[String]): JObject = plan match {
    case join: BaseJoinExec => "join" -> this.join(join, children)
    case aggregate: BaseAggregateExec =>
      "aggregate" -> (("keys" -> aggregate.groupingExpressions.map(input.json)) ~ ("modes" -> aggregate.aggregateExpressions.map(_.mode.toString)) ~
        ("functions" -> aggregate.aggregateExpressions.map(of => Lineage.withoutIds(of.toString))))
    case window: WindowExec =>
      "window" -> (("keys" -> window.partitionSpec.map(input.json)) ~ ("order" -> window.orderSpec.map(input.order)))
    case exchange: ShuffleExchangeLike =>
      "shuffle" -> (if (hasRun) shuffle(exchange, input) else shuffle(exchange, input) merge shuffles.of(exchange, parent))
    case sort: SortExec =>
      val described = ("global" -> sort.global) ~ ("order" -> sort.sortOrder.map(input.order))
      "sort" -> (if (hasRun) described else described ~ shuffles.ofSort(sort, parent))
    case _ if hasRun => if (table.isDefined) "scan" -> tables.read(plan, table.get) else JObject()
    case exchange: BroadcastExchangeLike => "broadcast" -> shuffles.ofBroadcast(exchange, parent)
    case _ if table.isDefined => "scan" -> tables.scan(plan, table.get)
    case _ => JObject()
  }

  private def join(join: BaseJoinExec, children: Seq[Int]): JObject = {
    val Seq(left, right) = children.map(lineages)
    val build = join match {
      case hash: HashJoin => Some(hash.buildSide)
      case loop: BroadcastNestedLoopJoinExec => Some(loop.buildSide)
      case _ => None
    }
    ("type" -> join.joinType.toString.takeWhile(_ != '(')) ~ ("left_keys" -> join.leftKeys.map(left.json)) ~
      ("right_keys" -> join.rightKeys.map(right.json)) ~ ("build" -> build.map { case BuildLeft => "left"; case BuildRight => "right" })
  }

  private def shuffle(exchange: ShuffleExchangeLike, input: Lineage): JObject = {
    val partitioning = exchange.outputPartitioning
    val (kind, hash, keys) = PlanNodes.hashed(partitioning)
    ("hash" -> hash) ~ ("kind" -> kind) ~ ("keys" -> keys.map(input.json)) ~ ("partitions" -> partitioning.numPartitions) ~
      ("requested" -> (exchange.shuffleOrigin != ENSURE_REQUIREMENTS)) ~
      ("text" -> s"${Lineage.withoutIds(partitioning.toString)}, ${exchange.shuffleOrigin}")
  }
}

/** An input of an operator. */
case class Place(plan: SparkPlan, input: Int)

object PlanNodes {

  /** Operators that neither shuffle nor sort rows. Others may do so, or belong to another engine. */
  private val Known = Set(
    "Scan", "BatchScan", "InMemoryTableScan", "InMemoryRelation", "LocalTableScan", "Range", "RDDScan", "OneRowRelation", "ExternalRDDScan",
    "FileSourceScan", "HiveTableScan", "RowDataSourceScan", "EmptyRelation", "CommandResult",
    "Filter", "Expand", "Generate", "Sample", "Coalesce", "LocalLimit", "GlobalLimit", "ColumnarToRow", "RowToColumnar", "ArrowEvalPython",
    "BatchEvalPython", "ArrowEvalPythonUDTF", "BatchEvalPythonUDTF", "MapInPandas", "MapInArrow", "MapPartitions", "MapElements",
    "AppendColumns", "SerializeFromObject", "DeserializeToObject", "CollectMetrics", "EventTimeWatermark", "MergeRows",
    "ScriptTransformation", "SparkScriptTransformation", "HiveScriptTransformation", "GroupPartitions", "WindowGroupLimit",
    "AQEShuffleRead", "Subquery", "SubqueryBroadcast", "SubqueryAdaptiveBroadcast", "BucketedRows", "Execute", "WriteFiles", "AppendData",
    "OverwriteByExpression", "OverwritePartitionsDynamic", "ReplaceData", "WriteDelta", "CreateTableAsSelect", "AtomicCreateTableAsSelect",
    "ReplaceTableAsSelect", "AtomicReplaceTableAsSelect", "ChangeRows", "ExactRead")
  private val Joins = Set("SortMergeJoin", "ShuffledHashJoin", "BroadcastHashJoin", "BroadcastNestedLoopJoin", "CartesianProduct")
  private val Aggregates = Set("HashAggregate", "SortAggregate", "ObjectHashAggregate")
  private val Gathering = Set("TakeOrderedAndProject", "CollectLimit", "CollectTail")
  private val Kinds = Map("Window" -> "window", "Exchange" -> "exchange", "BroadcastExchange" -> "broadcast", "ReusedExchange" -> "reused",
    "Sort" -> "sort", "Project" -> "project", "Union" -> "union", "BucketUnion" -> "union")
  val Guesses: Seq[(String, String)] = Seq("Join" -> "join", "Window" -> "window", "Agg" -> "aggregate")

  def kind(plan: SparkPlan, operator: String): String =
    if (Joins(operator)) "join" else if (Aggregates(operator)) "aggregate" else if (Gathering(operator)) "gather"
    else Kinds.getOrElse(operator, if (Known(operator) || Seq("ColumnarToRow", "RowToColumnar").exists(operator.endsWith)) "other" else "unknown")

  /** Returns an operator without the wrappers of adaptive execution and generated code. */
  def inner(plan: SparkPlan): SparkPlan = plan match {
    case adaptive: AdaptiveSparkPlanExec => inner(adaptive.executedPlan)
    case stage: QueryStageExec => inner(stage.plan)
    case code: WholeStageCodegenExec => inner(code.child)
    case input: InputAdapter => inner(input.child)
    case other => other
  }

  /** Returns the inputs of an operator. Those of a statement are the plans that it shows in EXPLAIN. */
  def inputs(session: SparkSession, plan: SparkPlan): Seq[SparkPlan] = plan match {
    case reused: ReusedExchangeExec => Seq(reused.child)
    case command: ExecutedCommandExec => command.cmd.innerChildren.collect {
      case physical: SparkPlan => physical
      case query: LogicalPlan if query.resolved => Compat.executed(session, query).executedPlan
    }
    case other => if (other.children.isEmpty) ranBefore(other) else other.children
  }

  /** Returns the stages that have run before adaptive execution found that the result of a join is empty. */
  def ranBefore(plan: QueryPlan[_]): Seq[SparkPlan] = if (plan.nodeName != "EmptyRelation") Nil else plan.productIterator.toSeq.flatMap {
    case logical: LogicalPlan => logical.collect {
      case stage: LogicalQueryStage => Seq(stage.physicalPlan)
      case empty => ranBefore(empty)
    }.flatten
    case _ => Nil
  }

  @annotation.tailrec
  def subquery(plan: SparkPlan): SparkPlan = plan match {
    case reused: ReusedSubqueryExec => subquery(reused.child)
    case other => other
  }

  /** The keys of the metrics that event logs use. */
  private val Metrics = Set("numOutputRows", "scanTime", "sortTime", "spillSize", "shuffleBytesWritten", "shuffleRecordsWritten", "fetchWaitTime")

  private def metrics(plan: SparkPlan): List[JField] =
    plan.metrics.collect { case (key, metric) if Metrics(key) => JField(key, JInt(metric.id)) }.toList

  /** Returns the name of an operator, and the rest of its description in EXPLAIN. */
  def name(plan: SparkPlan): (String, String) = plan match {
    case join: BaseJoinExec => (join.nodeName.stripSuffix("(skew=true)"), join.joinType.toString)
    // Its name in EXPLAIN depends on whether the cached query has a name.
    case cached: InMemoryTableScanExec => ("InMemoryTableScan", cached.relation.cacheBuilder.tableName.getOrElse(""))
    case _ =>
      val (operator, title) = plan.nodeName.trim.span(_ != ' ')
      (operator, Lineage.withoutIds(title.trim))
  }

  /** Returns the logical operator of an operator. For an exchange or a sort that Spark has added, returns that of its input. */
  @annotation.tailrec
  def link(plan: SparkPlan): Option[LogicalPlan] = plan match {
    case (_: Exchange | _: SortExec) if plan.children.nonEmpty => link(inner(plan.children.head))
    case reused: ReusedExchangeExec => link(inner(reused.child))
    case other => other.logicalLink
  }

  def text(distribution: Distribution): String = distribution match {
    case clustered: ClusteredDistribution => s"ClusteredDistribution(${clustered.clustering.mkString(", ")})"
    case ordered: OrderedDistribution => s"OrderedDistribution(${ordered.ordering.mkString(", ")})"
    case other => other.toString
  }

  /** Returns the kind, the hash and the keys of a partitioning. */
  def hashed(partitioning: Partitioning): (String, Option[String], Seq[Expression]) = partitioning match {
    case hive: HiveHashPartitioning => ("hash", Some(hive.hash.name), hive.keys)
    case ranged: BucketRangePartitioning => ("hash", Some(ranged.ranges.hash.name), ranged.keys)
    case salted: SaltedPartitioning => ("hash", None, salted.keys)
    case hash: HashPartitioning => ("hash", Some("spark"), hash.expressions)
    case range: RangePartitioning => ("range", None, range.ordering.map(_.child))
    case _: RoundRobinPartitioning => ("round robin", None, Nil)
    case SinglePartition => ("single", None, Nil)
    case _ => ("unknown", None, Nil)
  }
}
