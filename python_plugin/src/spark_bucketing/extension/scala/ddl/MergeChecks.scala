package org.apache.spark.sql.bucketing
package ddl

import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.catalyst.expressions.{Expression, Literal}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, MergeIntoTable, UnresolvedHint}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution.command.ExplainCommand
import org.apache.spark.unsafe.types.UTF8String

/**
 * Additional checks of a merge, before it changes the table. A hint in the source enables them:
 * {{{
 *   MERGE INTO t USING (SELECT /*+ MERGE_CHECKS('files', 'once') */ * FROM s) AS s ON ...
 * }}}
 * 'keys' fails if several rows of the source, or several rows of the table for a row of the source, have the same join keys. 'files' also reads the
 * touched files again, and compares row counts and checksums with the file statistics, if there are any, and with the new files. 'once' skips the merge if the last change
 * of the table was the same statement with the same source rows.
 */
object MergeChecks {

  val Keys = "keys"
  val Files = "files"
  val Once = "once"

  private val Hint = "merge_checks"
  private val Tag = TreeNodeTag[Set[String]]("spark_bucketing_merge_checks")

  /** Returns the checks of a statement. */
  def of(statement: LogicalPlan): Set[String] = statement.getTagValue(Tag).getOrElse(Set.empty)

  /** Moves the hint of a parsed statement into a tag, which the analyzer keeps. */
  def tagged(parsed: LogicalPlan): LogicalPlan = parsed.transform {
    case explain: ExplainCommand => explain.copy(logicalPlan = tagged(explain.logicalPlan))
    case merge: MergeIntoTable if merge.sourceTable.exists(isHint) =>
      var found = Set.empty[String]
      // From the bottom up, because the child of a hint can be another one.
      val marked = merge.copy(sourceTable = merge.sourceTable.transformUp {
        case hint: UnresolvedHint if isHint(hint) =>
          found ++= checks(hint.parameters)
          hint.child
      })
      marked.setTagValue(Tag, found)
      marked
  }

  private def isHint(plan: LogicalPlan): Boolean = plan match {
    case UnresolvedHint(name, _, _) => name.equalsIgnoreCase(Hint)
    case _ => false
  }

  /** Rejects hints that are still in a query. Spark would ignore them. */
  object RejectMisplaced extends Rule[LogicalPlan] {
    override def apply(plan: LogicalPlan): LogicalPlan = {
      if (plan.exists(isHint)) throw Compat.refusal("Cannot apply the hint `MERGE_CHECKS`.",
        "a hint in a common table expression, a subquery, a script or a statement other than MERGE INTO", "a hint in the source of MERGE INTO",
        "move the hint to the first SELECT of the source")
      plan
    }
  }

  private def checks(values: Seq[Any]): Set[String] = {
    val found = values.map {
      case Literal(text: UTF8String, _) => text.toString.toLowerCase(java.util.Locale.ROOT)
      case other: Expression => other.sql
      case other => other.toString
    }.toSet
    if (found.isEmpty || !found.subsetOf(Set(Keys, Files, Once))) throw Compat.refusal("Cannot parse the hint `MERGE_CHECKS`.",
      found.mkString(", "), s"'$Keys', '$Files' or '$Once'", s"write MERGE_CHECKS('$Files')")
    found
  }
}
