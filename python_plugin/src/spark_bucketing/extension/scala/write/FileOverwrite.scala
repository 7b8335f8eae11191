package org.apache.spark.sql.bucketing
package write

import java.util.{Locale, UUID}
import java.util.concurrent.ThreadLocalRandom

import scala.annotation.tailrec
import scala.collection.mutable
import scala.util.Try
import scala.util.control.NonFatal

import org.apache.hadoop.fs.{FileStatus, FileSystem, Path}

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.hash.BucketHash
import org.apache.spark.sql.bucketing.metadata.{BucketFiles, FileStatistics, TableFiles}
import org.apache.spark.sql.bucketing.read.{CurrentReads, FileStatisticsColumns, FixedFiles}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTablePartition}
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils.DEFAULT_PARTITION_NAME
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan, Project}
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, InsertIntoHadoopFsRelationCommand, LogicalRelation, PartitionDirectory, PartitioningUtils, V1WriteCommand}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{DataType, MapType}

/**
 * Runs INSERT OVERWRITE as a replacement of files, so that readers see all old or all new files. Spark's own writer writes the new files into a hidden
 * directory of the table. Then [[FileReplacement]] replaces the files of the overwritten partitions with them.
 *
 * Statements that overwrite different partitions may run at the same time. If a replacement of another statement is under way, this one waits, and then
 * replaces the files that the partitions have by then.
 *
 * INSERT INTO an organized table runs in the same way, but replaces no files.
 *
 * @param overwrites whether the statement is an INSERT OVERWRITE
 * @param isDynamic whether the statement overwrites only the partitions that it has rows for
 * @param static the static partition values in the statement
 * @param byBucket the hash of the buckets, if the statement distributes its rows so that each bucket of a partition gets one file
 * @param read None if the query does not read the table; otherwise, what it reads. If another statement has changed the table since, the new rows may be
 *             outdated
 * @param replaceOnly checks the rows to replace, if the statement has the hint
 */
class FileOverwrite(
    session: SparkSession, val table: CatalogTable, overwrites: Boolean, isDynamic: Boolean, static: TablePartitionSpec, val isOrganized: Boolean,
    byBucket: Option[BucketHash], read: Option[FilesRead], replaceOnly: Option[ReplaceOnly]) extends Logging {

  private val root = new Path(new Path(table.location), FileOverwrite.Folder)
  private val fs = root.getFileSystem(Compat.hadoopConf(session))

  /**
   * Runs the statement.
   *
   * @param write writes the new files into a directory, in subdirectories by partition, and returns them
   * @param record writes what the table records about the files, into the directory of the replacement. Its arguments are the paths that the files had
   *               in the first directory, and the files at their final paths
   * @return the final name of each written file
   */
  def run(write: Path => Seq[Path])(record: (Path, Seq[(Path, FileStatus)]) => Unit = (_, _) => ()): String => String = {
    FileOverwrite.clean(root, fs)
    val folder = fs.makeQualified(new Path(root, s"${System.currentTimeMillis}-${UUID.randomUUID}"))
    // The parent directory stays. Another statement may be creating a directory in it.
    try replace(write(folder).map(file => specOf(file.getParent, folder) -> file), record) finally try fs.delete(folder, true) catch {
      // The statement may have taken effect.
      case NonFatal(error) => logWarning(s"Cannot delete $folder. A later statement deletes it.", error)
    }
  }

  /**
   * Returns the files in a directory. Throws an error if there are fewer files than the tasks have written: the statement would replace old files without new ones.
   *
   * @param otherExchange the operator that distributed the rows in another way than planned
   */
  def written(folder: Path, number: Long, otherExchange: Option[String]): Seq[Path] = {
    val files = FileOverwrite.filesBelow(folder, fs)
    if (files.size < number) throw Compat.refusal(s"Cannot replace files of ${table.identifier.quotedString}.", s"${files.size} new files in $folder",
      s"$number new files, as reported by the tasks", "run it again; nothing has been replaced")
    byBucket.foreach(checkBuckets(files, _, otherExchange))
    files
  }

  // Spark writes some different partition values into the same directory.
  private def checkBuckets(written: Seq[Path], hash: BucketHash, otherExchange: Option[String]): Unit =
    written.groupBy(file => (file.getParent, BucketFiles.bucketOf(file.getName, hash))).collectFirst { case ((folder, Some(bucket)), of) if of.size > 1 =>
      throw Compat.refusal(s"Cannot replace files of ${table.identifier.quotedString}.",
        s"${of.size} new files of bucket $bucket in ${folder.getName}${otherExchange.fold("")(name => s", whose rows were distributed by $name")}",
        "one file for each bucket of a partition", if (otherExchange.isDefined) "disable this operator for the statement; nothing has been replaced" else "use partition values with different directory names, unlike NULL and __HIVE_DEFAULT_PARTITION__, or two timestamps " +
          "with the same local time; nothing has been replaced")
    }

  private def specOf(folder: Path, of: Path): TablePartitionSpec = {
    val path = folder.toUri.getPath.stripPrefix(of.toUri.getPath).stripPrefix("/")
    if (path.isEmpty) Map.empty else PartitioningUtils.parsePathFragment(path)
  }

  /** Replaces the files. If another statement commits first, tries again with new file names, because readers ignore the names in the log of an undone replacement. */
  @tailrec
  private def replace(
      written: Seq[(TablePartitionSpec, Path)], record: (Path, Seq[(Path, FileStatus)]) => Unit, attempts: Int = FileOverwrite.Attempts): String => String = {
    val replacement = new FileReplacement(session, table)
    replacement.awaitOthers()
    val named: String => String = FileOverwrite.renamed(UUID.randomUUID.toString)
    val isDone = try {
      once(replacement, written, named, record)
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
      replace(written, record, attempts - 1)
    }
  }

  private def once(
      replacement: FileReplacement, written: Seq[(TablePartitionSpec, Path)], named: String => String, record: (Path, Seq[(Path, FileStatus)]) => Unit): Unit = {
    val seen = read.fold(replacement.last)(_.last)
    val partitions = written.map(_._1).toSet
    def isOverwritten(partition: TablePartitionSpec) = partitions(partition) || !isDynamic && static.toSet.subsetOf(partition.toSet)
    val going = if (overwrites) replacement.filesOf(isOverwritten) else Nil
    read.foreach(_.check(going, replacement))
    replaceOnly.foreach(only => replacement.before(seen)(only.check(going, replacement.known)))
    val coming = written.map { case (partition, file) => replacement.moveTo(file, partition, named(file.getName)) }
    val replaces = going.nonEmpty || coming.nonEmpty
    // After a crash between the commit and the seal, the old files would otherwise be missing.
    if (going.nonEmpty && coming.isEmpty && table.bucketSpec.isDefined) SealWriter.unseal(session, table, Nil)
    if (replaces) replacement.inNewFolder { folder =>
      replacement.replace(folder, seen, going, coming, overwrites && replaceOnly.isEmpty)(files => record(folder, written.map(_._2).zip(files)))
    }
    def alterPartitions(): Unit = {
      if (overwrites && !isDynamic && table.partitionColumnNames.nonEmpty) replacement.dropWithoutFiles(isOverwritten)
      // Spark creates or keeps this partition even if it has no rows.
      if (written.isEmpty && static.nonEmpty && static.size == table.partitionColumnNames.size) replacement.createEmpty(static)
    }
    if (replaces) replacement.afterCommit("Partitions without rows may not have been created or dropped.")(alterPartitions()) else alterPartitions()
  }
}

/**
 * What the query of an INSERT OVERWRITE reads of the statement's own table.
 *
 * @param last the last committed replacement
 * @param files the paths of all files of the table
 */
case class FilesRead(last: Option[Path], files: Set[Path]) {

  /** Throws an error unless the query may have read all files that the statement replaces. */
  def check(going: Seq[FileStatus], replacement: FileReplacement): Unit =
    going.find(file => !files(file.getPath)).foreach(file => throw replacement.changed(s"another statement has added ${file.getPath}"))
}

object FilesRead {
  def now(replacement: FileReplacement): FilesRead = FilesRead(replacement.last, replacement.filesOf(_ => true).map(_.getPath).toSet)
}

object FileOverwrite {

  /** The directory of files that a running INSERT OVERWRITE writes. Readers skip it. */
  val Folder = "_overwriting"

  private val Attempts = 100
  private val PauseMillis = 200L
  // A directory that is older than this is treated as left over from a crash.
  private val CrashedMillis: Long = 7L * 24 * 60 * 60 * 1000

  /** Returns the replacement that runs an INSERT, or None if Spark must run the statement itself. */
  def of(session: SparkSession, write: V1WriteCommand, table: CatalogTable, hints: OverwriteHints): Option[FileOverwrite] = write match {
    case insert: InsertIntoHadoopFsRelationCommand if BucketingConf.overwritesAtomically && CurrentReads.isChangeable(table) =>
      val mode = SealedCommands.modeOf(insert)
      val isOrganized = isOrganizable(insert, table) && !BucketedWrites.isDistributed(insert.query)
      if (!mode.overwrites && !isOrganized || mode.onlyNew) None else {
        // The query is planned after this, so it reads the files of this replacement or a later one.
        val relations = if (mode.overwrites) relationsOf(insert.query, table) else Nil
        val read = if (relations.isEmpty) None else Some(FilesRead.now(new FileReplacement(session, table)))
        // Otherwise, the query could read files of an earlier listing.
        relations.foreach(_.location.refresh())
        val static = insert.staticPartitions.map { case (column, value) => column -> Option(value).filter(_.nonEmpty).getOrElse(DEFAULT_PARTITION_NAME) }
        val byBucket = if (insert.query.isInstanceOf[BucketedRows]) Some(SealedWrites.hashOf(insert.options)) else None
        Some(new FileOverwrite(session, table, mode.overwrites, insert.dynamicPartitionOverwrite && !hints.isStatic, static, isOrganized, byBucket, read,
          hints.replaceOnly.map(new ReplaceOnly(session, table, insert, _))))
      }
    case _ => None
  }

  /** Returns whether a statement can write the files of an organized table. Names that differ only in case are not unique in the metastore. */
  private def isOrganizable(insert: InsertIntoHadoopFsRelationCommand, table: CatalogTable): Boolean = {
    lazy val columns = FileStatisticsColumns(table)
    BucketingConf.distributesWrites && FileStatistics.isKept(table.properties) && insert.bucketSpec.isEmpty &&
      insert.outputColumnNames.map(_.toLowerCase(Locale.ROOT)).distinct.size == insert.outputColumnNames.size &&
      (columns.implicitPartition ++ columns.organized).forall(column => isComparable(column.dataType))
  }

  private def isComparable(dataType: DataType): Boolean =
    RowOrdering.isOrderable(dataType) && !dataType.existsRecursively(of => of.isInstanceOf[MapType] || of.typeName == "variant")

  /** Returns the relations in a query that read a table. */
  private def relationsOf(query: LogicalPlan, table: CatalogTable): Seq[HadoopFsRelation] = query.collectWithSubqueries {
    case relation: LogicalRelation => relation.relation -> relation.catalogTable
  }.collect {
    case (files: HadoopFsRelation, of) if of.exists(_.identifier == table.identifier) || files.location.rootPaths.exists(TableFiles(new Path(table.location)).contains) => files
  }

  // The names of Spark's files contain the id of their job.
  private val JobId = "(?<=part-[0-9]{1,9}-)[0-9a-f-]{36}"

  /** Returns the name of a file as if another job had written it. */
  private def renamed(job: String)(name: String): String = if (name.matches(s".*$JobId.*")) name.replaceFirst(JobId, job) else s"${name}_$job"

  /** Deletes what crashed statements have left. */
  private def clean(root: Path, fs: FileSystem): Unit = {
    val oldest = System.currentTimeMillis - CrashedMillis
    BucketFiles.children(root, fs).map(_.getPath).filter(path => Try(path.getName.takeWhile(_.isDigit).toLong).toOption.exists(_ < oldest)).foreach(fs.delete(_, true))
  }

  // The name of a partition column may start with an underscore.
  private def isHidden(name: String): Boolean = BucketFiles.isHidden(name) && !name.contains("=")

  private def filesBelow(folder: Path, fs: FileSystem): Seq[Path] =
    BucketFiles.children(folder, fs).filterNot(file => isHidden(file.getPath.getName)).flatMap { file =>
      if (file.isDirectory) filesBelow(file.getPath, fs) else Seq(file.getPath)
    }
}

/** Checks the rows that an INSERT OVERWRITE replaces. */
class ReplaceOnly(session: SparkSession, table: CatalogTable, insert: InsertIntoHadoopFsRelationCommand, condition: Expression) {

  /**
   * Throws an error if the condition is false for a row.
   *
   * @param files the files to replace
   * @param partitions the directories of all partitions
   */
  def check(files: Seq[FileStatus], partitions: Map[TablePartitionSpec, Path]): Unit = {
    def key(file: FileStatus) = (file.getPath, file.getLen, file.getModificationTime)
    val unchecked = files.filterNot(file => checked(key(file)))
    if (unchecked.nonEmpty) checkRows(unchecked, partitions)
    checked ++= unchecked.map(key)
  }

  // The statement may start again after other statements have changed other files.
  private val checked = mutable.HashSet.empty[(Path, Long, Long)]

  private def checkRows(files: Seq[FileStatus], partitions: Map[TablePartitionSpec, Path]): Unit = {
    val root = new Path(table.location)
    val index = new FixedFiles(Seq(root), table.partitionSchema, directories(files, partitions))
    val relation = LogicalRelation(HadoopFsRelation(index, table.partitionSchema, table.dataSchema, None, insert.fileFormat,
      insert.options ++ Seq("ignoreCorruptFiles" -> "false", "ignoreMissingFiles" -> "false"))(
      session.asInstanceOf[compat.SparkVersion.ClassicSession]))
    val partition = relation.output.filter(column => table.partitionColumnNames.exists(_.equalsIgnoreCase(column.name)))
    val rows = Project(Seq(Alias(json(partition), "partition")()), Compat.analyzed(session, Filter(Not(condition), relation)))
    Compat.executed(session, rows).executedPlan.executeTake(1).headOption.foreach { wrong =>
      val where = if (partition.isEmpty) "" else s" in the partition ${wrong.getUTF8String(0)}"
      throw Compat.refusal(s"Cannot overwrite ${table.identifier.quotedString}.", s"an old row$where, for which ${condition.sql} is false",
        "only old rows that meet the condition of the hint REPLACE_ONLY",
        "overwrite only partitions whose old rows all meet the condition, or change the condition; nothing has been replaced")
    }
  }

  private def json(columns: Seq[Attribute]) =
    StructsToJson(Map.empty, CreateNamedStruct(columns.flatMap(column => Seq(Literal(column.name), column))), Some(SQLConf.get.sessionLocalTimeZone))

  private def directories(files: Seq[FileStatus], partitions: Map[TablePartitionSpec, Path]): Seq[PartitionDirectory] = {
    val specs = partitions.map { case (spec, folder) => folder.toUri.getPath -> spec }
    def specOf(file: FileStatus) = Iterator.iterate(file.getPath.getParent)(_.getParent).takeWhile(_ != null).flatMap(folder => specs.get(folder.toUri.getPath)).next()
    def valuesOf(spec: TablePartitionSpec) = CatalogTablePartition(spec, table.storage).toRow(table.partitionSchema, SQLConf.get.sessionLocalTimeZone)
    if (table.partitionColumnNames.isEmpty) Seq(PartitionDirectory(InternalRow.empty, files.toArray))
    else files.groupBy(specOf).map { case (spec, of) => PartitionDirectory(valuesOf(spec), of.toArray) }.toSeq
  }
}
