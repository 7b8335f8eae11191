package org.apache.spark.sql.bucketing
package write

import java.util.Locale

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, Literal}
import org.apache.spark.sql.catalyst.parser.CatalystSqlParser
import org.apache.spark.sql.catalyst.plans.logical.{Command, InsertIntoStatement, LogicalPlan, UnaryNode, UnresolvedHint}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.util.quoteNameParts
import org.apache.spark.sql.execution.command.ExplainCommand
import org.apache.spark.sql.execution.datasources.V1WriteCommand
import org.apache.spark.unsafe.types.UTF8String

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
  private val Hints = new StatementHints(Mode, Only)

  /** Moves the hints of a parsed statement into an operator above its query. */
  def aboveQuery(parsed: LogicalPlan): LogicalPlan = parsed.transform {
    case explain: ExplainCommand => explain.copy(logicalPlan = aboveQuery(explain.logicalPlan))
    case insert: InsertIntoStatement if Hints.areIn(insert.query) =>
      val (query, hints) = Hints.taken(insert.query)
      val table = insert.table.collectFirst { case table: UnresolvedRelation => quoteNameParts(table.multipartIdentifier) }
      insert.copy(query = HintedQuery(table.getOrElse("a table"), hints.foldLeft(OverwriteHints())(added(_, _, insert.overwrite)), query))
  }

  private def added(to: OverwriteHints, hint: StatementHint, overwrites: Boolean): OverwriteHints = {
    def refused(expected: String, example: String) = throw Compat.refusal(s"Cannot parse the hint `${hint.name}`.",
      if (overwrites) hint.shown else "INSERT INTO", s"$expected in INSERT OVERWRITE", s"write INSERT OVERWRITE TABLE t SELECT /*+ ${hint.name}($example) */")
    (hint.name, hint.texts) match {
      case (Mode, Some(Seq(mode))) if overwrites && mode.equalsIgnoreCase(Static) => to.copy(isStatic = true)
      case (Mode, _) => refused(s"'$Static'", s"'$Static'")
      case (_, Some(Seq(condition))) if overwrites && to.replaceOnly.isEmpty => to.copy(replaceOnly = Some(CatalystSqlParser.parseExpression(condition)))
      case _ => refused("this hint once, with one condition in quotes,", "'v > 0'")
    }
  }

  object RejectMisplaced extends RejectMisplacedHints(Hints,
    "a hint in a common table expression, a subquery, a script, a DataFrame, a query without INSERT OVERWRITE, or a statement that computes the table's name",
    "a hint of the outer query of INSERT OVERWRITE", "write INSERT OVERWRITE in SQL, with the table's name and with the hint in its first SELECT")

  def of(write: V1WriteCommand): OverwriteHints = write.query.collectFirst { case query: HintedQuery => query.hints }.getOrElse(OverwriteHints())

  def without(write: V1WriteCommand): V1WriteCommand =
    if (of(write).isEmpty) write else write.withNewChildren(Seq(write.query.transform { case query: HintedQuery => query.child })).asInstanceOf[V1WriteCommand]

  /**
   * Rejects hints of statements that cannot apply them. Commands such as the one for JDBC tables remove the old rows before
   * Spark plans the query, so [[PlanWrites]] would reject them too late.
   */
  object RejectUnsupported extends (LogicalPlan => Unit) {
    override def apply(plan: LogicalPlan): Unit = plan.foreach {
      case _: V1WriteCommand | _: ExplainCommand =>
      case command: Command => (command.children ++ command.innerChildren).foreach(_.foreach {
        case query: HintedQuery => throw unused(query)
        case _ =>
      })
      case _ =>
    }
  }

  /** Returns the error for hints of a statement that Spark would run without the extension. */
  def unused(query: HintedQuery): AnalysisException = Compat.refusal(s"Cannot overwrite ${query.table}.",
    s"the hint ${query.hints.name} in an INSERT OVERWRITE that the session extension does not run",
    s"a bucketed Parquet or ORC table or a table with file statistics, no IF NOT EXISTS, and true for ${BucketingConf.ENABLED.key}, " +
      s"${BucketingConf.ATOMIC.key}, spark.sql.hive.convertMetastoreParquet and spark.sql.hive.convertMetastoreOrc",
    "meet these requirements, or remove the hint")
}

/**
 * A hint of a statement.
 *
 * @param name the name in upper case
 * @param values expressions or, for some values, names
 */
case class StatementHint(name: String, values: Seq[Any]) {

  /** The values, if all of them are string literals. */
  def texts: Option[Seq[String]] = {
    val found = values.collect { case Literal(text: UTF8String, _) => text.toString }
    Some(found).filter(_.size == values.size)
  }

  def shown: String =
    if (values.isEmpty) "no value" else values.map { case value: Expression => value.sql; case value => value.toString }.mkString(", ")
}

/** Hints of this extension, which determine how Spark runs a statement. Spark itself ignores unknown hints, and only logs a warning. */
class StatementHints(names: String*) {

  /** Whether a query has such hints outside of common table expressions and subqueries. */
  def areIn(query: LogicalPlan): Boolean = query.exists(isHint)

  /** Removes these hints from a query, and returns them. */
  def taken(query: LogicalPlan): (LogicalPlan, Seq[StatementHint]) = {
    val found = Seq.newBuilder[StatementHint]
    // From the bottom up, because the child of a hint can be another one.
    val rest = query.transformUp {
      case hint: UnresolvedHint if isHint(hint) =>
        found += StatementHint(hint.name.toUpperCase(Locale.ROOT), hint.parameters)
        hint.child
    }
    rest -> found.result()
  }

  def isHint(plan: LogicalPlan): Boolean = plan match {
    case UnresolvedHint(name, _, _) => names.exists(_.equalsIgnoreCase(name))
    case _ => false
  }
}

/** Rejects hints that are still in a query when Spark analyzes it. The other arguments are parts of the message. */
class RejectMisplacedHints(hints: StatementHints, found: String, expected: String, instead: String) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan.foreach {
      case hint: UnresolvedHint if hints.isHint(hint) =>
        throw Compat.refusal(s"Cannot apply the hint `${hint.name.toUpperCase(Locale.ROOT)}`.", found, expected, instead)
      case _ =>
    }
    plan
  }
}
