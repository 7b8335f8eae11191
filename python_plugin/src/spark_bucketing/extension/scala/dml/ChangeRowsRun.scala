package org.apache.spark.sql.bucketing
package dml

import java.util.Locale
import java.util.concurrent.ThreadLocalRandom

import scala.annotation.tailrec

import org.apache.hadoop.fs.FileStatus

import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.ddl.MergeChecks
import org.apache.spark.sql.bucketing.metadata.{FileIdentity, FilesDigest, WriteTarget}
import org.apache.spark.sql.bucketing.write._
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.execution.SQLExecution
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}

/**
 * Runs a statement in three steps: it finds the touched files, writes the changed files in one job, and replaces the touched files
 * with them. If another statement has replaced files in the meantime, it starts again.
 *
 * @param metrics the metrics of [[ChangeRowsRun.metrics]], which it sets
 */
case class ChangeRowsRun(session: SparkSession, statement: ChangeRows, metrics: Map[String, SQLMetric]) extends Logging {

  @tailrec
  final def run(attempts: Int = ChangeRowsRun.Attempts): ChangeCounts = {
    val result = try Right(once()) catch { case changed: ConcurrentChange => Left(changed) } finally publish()
    result match {
      case Right(counts) => counts
      case Left(changed) if attempts > 1 =>
        logWarning("A statement starts again, because the table has changed since it read it.", changed)
        Thread.sleep(ThreadLocalRandom.current.nextLong(ChangeRowsRun.PauseMillis))
        run(attempts - 1)
      case Left(changed) => throw Compat.refusal(changed.getMessage)
    }
  }

  private def publish(): Unit = SQLMetrics.postDriverMetricUpdates(
    session.sparkContext, session.sparkContext.getLocalProperty(SQLExecution.EXECUTION_ID_KEY), metrics.values.toSeq)

  private def once(): ChangeCounts = {
    val table = Compat.current(session, statement.table)
    WriteTarget.check(session, table, "change rows of", Some(statement.files.location))
    checkColumns(table)
    val replacement = new FileReplacement(session, table)
    replacement.awaitOthers(!_.statement.isAppend)
    val stored = new Stored(session)
    try replacement.runOnce(new ChangeCounts(IndexedSeq.empty))(once(table, replacement, stored, _)) finally stored.close()
  }

  private def once(table: CatalogTable, replacement: FileReplacement, stored: Stored, transaction: Transaction): ChangeCounts = {
    val source = replacement.before(transaction)(SourceRows.of(statement, stored))
    val partitions = statement.partitionFilters ++ source.toSeq.flatMap(SourcePartitions.filters(statement, stored, _))
    val snapshot = TableSnapshot.now(session, table, statement, partitions)
    val rowsId = source.filter(_ => statement.checks(MergeChecks.Once) && !statement.hasSubqueries).map(of => s"${statement.id} ${of.hash(stored)}")
    if (rowsId.exists(id => replacement.merged.contains(mergedId(id, snapshot.files.map(_.status))))) {
      logInfo(s"The last change of ${table.identifier.unquotedString} has already merged these rows.")
      return new ChangeCounts(IndexedSeq.empty)
    }
    val touching = new TouchedFiles(statement, snapshot, stored, source)
    val touched = replacement.before(transaction)(touching.find())
    val changed = FileRewrite.of(session, statement, snapshot, touching.rows, touched)
    val old = changed.old.map(_.status)
    def record(values: (String, Long)*): Unit = values.foreach { case (name, value) => metrics(name).set(value) }
    val counts = touched.changes
    record("numListedFiles" -> snapshot.files.size, "numSearchedFiles" -> touched.searched,
      "numUpdatedRows" -> counts.updated, "numDeletedRows" -> counts.deleted, "numInsertedRows" -> counts.inserted)
    record("numReplacedFiles" -> old.size, "replacedBytes" -> old.map(_.getLen).sum)
    if (!changed.isEmpty) {
      val files = replacement.before(transaction) {
        val written = changed.write(transaction.staged, stored)
        if (statement.checks.contains(MergeChecks.Files)) changed.check(written, stored)
        written
      }
      val changes = FileChanges(changed.scope(partitions, files), old, files.map(changed.move(_, replacement)))
      val written = replacement.replace(transaction, changes) { written =>
        changed.record(files, transaction.folder, written)
        rowsId.foreach(id => replacement.writeMerged(transaction.folder, mergedId(id, snapshot.files.map(_.status).filterNot(old.contains) ++ written)))
      }(changed.committed(files, transaction.folder, _))
      record("numNewFiles" -> files.size, "newBytes" -> written.map(_.getLen).sum)
      logInfo(s"Replaced ${old.size} of ${snapshot.files.size} listed files of ${table.identifier.unquotedString} with ${files.size} new files.")
    }
    counts
  }

  /** Checks that the statement was analyzed with the table's columns, because another session may have added some. The new files would lack them. */
  private def checkColumns(table: CatalogTable): Unit = {
    def columns(of: CatalogTable) = CharVarcharUtils.replaceCharVarcharWithStringInSchema(of.schema).map(column => column.name.toLowerCase(Locale.ROOT) -> column.dataType)
    if (columns(table) != columns(statement.table)) {
      Compat.refresh(session, table.identifier)
      throw ResolveRowChanges.refusal(table.identifier.quotedString, s"the columns ${table.schema.fieldNames.mkString(", ")}, which another session has changed",
        s"the columns ${statement.table.schema.fieldNames.mkString(", ")}", "run it again; this session knows the columns now")
    }
  }

  /** Returns an id of merged rows and of the files of the table after the merge. A later change of the table makes it invalid. */
  private def mergedId(rowsId: String, files: Seq[FileStatus]): String = {
    val digest = FilesDigest.of(files.map(file => FileIdentity(file.getPath.toUri.getPath, file.getLen, file.getModificationTime)))
    s"$rowsId ${digest.count} ${digest.hex}"
  }
}

object ChangeRowsRun {
  private val Attempts = 3
  private val PauseMillis = 1000L

  /** Returns new metrics of a statement, which the SQL tab of Spark's UI shows. */
  def metrics(context: SparkContext): Map[String, SQLMetric] = Map(
    "numListedFiles" -> "files listed", "numSearchedFiles" -> "files searched for rows", "numReplacedFiles" -> "files replaced", "numNewFiles" -> "files written",
    "numUpdatedRows" -> "rows updated", "numDeletedRows" -> "rows deleted", "numInsertedRows" -> "rows inserted"
  ).map { case (key, name) => key -> SQLMetrics.createMetric(context, name) } ++ Map(
    "replacedBytes" -> "size of files replaced", "newBytes" -> "size of files written"
  ).map { case (key, name) => key -> SQLMetrics.createSizeMetric(context, name) }
}
