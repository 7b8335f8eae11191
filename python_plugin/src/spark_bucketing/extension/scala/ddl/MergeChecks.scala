package org.apache.spark.sql.bucketing
package ddl

import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, MergeIntoTable, SubqueryAlias, UnresolvedHint}
import org.apache.spark.sql.catalyst.trees.TreeNodeTag

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
  def tagged(parsed: LogicalPlan): LogicalPlan = parsed match {
    case merge: MergeIntoTable => merge.sourceTable match {
      case source @ SubqueryAlias(_, UnresolvedHint(name, values, rows)) if name.equalsIgnoreCase(Hint) =>
        val marked = merge.copy(sourceTable = source.copy(child = rows))
        marked.setTagValue(Tag, checks(values))
        marked
      case _ => merge
    }
    case other => other
  }

  private def checks(values: Seq[Any]): Set[String] = {
    val found = values.map(_.toString.toLowerCase(java.util.Locale.ROOT)).toSet
    if (found.isEmpty || !found.subsetOf(Set(Keys, Files, Once))) throw Compat.refusal("Cannot parse the hint `MERGE_CHECKS`.",
      found.mkString(", "), s"'$Keys', '$Files' or '$Once'", s"write MERGE_CHECKS('$Files')")
    found
  }
}
