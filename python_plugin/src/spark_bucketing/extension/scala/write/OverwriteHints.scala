package org.apache.spark.sql.bucketing
package write

import java.util.Locale

import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.catalyst.plans.logical.{InsertIntoStatement, LogicalPlan, UnaryNode, UnresolvedHint}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.quoteNameParts
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.command.ExplainCommand
import org.apache.spark.sql.execution.datasources.V1WriteCommand

/**
 * The hints of an INSERT OVERWRITE that replaces files.
 *
 * @param isStatic whether the statement replaces all partitions. Without the hint, Spark replaces only the partitions of the new rows if the table is a Hive
 *                 table, or if `spark.sql.sources.partitionOverwriteMode` is `dynamic`
 * @param replaceOnly a condition. If it is false for a row that the statement would replace, the statement fails
 */
case class OverwriteHints(isStatic: Boolean = false, replaceOnly: Option[Expression] = None) {
  def isEmpty: Boolean = this == OverwriteHints()
  def name: String = if (isStatic) s"${OverwriteHints.Mode}('${OverwriteHints.Static}')" else OverwriteHints.Only
}

/** The query of an INSERT OVERWRITE with hints. This operator cannot be planned, so a hint that the extension does not apply is an error. */
case class HintedQuery(table: String, hints: OverwriteHints, child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override def maxRows: Option[Long] = child.maxRows
  override protected def withNewChildInternal(changed: LogicalPlan): HintedQuery = copy(child = changed)
}

/**
 * Hints may be anywhere in the query, except in common table expressions and subqueries.
 * {{{
 *   INSERT OVERWRITE TABLE t SELECT /*+ PARTITION_OVERWRITE_MODE('static') */ * FROM s
 *   INSERT OVERWRITE TABLE t SELECT /*+ REPLACE_ONLY('updated_at >= DATE \'2024-01-01\'') */ * FROM s
 * }}}
 */
object OverwriteHints {

  private val Mode = "PARTITION_OVERWRITE_MODE"
  private val Only = "REPLACE_ONLY"
  private val Static = "static"

  /** Moves the hints of a parsed statement into an operator above its query. */
  def aboveQuery(parsed: LogicalPlan): LogicalPlan = parsed.transform {
    case explain: ExplainCommand => explain.copy(logicalPlan = aboveQuery(explain.logicalPlan))
    case insert: InsertIntoStatement if insert.query.exists(isHint) =>
      var hints = OverwriteHints()
      val query = insert.query.transform {
        case hint @ UnresolvedHint(name, values, rows) if isHint(hint) =>
          hints = added(hints, name.toUpperCase(Locale.ROOT), values.map(_.toString), insert.overwrite)
          rows
      }
      val table = insert.table.collectFirst { case table: UnresolvedRelation => quoteNameParts(table.multipartIdentifier) }
      insert.copy(query = HintedQuery(table.getOrElse("a table"), hints, query))
  }

  private def isHint(plan: LogicalPlan): Boolean = plan match {
    case UnresolvedHint(name, _, _) => Seq(Mode, Only).exists(_.equalsIgnoreCase(name))
    case _ => false
  }

  private def added(to: OverwriteHints, name: String, values: Seq[String], overwrites: Boolean): OverwriteHints = {
    def refused(expected: String, example: String) = Compat.refusal(s"Cannot parse the hint `$name`.",
      if (!overwrites) "INSERT INTO" else if (values.isEmpty) "no value" else values.mkString(", "), s"$expected in INSERT OVERWRITE", s"write INSERT OVERWRITE TABLE t SELECT /*+ $name($example) */")
    (name, values) match {
      case (Mode, Seq(mode)) if overwrites && mode.equalsIgnoreCase(Static) => to.copy(isStatic = true)
      case (Mode, _) => throw refused(s"'$Static'", s"'$Static'")
      case (_, Seq(condition)) if overwrites && to.replaceOnly.isEmpty => to.copy(replaceOnly = Some(CatalystSqlParser.parseExpression(condition)))
      case _ => throw refused("this hint once, with one condition in quotes,", "'v > 0'")
    }
  }

  /** Rejects hints that are still in a query. Spark would ignore them. */
  object RejectMisplaced extends Rule[LogicalPlan] {
    override def apply(plan: LogicalPlan): LogicalPlan = {
      plan.foreach {
        case hint: UnresolvedHint if isHint(hint) => throw Compat.refusal(s"Cannot apply the hint `${hint.name}`.",
          "a hint in a common table expression, a subquery, a script or a query without INSERT OVERWRITE", "a hint of the outer query of INSERT OVERWRITE",
          "move the hint to the first SELECT of the statement")
        case _ =>
      }
      plan
    }
  }

  def of(write: V1WriteCommand): OverwriteHints = write.query.collectFirst { case query: HintedQuery => query.hints }.getOrElse(OverwriteHints())

  def without(write: V1WriteCommand): V1WriteCommand =
    if (of(write).isEmpty) write else write.withNewChildren(Seq(write.query.transform { case query: HintedQuery => query.child })).asInstanceOf[V1WriteCommand]

  /** Rejects hints of a statement that Spark would run without the extension. */
  object RejectUnused extends SparkStrategy {
    override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
      case HintedQuery(table, hints, _) => throw Compat.refusal(s"Cannot overwrite $table.",
        s"the hint ${hints.name} in an INSERT OVERWRITE that the session extension does not run",
        s"a bucketed Parquet or ORC table in the Hive layout or a table with file statistics, no IF NOT EXISTS, ${BucketingConf.ENABLED.key}=true and ${BucketingConf.ATOMIC_OVERWRITE.key}=true",
        "meet these requirements, or remove the hint")
      case _ => Nil
    }
  }
}
