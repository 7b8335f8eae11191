package org.apache.spark.sql.bucketing
package write

import java.util.{Locale, UUID}
import java.util.concurrent.ThreadLocalRandom

import scala.collection.mutable

import org.apache.hadoop.fs.{FileStatus, FileSystem, Path}

import org.apache.spark.internal.Logging
import org.apache.spark.sql.{AnalysisException, SaveMode, SparkSession}
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.hash.BucketHash
import org.apache.spark.sql.bucketing.metadata._
import org.apache.spark.sql.bucketing.read.{CurrentReads, FileStatisticsColumns, FixedFiles}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.catalog.{BucketSpec, CatalogTable, CatalogTablePartition, ExternalCatalogUtils}
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils.DEFAULT_PARTITION_NAME
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan, Project}
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, InsertIntoHadoopFsRelationCommand, LogicalRelation, PartitionDirectory, PartitioningUtils, V1WriteCommand}
import org.apache.spark.sql.hive.execution.InsertIntoHiveTable
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{DataType, MapType}

/**
 * The files that the tasks of a statement have written.
 *
 * @param isReliable whether the files can be sealed
 */
case class WrittenFiles(paths: Seq[Path], isReliable: Boolean = true)

/**
 * Runs INSERT so that its files become part of the table atomically. Spark's own writer writes them into a hidden directory of the table. Then
 * [[FileReplacement]] adds them, in place of the files of the overwritten partitions.
 *
 * INSERT INTO conflicts with no other statement. Statements that overwrite different partitions may run at the same time. If another statement changes the
 * same partitions, this one waits, and then replaces the files that the partitions have by then.
 *
 * @param mode whether the statement overwrites files, and its static partition values
 * @param isDynamic whether the statement overwrites only the partitions that it has rows for
 * @param byBucket the hash of the buckets, if the statement distributes its rows so that each bucket of a partition gets one file
 * @param buckets the bucket spec and the hash of the files, if they can be sealed
 * @param read None if the query does not read the table, or if the statement overwrites nothing; otherwise, the files that the query reads. If another
 *             statement has changed the table since, the new rows may be outdated
 * @param replaceOnly checks the rows to replace, if the statement has the hint
 */
class AtomicInsert(
    session: SparkSession, val table: CatalogTable, mode: WriteMode, isDynamic: Boolean, val isOrganized: Boolean, byBucket: Option[BucketHash],
    buckets: Option[(BucketSpec, BucketHash)], read: Option[FilesRead], replaceOnly: Option[ReplaceOnly]) extends Logging {

  import mode.{overwrites, static}

  private val fs = new Path(table.location).getFileSystem(Compat.hadoopConf(session))
  private val isPartitioned = table.partitionColumnNames.nonEmpty
  private val namesPartition = static.size == table.partitionColumnNames.size

  private lazy val sealedAs: Option[SealedSpec] = buckets.flatMap { case (spec, hash) =>
    val found = SealWriter.specOf(session, table, spec, hash)
    found.left.foreach(why => logInfo(s"The files written into ${table.identifier.quotedString} are not sealed: $why."))
    found.toOption
  }

  /**
   * Runs the statement.
   *
   * @param write writes the new files into a directory, in subdirectories by partition
   * @param record writes what the table records about the files, into the directory of the replacement. Its arguments are the paths that the files had
   *               in the first directory, and the files at their final paths
   */
  def run(write: Path => WrittenFiles)(record: (Path, Seq[(Path, FileStatus)]) => Unit = (_, _) => ()): Unit = {
    val replacement = new FileReplacement(session, table)
    // A statement that is committed but not done would conflict with this one, which cannot read the table again.
    if (read.nonEmpty) replacement.awaitOthers(!_.statement.isAppend)
    replacement.runOnce(()) { transaction =>
      // The partitions are listed after the statement has begun, so that other statements keep their records of new partitions.
      if (!keepsPartition(replacement)) {
        read.foreach(_.checkUnchanged(replacement))
        val written = write(transaction.staged)
        replace(replacement, transaction, new Write(written.paths.map(file => specOf(file.getParent, transaction.staged) -> file), written.isReliable, record))
      }
    }
  }

  /** Returns whether the statement must not change its partition, because it exists (IF NOT EXISTS). */
  private def keepsPartition(replacement: FileReplacement): Boolean = {
    val keeps = mode.onlyNew && replacement.known.contains(static)
    if (keeps) logInfo(s"The partition exists, so nothing is inserted into ${table.identifier.quotedString}.")
    keeps
  }

  /** Returns the directory for rows that have so many partition columns: the others have static values. */
  def folderIn(folder: Path, columns: Int): Path = {
    val others = table.partitionColumnNames.dropRight(columns)
    if (others.isEmpty) folder else ExternalCatalogUtils.generatePartitionPath(static, others, folder)
  }

  private class Write(val files: Seq[(TablePartitionSpec, Path)], val isReliable: Boolean, val record: (Path, Seq[(Path, FileStatus)]) => Unit) {
    val partitions: Set[TablePartitionSpec] = files.map(_._1).toSet
    def exists: Boolean = files.forall(of => fs.exists(of._2))
  }

  /**
   * Returns the files in a directory. Throws an error if there are fewer files than the tasks have written: the statement would replace old files without new
   * ones. More files are of failed attempts of tasks, which some committers leave, and would add rows twice.
   *
   * @param isReliable whether readers return the rows as they were written
   * @param otherExchange the operator that distributed the rows in another way than planned
   */
  def written(folder: Path, number: Long, isReliable: Boolean, otherExchange: Option[String]): WrittenFiles = {
    val files = AtomicInsert.filesBelow(folder, fs)
    if (files.size != number) throw Compat.refusal(s"Cannot write into ${table.identifier.quotedString}.", s"${files.size} new files in $folder",
      s"$number new files, as reported by the tasks", "run it again; nothing has been changed")
    val scattered = byBucket.flatMap(scatteredFiles(files, _))
    scattered.filter(_ => overwrites).foreach { case (bucket, of) => throw refused(bucket, of, otherExchange) }
    scattered.foreach(_ => SealedWrites.warnScattered(Some(table), otherExchange.getOrElse("an unknown operator")))
    WrittenFiles(files, isReliable && scattered.isEmpty)
  }

  /** Returns a bucket that has several files in a partition, and its files. */
  private def scatteredFiles(written: Seq[Path], hash: BucketHash): Option[(Int, Seq[Path])] =
    written.groupBy(file => (file.getParent, BucketFiles.bucketOf(file.getName, hash))).collectFirst { case ((_, Some(bucket)), of) if of.size > 1 => bucket -> of }

  // Spark writes some different partition values into the same directory.
  private def refused(bucket: Int, files: Seq[Path], otherExchange: Option[String]): AnalysisException = Compat.refusal(
    s"Cannot replace files of ${table.identifier.quotedString}.",
    s"${files.size} new files of bucket $bucket in ${files.head.getParent.getName}${otherExchange.fold("")(name => s", whose rows were distributed by $name")}",
    "one file for each bucket of a partition", if (otherExchange.isDefined) "disable this operator for the statement; nothing has been replaced"
    else "use partition values with different directory names, unlike NULL and __HIVE_DEFAULT_PARTITION__, or two timestamps " +
      "with the same local time; nothing has been replaced")

  private def specOf(folder: Path, of: Path): TablePartitionSpec = {
    val path = folder.toUri.getPath.stripPrefix(of.toUri.getPath).stripPrefix("/")
    if (path.isEmpty) Map.empty else PartitioningUtils.parsePathFragment(path)
  }

  /** Commits the files. If another statement commits first, tries again with new file names, because readers ignore the names in an undone record. */
  private def replace(replacement: FileReplacement, transaction: Transaction, write: Write, attempts: Int = AtomicInsert.Attempts): Unit = {
    replacement.awaitOthers(overwrites && !_.statement.isAppend)
    try once(replacement, transaction, write) catch {
      // The new files are gone if another statement has undone this replacement after they were moved. An error while undoing it leaves it to other statements,
      // which wait as long as this one is running.
      case changed: ConcurrentChange if read.nonEmpty || attempts <= 1 || transaction.isUndone.contains(false) || !write.exists => throw Compat.refusal(changed.getMessage)
      case changed: ConcurrentChange =>
        logInfo(s"The replacement of files of ${table.identifier.unquotedString} starts again.", changed)
        Thread.sleep(ThreadLocalRandom.current.nextLong(AtomicInsert.PauseMillis))
        val again = new FileReplacement(session, table)
        again.runOnce(())(transaction => if (!keepsPartition(again)) replace(again, transaction, write, attempts - 1))
    }
  }

  private def once(replacement: FileReplacement, transaction: Transaction, write: Write): Unit = {
    import write.{files, partitions}
    def isOverwritten(partition: TablePartitionSpec) = partitions(partition) || !isDynamic && static.toSet.subsetOf(partition.toSet)
    val going = if (overwrites) replacement.filesOf(isOverwritten) else Nil
    read.foreach(_.check(going, replacement))
    replaceOnly.foreach(only => replacement.before(transaction)(only.check(going, replacement.known)))
    val named = AtomicInsert.renamed(UUID.randomUUID.toString) _
    val coming = files.map { case (partition, file) => replacement.moveTo(file, partition, named(file.getName)) }
    val emptied = if (overwrites && !isDynamic && isPartitioned) replacement.known.keySet.filter(of => isOverwritten(of) && !partitions(of)) else Set.empty[TablePartitionSpec]
    val replaces = going.nonEmpty || coming.nonEmpty || emptied.nonEmpty
    val changes = FileChanges(scope(partitions, write.isReliable), going, coming, emptied, overwrites && replaceOnly.isEmpty)
    if (!overwrites && sealedAs.nonEmpty) checkComplete(partitions)
    if (replaces) replacement.replace(transaction, changes)(moved => write.record(transaction.folder, files.map(_._2).zip(moved))) { moved =>
      if (sealedAs.isEmpty) SealWriter.unsealRemoved(session, table, going.map(_.getPath).groupBy(_.getParent)) else seal(transaction, write, moved, emptied)
    }
    // Spark creates or keeps this partition even if it has no rows.
    def createPartition(): Unit = if (files.isEmpty && namesPartition) {
      if (static.nonEmpty) replacement.createEmpty(static)
      replacement.afterCommit("The partition without rows may not be sealed.")(seal(transaction, write, Nil, Set(static)))
    }
    if (replaces) replacement.afterCommit("The partition without rows may not have been created.")(createPartition()) else createPartition()
  }

  private def scope(partitions: Set[TablePartitionSpec], isReliable: Boolean): StatementScope = {
    val spec = sealedAs.filter(_ => isReliable).map(SealWriter.textOf)
    if (!overwrites) StatementScope.append(spec) else StatementScope("INSERT OVERWRITE",
      if (read.nonEmpty) Seq(StatementScope.Whole) else StatementScope.namesOf(table, if (isDynamic) partitions else partitions + static), spec)
  }

  /** Throws an error if sealed files of a partition are missing. Otherwise, the new seal would hide the loss. */
  private def checkComplete(partitions: Set[TablePartitionSpec]): Unit = {
    // The table is as the metastore had it when the statement was planned. If files seem to be missing, the seal is read again.
    val stored = if (isPartitioned) PartitionStore.of(session).find(table, partitions.toSeq) else Nil
    MissingFiles.check(table.identifier, PartitionFiles.list(session, table, stored), "append to")
  }

  private def seal(transaction: Transaction, write: Write, moved: Seq[FileStatus], emptied: Iterable[TablePartitionSpec]): Unit = sealedAs.foreach { spec =>
    val kept = if (overwrites) Some(Nil) else None
    val own = write.files.map(_._1).zip(moved).groupBy(_._1).map { case (partition, of) => partition -> CommittedFiles(of.map(_._2), kept, write.isReliable) }
    val all = own ++ emptied.map(_ -> CommittedFiles(Nil, kept))
    SealWriter.seal(session, table, spec, transaction.folder, if (all.isEmpty && namesPartition) Map(static -> CommittedFiles(Nil, kept)) else all)
  }
}

/**
 * The mode in which a statement writes into a table.
 *
 * @param overwrites whether the statement replaces existing files
 * @param onlyNew whether the statement leaves existing partitions unchanged (IF NOT EXISTS)
 * @param static the static partition values in the statement
 */
case class WriteMode(overwrites: Boolean, onlyNew: Boolean, static: TablePartitionSpec)

/**
 * The files that the query of an INSERT OVERWRITE reads of the statement's own table.
 *
 * @param files the path, the length and the time of each file
 */
case class FilesRead(files: Set[(Path, Long, Long)]) {

  /** Throws an error unless the table still has exactly these files. */
  def checkUnchanged(replacement: FileReplacement): Unit = {
    val now = FilesRead.now(replacement).files
    val author = replacement.authorOf(((now diff files) ++ (files diff now)).map(_._1))
    if (now != files) throw Compat.refusal(replacement.changed(s"a table that has been changed since the query was planned$author").getMessage)
  }

  /** Throws an error unless the query may have read all files that the statement replaces. */
  def check(going: Seq[FileStatus], replacement: FileReplacement): Unit =
    going.find(file => !files(FilesRead.identity(file))).foreach(file =>
      throw replacement.changed(s"${file.getPath}, which the query has not read${replacement.authorOf(Seq(file.getPath))}"))
}

object FilesRead {
  private def identity(file: FileStatus) = (file.getPath, file.getLen, file.getModificationTime)
  def now(replacement: FileReplacement): FilesRead = FilesRead(replacement.filesOf(_ => true).map(identity).toSet)
}

object AtomicInsert {

  private val Modes = Set(SaveMode.Append, SaveMode.Overwrite)
  private val Attempts = 100
  private val PauseMillis = 200L

  /**
   * Returns the insert that runs a statement, or None if Spark must run the statement itself.
   *
   * @param isSealable whether the order of the rows and the session's settings allow to seal the files
   */
  def of(session: SparkSession, write: V1WriteCommand, table: CatalogTable, isSealable: Boolean, hints: OverwriteHints): Option[AtomicInsert] = {
    val hash = SealedWrites.hashOf(write.options)
    val byBucket = if (write.query.isInstanceOf[BucketedRows]) Some(hash) else None
    val buckets = write.bucketSpec.filter(_ => isSealable).map(_ -> hash)
    def static(values: TablePartitionSpec) = values.map { case (column, value) => column -> Option(value).filter(_.nonEmpty).getOrElse(DEFAULT_PARTITION_NAME) }
    write match {
      case _ if !BucketingConf.writesAtomically || !CurrentReads.isChangeable(table) => None
      case insert: InsertIntoHadoopFsRelationCommand if Modes(insert.mode) =>
        val mode = WriteMode(insert.mode == SaveMode.Overwrite, insert.ifPartitionNotExists, static(insert.staticPartitions))
        val isOrganized = isOrganizable(insert, table) && !BucketedWrites.isDistributed(insert.query)
        // The query is planned after this, so it reads the files of this replacement or a later one.
        val relations = if (mode.overwrites) relationsOf(insert.query, table) else Nil
        val read = if (relations.isEmpty) None else Some(FilesRead.now(new FileReplacement(session, table)))
        // Otherwise, the query could read files of an earlier listing.
        relations.foreach(_.location.refresh())
        Some(new AtomicInsert(session, table, mode, insert.dynamicPartitionOverwrite && !hints.isStatic, isOrganized, byBucket, buckets, read,
          hints.replaceOnly.map(new ReplaceOnly(session, table, insert, _))))
      case insert: InsertIntoHiveTable if hints.isEmpty && SealedFormats.has(table) =>
        val values = static(insert.partition.collect { case (column, Some(value)) => column -> value })
        val isDynamic = values.size < table.partitionColumnNames.size
        Some(new AtomicInsert(session, table, WriteMode(insert.overwrite, insert.ifPartitionNotExists, values), isDynamic, isOrganized = false, byBucket, buckets, None, None))
      case _ => None
    }
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
  def relationsOf(query: LogicalPlan, table: CatalogTable): Seq[HadoopFsRelation] = query.collectWithSubqueries {
    case relation: LogicalRelation => relation.relation -> relation.catalogTable
  }.collect {
    case (files: HadoopFsRelation, of) if of.exists(_.identifier == table.identifier) || files.location.rootPaths.exists(TableFiles(new Path(table.location)).contains) => files
  }

  // The names of Spark's files contain the id of their job.
  private val JobId = "(?<=part-[0-9]{1,9}-)[0-9a-f-]{36}"

  // S3A's staging committers add an id after the bucket, where readers do not expect it.
  private val CommitterId = "(?<=_[0-9]{5,9})[^0-9.][^.]*(?=\\.|$)"

  /** Returns the name of a file as if another job had written it. */
  private def renamed(job: String)(name: String): String =
    if (name.matches(s".*$JobId.*")) name.replaceFirst(JobId, job).replaceFirst(CommitterId, "") else s"${name}_$job"

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
