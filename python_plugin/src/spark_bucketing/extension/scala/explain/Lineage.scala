package org.apache.spark.sql.bucketing
package explain

import scala.util.Try

import org.json4s.JsonAST.JObject
import org.json4s.JsonDSL._

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.exchange.ReusedExchangeExec

/** A column of a scan, by the id of the scan's node. */
case class Source(scan: Int, table: String, column: Attribute)

/**
 * The table columns from which a value is computed.
 *
 * @param sources the columns, or none if one of them cannot be traced
 * @param isPlain whether the value is the column itself
 * @param cast the type of the value if it is only a cast of the column
 */
case class Origin(sources: Seq[Source], isPlain: Boolean, cast: Option[String] = None) {

  def json: JObject = ("sources" -> sources.map { source =>
    ("scan" -> source.scan) ~ ("column" -> source.column.name) ~ ("id" -> source.column.exprId.id)
  }) ~ ("plain" -> isPlain) ~ ("cast" -> cast)
}

object Origin {
  val Unknown: Origin = Origin(Nil, isPlain = false)
}

/** The origins of the columns of one operator, and the expressions that operators below have computed, by the ids of the columns. */
case class Lineage(origins: Map[ExprId, Origin], made: Map[ExprId, Expression]) {

  def of(value: Expression): Origin = value match {
    case Alias(child, _) => of(child)
    case column: Attribute => origins.getOrElse(column.exprId, Origin.Unknown)
    case _ =>
      val known = value.references.toSeq.map(of)
      val sources = known.flatMap(_.sources).distinct
      if (known.exists(_.sources.isEmpty) || sources.isEmpty) Origin.Unknown else value match {
        case cast: Cast if cast.child.isInstanceOf[Attribute] && known.head.isPlain && sources.size == 1 =>
          Origin(sources, isPlain = false, Some(cast.dataType.catalogString))
        case _ => Origin(sources, isPlain = false)
      }
  }

  /** Describes an expression over the columns of the operator. */
  def json(value: Expression): JObject = {
    val id = value match {
      case named: NamedExpression => Some(named.exprId.id)
      case _ => None
    }
    ("text" -> text(value)) ~ ("id" -> id) ~ ("type" -> Try(value.dataType.catalogString).toOption) ~ of(value).json
  }

  def order(sort: SortOrder): JObject =
    json(sort.child) ~ ("ascending" -> (sort.direction == Ascending)) ~ ("nulls_first" -> (sort.nullOrdering == NullsFirst))

  /** Returns an expression as text, with the expressions that operators below have computed. */
  def text(value: Expression): String = Lineage.text(value.transformUp { case column: Attribute => made.getOrElse(column.exprId, column) })

  /** Returns the lineage of an operator that passes on these columns with other ids. */
  private def renamed(from: Seq[Attribute], to: Seq[Attribute]): Lineage = {
    val pairs = from.map(_.exprId).zip(to.map(_.exprId))
    def passed[A](values: Map[ExprId, A]) = pairs.flatMap { case (old, now) => values.get(old).map(now -> _) }.toMap
    Lineage(passed(origins), passed(made))
  }

  private def computed(columns: Seq[NamedExpression]): Lineage = Lineage(
    columns.map(column => column.exprId -> of(column)).toMap,
    made ++ columns.collect { case column @ Alias(value, _) if !value.foldable => column.exprId -> value })
}

object Lineage {

  val Empty: Lineage = Lineage(Map.empty, Map.empty)

  /** Returns the lineage of an operator's output from that of its inputs. */
  def of(plan: SparkPlan, id: Int, table: Option[String], inputs: Seq[Lineage]): Lineage = plan match {
    case _ if table.isDefined =>
      Lineage(plan.output.map(column => column.exprId -> Origin(Seq(Source(id, table.get, column)), isPlain = true)).toMap, Map.empty)
    case project: ProjectExec => inputs.head.computed(project.projectList)
    case aggregate: BaseAggregateExec => inputs.head.computed(aggregate.groupingExpressions ++ aggregate.resultExpressions)
    case limit: TakeOrderedAndProjectExec => inputs.head.computed(limit.projectList)
    case reused: ReusedExchangeExec => inputs.headOption.fold(Empty)(_.renamed(reused.child.output, reused.output))
    case union if union.children.size > 1 && isUnion(union) => inputs.head.renamed(union.children.head.output, union.output)
    case _ => inputs.reverse.fold(Empty)((a, b) => Lineage(a.origins ++ b.origins, a.made ++ b.made))
  }

  private def isUnion(plan: SparkPlan) = plan.isInstanceOf[UnionExec] || plan.isInstanceOf[read.BucketUnionExec]

  private val Id = "#\\d+L?".r
  private val Catalog = "`?spark_catalog`?\\.".r

  def withoutIds(text: String): String = Catalog.replaceAllIn(Id.replaceAllIn(text, ""), "")

  /** Returns an expression as Spark prints it in plans, without ids. */
  def text(value: Expression): String =
    withoutIds(value.transform { case column: Attribute => PrettyAttribute(column.name, column.dataType) }.toString)
}
