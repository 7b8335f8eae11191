package org.apache.spark.sql.bucketing
package write

import scala.util.Try
import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path

import org.apache.spark.internal.Logging
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.metadata.{BucketValidation, PartitionStore, StatementScope, StoredPartition}
import org.apache.spark.sql.bucketing.read.CurrentReads
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTableType}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.command.{LeafRunnableCommand, LoadDataCommand, TruncateTableCommand}

/** Records changes of files by Spark's own statements, so that all sessions list the files again. See [[RecordedChange]]. */
object RecordChanges extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = if (!BucketingConf.enabled) plan else plan match {
    case truncate: TruncateTableCommand => RecordedChange(truncate, truncate.tableName)
    case load: LoadDataCommand => RecordedChange(load, load.table)
    case other => other
  }
}

/**
 * Runs a statement of Spark that changes files of a table without writing rows. Then commits a replacement of no files, which readers compare with their
 * listing. TRUNCATE TABLE also removes the seals, so that nobody takes the deleted files for lost.
 */
case class RecordedChange(of: LeafRunnableCommand, name: TableIdentifier) extends LeafRunnableCommand with Logging {

  override def nodeName: String = of.nodeName

  override def run(session: SparkSession): Seq[Row] =
    Try(Compat.catalog(session).getTableMetadata(name)).toOption.filter(CurrentReads.isChangeable).fold(of.run(session)) { table =>
      val log = new FileReplacement(session, table)
      log.awaitOthers()
      if (truncates(table)) SealWriter.unseal(session, table, truncated(session, table))
      val rows = of.run(session)
      val changes = FileChanges(StatementScope(of.nodeName, Seq(StatementScope.Whole), None), Nil, Nil)
      try {
        // A statement may have sealed new files before they were deleted.
        if (truncates(table)) SealWriter.unsealRemoved(session, table, foldersOf(table, truncated(session, table)).map(_ -> Nil).toMap)
        // A statement that has committed in the meantime would conflict with this one until it is done.
        log.awaitOthers(!_.statement.isAppend)
        log.run()(log.replace(_, changes)(_ => ())(_ => ()))
      } catch { case NonFatal(error) =>
        logWarning(s"Other sessions may read ${table.identifier.quotedString} as it was before ${of.nodeName}, until REFRESH TABLE.", error)
      }
      rows
    }

  /** Returns whether the statement deletes files. Spark rejects external tables, and columns that are not partition columns. */
  private def truncates(table: CatalogTable): Boolean = of match {
    case truncate: TruncateTableCommand => table.tableType == CatalogTableType.MANAGED &&
      truncate.partitionSpec.forall(_.keys.forall(column => table.partitionColumnNames.exists(_.equalsIgnoreCase(column))))
    case _ => false
  }

  private def truncated(session: SparkSession, table: CatalogTable): Seq[StoredPartition] = of match {
    case truncate: TruncateTableCommand if table.partitionColumnNames.nonEmpty =>
      PartitionStore.of(session).list(table, truncate.partitionSpec.map(BucketValidation.stored(table, _)).getOrElse(Map.empty))
    case _ => Nil
  }

  private def foldersOf(table: CatalogTable, partitions: Seq[StoredPartition]): Seq[Path] =
    if (table.partitionColumnNames.isEmpty) Seq(new Path(table.location)) else partitions.map(of => new Path(of.location))
}
