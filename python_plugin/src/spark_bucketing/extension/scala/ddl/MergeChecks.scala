package org.apache.spark.sql.bucketing
package ddl

import java.util.Locale

import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.write.{RejectMisplacedHints, StatementHint, StatementHints}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, MergeIntoTable}
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution.command.ExplainCommand

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

  private val Hints = new StatementHints("MERGE_CHECKS")
  private val Tag = TreeNodeTag[Set[String]]("spark_bucketing_merge_checks")

  /** Returns the checks of a statement. */
  def of(statement: LogicalPlan): Set[String] = statement.getTagValue(Tag).getOrElse(Set.empty)

  /** Moves the hint of a parsed statement into a tag, which the analyzer keeps. */
  def tagged(parsed: LogicalPlan): LogicalPlan = parsed.transform {
    case explain: ExplainCommand => explain.copy(logicalPlan = tagged(explain.logicalPlan))
    case merge: MergeIntoTable if Hints.areIn(merge.sourceTable) =>
      val (source, hints) = Hints.taken(merge.sourceTable)
      val marked = merge.copy(sourceTable = source)
      marked.setTagValue(Tag, hints.flatMap(checks).toSet)
      marked
  }

  private def checks(hint: StatementHint): Seq[String] =
    hint.texts.map(_.map(_.toLowerCase(Locale.ROOT))).filter(found => found.nonEmpty && found.forall(Set(Keys, Files, Once))).getOrElse {
      throw Compat.refusal(s"Cannot parse the hint `${hint.name}`.", hint.shown, s"'$Keys', '$Files' or '$Once'", s"write ${hint.name}('$Files')")
    }

  object RejectMisplaced extends RejectMisplacedHints(Hints,
    "a hint in a common table expression, a subquery, a script, a DataFrame or a statement other than MERGE INTO", "a hint in the source of MERGE INTO",
    "write MERGE INTO in SQL, with the hint in the first SELECT of its source")
}
