package org.apache.spark.sql.bucketing
package write

import java.util.UUID
import java.util.concurrent.ThreadLocalRandom

import scala.annotation.tailrec
import scala.util.Try

import org.apache.hadoop.fs.{FileSystem, Path}

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.metadata.{BucketFiles, TableFiles}
import org.apache.spark.sql.bucketing.read.CurrentReads
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, InsertIntoHadoopFsRelationCommand, LogicalRelation, PartitioningUtils, V1WriteCommand}

/**
 * Runs INSERT OVERWRITE as a replacement of files, so that readers see all old or all new files. Spark's own writer writes the new files into a hidden
 * directory of the table. Then [[FileReplacement]] replaces the files of the overwritten partitions with them.
 *
 * Statements that overwrite different partitions may run at the same time. If a replacement of another statement is under way, this one waits, and then
 * replaces the files that the partitions have by then.
 *
 * @param isDynamic whether the statement overwrites only the partitions that it has rows for
 * @param static the static partition values in the statement
 * @param read None if the query does not read the table; otherwise, the last replacement before it did. If another statement has replaced
 *             files since, the new rows may be outdated
 */
class FileOverwrite(session: SparkSession, table: CatalogTable, isDynamic: Boolean, static: TablePartitionSpec, read: Option[Option[Path]])
    extends Logging {

  private val root = new Path(new Path(table.location), FileOverwrite.Folder)
  private val fs = root.getFileSystem(Compat.hadoopConf(session))

  /**
   * Runs the statement.
   *
   * @param write writes the new files into a directory, in subdirectories by partition
   * @return the final name of each written file
   */
  def run(write: Path => Unit): String => String = {
    FileOverwrite.clean(root, fs)
    val folder = fs.makeQualified(new Path(root, s"${System.currentTimeMillis}-${UUID.randomUUID}"))
    try {
      write(folder)
      replace(FileOverwrite.filesBelow(folder, fs).map(file => specOf(file.getParent, folder) -> file))
    } finally {
      fs.delete(folder, true)
      Try(fs.delete(root, false)) // fails if another statement has files in it
    }
  }

  private def specOf(folder: Path, of: Path): TablePartitionSpec = {
    val path = folder.toUri.getPath.stripPrefix(of.toUri.getPath).stripPrefix("/")
    if (path.isEmpty) Map.empty else PartitioningUtils.parsePathFragment(path)
  }

  /** Replaces the files. If another statement commits first, tries again with new file names, because readers ignore the names in the log of an undone replacement. */
  @tailrec
  private def replace(written: Seq[(TablePartitionSpec, Path)], attempts: Int = FileOverwrite.Attempts): String => String = {
    val replacement = new FileReplacement(session, table)
    replacement.awaitOthers()
    val named: String => String = FileOverwrite.renamed(UUID.randomUUID.toString)
    val isDone = try {
      once(replacement, written, named)
      true
    } catch {
      // The new files are gone if another statement has undone this replacement after they were moved.
      case changed: ConcurrentChange if read.nonEmpty || attempts <= 1 || !written.forall(of => fs.exists(of._2)) => throw Compat.refusal(changed.getMessage)
      case changed: ConcurrentChange =>
        logInfo(s"The replacement of files of ${table.identifier.unquotedString} starts again.", changed)
        false
    }
    if (isDone) named
    else {
      Thread.sleep(ThreadLocalRandom.current.nextLong(FileOverwrite.PauseMillis))
      replace(written, attempts - 1)
    }
  }

  private def once(replacement: FileReplacement, written: Seq[(TablePartitionSpec, Path)], named: String => String): Unit = {
    val seen = read.getOrElse(replacement.last)
    val partitions = written.map(_._1).toSet
    val going = replacement.filesOf(partition => if (isDynamic) partitions(partition) else static.toSet.subsetOf(partition.toSet))
    val coming = written.map { case (partition, file) => replacement.moveTo(file, partition, named(file.getName)) }
    if (going.nonEmpty || coming.nonEmpty) {
      val folder = replacement.newFolder()
      try replacement.replace(folder, seen, going, coming, overwrites = true)(_ => ()) catch {
        case error: Throwable =>
          replacement.discard(folder)
          throw error
      }
    }
    // Spark creates or keeps this partition even if it has no rows.
    if (written.isEmpty && static.nonEmpty && static.size == table.partitionColumnNames.size) replacement.createEmpty(static)
  }
}

object FileOverwrite {

  /** The directory of files that a running INSERT OVERWRITE writes. Readers skip it. */
  val Folder = "_overwriting"

  private val Attempts = 100
  private val PauseMillis = 200L
  // A directory that is older than this is treated as left over from a crash.
  private val CrashedMillis: Long = 7L * 24 * 60 * 60 * 1000

  /** Returns the replacement that runs an INSERT OVERWRITE, or None if Spark must run the statement itself. */
  def of(session: SparkSession, write: V1WriteCommand, table: CatalogTable, isStatic: Boolean): Option[FileOverwrite] = write match {
    case insert: InsertIntoHadoopFsRelationCommand if BucketingConf.overwritesAtomically && CurrentReads.isChangeable(table) =>
      val mode = SealedCommands.modeOf(insert)
      if (!mode.overwrites || mode.onlyNew) None else {
        // The query is planned after this, so it reads the files of this replacement or a later one.
        val read = if (reads(insert.query, table)) Some(new FileReplacement(session, table).last) else None
        Some(new FileOverwrite(session, table, insert.dynamicPartitionOverwrite && !isStatic, insert.staticPartitions, read))
      }
    case _ => None
  }

  /** Returns whether a query reads a table. */
  private def reads(query: LogicalPlan, table: CatalogTable): Boolean = query.collectWithSubqueries { case relation: LogicalRelation => relation }.exists { relation =>
    relation.catalogTable.exists(_.identifier == table.identifier) || (relation.relation match {
      case files: HadoopFsRelation => files.location.rootPaths.exists(TableFiles(new Path(table.location)).contains)
      case _ => false
    })
  }

  // The names of Spark's files contain the id of their job.
  private val JobId = "(?<=part-[0-9]{1,9}-)[0-9a-f-]{36}"

  /** Returns the name of a file as if another job had written it. */
  private def renamed(job: String)(name: String): String = if (name.matches(s".*$JobId.*")) name.replaceFirst(JobId, job) else s"${name}_$job"

  /** Deletes what crashed statements have left. */
  private def clean(root: Path, fs: FileSystem): Unit = if (fs.exists(root)) {
    val oldest = System.currentTimeMillis - CrashedMillis
    fs.listStatus(root).map(_.getPath).filter(path => Try(path.getName.takeWhile(_.isDigit).toLong).toOption.exists(_ < oldest)).foreach(fs.delete(_, true))
  }

  private def filesBelow(folder: Path, fs: FileSystem): Seq[Path] =
    if (!fs.exists(folder)) Nil else fs.listStatus(folder).toSeq.filterNot(file => BucketFiles.isHidden(file.getPath.getName)).flatMap { file =>
      if (file.isDirectory) filesBelow(file.getPath, fs) else Seq(file.getPath)
    }
}
