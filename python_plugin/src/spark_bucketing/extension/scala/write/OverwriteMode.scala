package org.apache.spark.sql.bucketing
package write

import java.util.Locale

import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.catalyst.plans.logical.{InsertIntoStatement, LogicalPlan, UnresolvedHint}
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution.datasources.V1WriteCommand

/**
 * A hint with which INSERT OVERWRITE replaces all partitions of a table. Without it, Spark replaces only the partitions of the new rows if it is a Hive
 * table, or if `spark.sql.sources.partitionOverwriteMode` is `dynamic`.
 * {{{
 *   INSERT OVERWRITE TABLE t SELECT /*+ PARTITION_OVERWRITE_MODE('static') */ * FROM s
 * }}}
 */
object OverwriteMode {

  private val Hint = "partition_overwrite_mode"
  private val Static = "static"
  private val Tag = TreeNodeTag[Unit]("spark_bucketing_partition_overwrite_mode")

  /** Moves the hint of a parsed statement into a tag, which the analyzer keeps. */
  def tagged(parsed: LogicalPlan): LogicalPlan = parsed.transform {
    case insert: InsertIntoStatement if insert.query.exists(isHint) =>
      val marked = insert.copy(query = insert.query.transform { case UnresolvedHint(name, values, rows) if name.equalsIgnoreCase(Hint) =>
        if (!insert.overwrite || values.map(_.toString.toLowerCase(Locale.ROOT)) != Seq(Static)) throw Compat.refusal(
          "Cannot parse the hint `PARTITION_OVERWRITE_MODE`.", if (insert.overwrite) values.mkString(", ") else "INSERT INTO",
          s"'$Static' in INSERT OVERWRITE", s"write INSERT OVERWRITE TABLE t SELECT /*+ PARTITION_OVERWRITE_MODE('$Static') */")
        rows
      })
      marked.setTagValue(Tag, ())
      marked
  }

  private def isHint(plan: LogicalPlan): Boolean = plan match {
    case UnresolvedHint(name, _, _) => name.equalsIgnoreCase(Hint)
    case _ => false
  }

  /** Returns whether a statement replaces all partitions because of the hint. */
  def isStatic(write: LogicalPlan): Boolean = write.getTagValue(Tag).isDefined

  def refusal(write: V1WriteCommand): Exception = Compat.refusal(
    s"Cannot replace all partitions of ${Compat.writtenTable(write).fold("a table")(_.identifier.quotedString)}.",
    s"the hint PARTITION_OVERWRITE_MODE('$Static') in an INSERT OVERWRITE that the session extension does not run",
    s"a bucketed table in the Hive layout or a table with file statistics, no IF NOT EXISTS, ${BucketingConf.ENABLED.key}=true and ${BucketingConf.ATOMIC_OVERWRITE.key}=true",
    "remove the hint, or meet these conditions")
}
