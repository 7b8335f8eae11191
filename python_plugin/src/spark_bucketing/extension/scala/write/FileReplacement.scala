package org.apache.spark.sql.bucketing
package write

import scala.annotation.tailrec
import scala.util.Try
import scala.util.control.NonFatal

import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.internal.Logging
import org.apache.spark.sql.{AnalysisException, SparkSession}
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.metadata.{BucketFiles, Replacement, TableFiles}
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTablePartition, ExternalCatalogUtils}
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec

/** Replaces files of a table. See docs/explanation/recovery.md. */
class FileReplacement(session: SparkSession, table: CatalogTable) extends Logging {

  private val PauseMillis = 50L
  private val conf = Compat.hadoopConf(session)
  private val location = new Path(table.location)
  private val fs = location.getFileSystem(conf)
  private val catalog = Compat.catalog(session)

  private val files = TableFiles(fs.makeQualified(location))

  /** Runs a replacement with a directory for its new files and its record. A later replacement deletes the directory after a crash. */
  def inNewFolder[A](run: Path => A): A = {
    val folder = Replacement.newFolder(location, fs)
    try run(folder) catch {
      case error: Throwable =>
        Replacement.discard(folder, fs)
        throw error
    }
  }

  /** Returns the last committed replacement. */
  def last: Option[Path] = Replacement.records(location, conf).filter(_.isCommitted).lastOption.map(_.folder)

  /** Returns the id of the rows that the last committed replacement has merged, if it has one. */
  def merged(last: Option[Path]): Option[String] = last.flatMap(Replacement.merged(_, fs))

  def writeMerged(folder: Path, id: String): Unit = Replacement.writeMerged(folder, fs, id)

  /** Runs a step of a statement before its replacement. Another replacement deletes files, so the step may fail because of it. */
  def before[A](seen: Option[Path])(step: => A): A = try step catch {
    case NonFatal(error) if last.map(_.getName) != seen.map(_.getName) => throw changed("another statement has replaced files of the table", error)
  }

  /**
   * Replaces files of the table.
   *
   * @param folder the directory of the replacement
   * @param seen the last committed replacement when the statement read the table
   * @param going the old files as the statement read them
   * @param coming the new files
   * @param overwrites whether to delete files that new partitions' directories already contain, such as files of a dropped partition of an external
   *                   table. If false, such files are an error
   * @param record writes the statistics of the new files, which exist at their final paths
   * @return the new files, in the order of their moves
   * @throws ConcurrentChange if another statement has replaced files since `seen`, or has changed an old file
   */
  def replace(folder: Path, seen: Option[Path], going: Seq[FileStatus], coming: Seq[Move], overwrites: Boolean = false)(
      record: Seq[FileStatus] => Unit): Seq[FileStatus] = {
    checkUnchanged(going)
    val created = coming.filter(_.isNewPartition).flatMap(_.partition).distinct
    checkSeparate((going.map(_.getPath.getParent) ++ coming.map(_.to.getParent)).toSet)
    val started = Replacement(folder, coming.map(move => files.nameOf(move.to)).toSet, going.map(file => files.nameOf(file.getPath)).toSet, created,
      isCommitted = false, done = None)
    Replacement.begin(fs, started)
    val written = try {
      checkAlone(started, seen)
      val strays = Compat.inParallel(created.map(defaultLocation))(dataFiles)
      if (!overwrites) checkEmpty(created.zip(strays))
      Compat.inParallel(strays.flatten)(file => fs.delete(file.getPath, false))
      moveIn(going, coming)
      val written = Compat.inParallel(coming)(move => fs.getFileStatus(move.to))
      record(written)
      checkUnchanged(going)
      if (!Replacement.commit(started, fs)) throw changed("another statement has undone this replacement")
      written
    } catch {
      case NonFatal(error) =>
        val isUndone = !Replacement.isStarted(started, fs)
        try undo(started) catch { case NonFatal(other) => error.addSuppressed(other) }
        throw if (isUndone) changed("another statement has undone this replacement", error) else error
    }
    // The statement has taken effect. If it failed now, a client would repeat it.
    try complete(started.copy(isCommitted = true)) catch {
      case refused: AnalysisException if Compat.isRefusal(refused) => throw refused
      case NonFatal(error) => logWarning(s"Old files of ${table.identifier.quotedString} are not deleted yet. " +
        "Readers with the extension ignore them, and the next change of the table or ALTER TABLE ... RECOVER FILES deletes them.", error)
    }
    written
  }

  /**
   * Checks that no other statement replaces files at the same time, or has replaced files since this statement read the
   * table. Each statement writes its record before it reads the others, so at least one of two statements finds the other.
   */
  private def checkAlone(started: Replacement, seen: Option[Path]): Unit = {
    val (committed, others) = Replacement.records(location, conf).filter(_.folder.getName != started.folder.getName).partition(_.isCommitted)
    if (committed.lastOption.map(_.folder.getName) != seen.map(_.getName) || others.exists(_.done.isEmpty))
      throw changed("another statement replaces files of the table at the same time")
  }

  private def checkEmpty(created: Seq[(TablePartitionSpec, Seq[FileStatus])]): Unit = created.find(_._2.exists(BucketFiles.isData)).foreach { case (spec, _) =>
    throw refused(s"files in ${defaultLocation(spec)}, which is not a partition of the table", "an empty directory for the new partition",
      "move the files away, or restore the partition with ALTER TABLE ... ADD PARTITION, and run it again; nothing has been replaced")
  }

  /**
   * Moves the new files into the table. Readers with the extension still ignore them. Partitions without old files are created after their files exist,
   * because another statement may drop an empty partition.
   */
  private def moveIn(going: Seq[FileStatus], coming: Seq[Move]): Unit = {
    Compat.inParallel(coming)(move => rename(move.from, move.to))
    val full = going.map(_.getPath.getParent).toSet
    create(coming.filterNot(move => full(move.to.getParent)).flatMap(_.partition).distinct.map(spec => spec -> folderOf(spec)))
  }

  private def folderOf(spec: TablePartitionSpec): Path = known.getOrElse(spec, defaultLocation(spec))

  private def create(created: Seq[(TablePartitionSpec, Path)]): Unit = if (created.nonEmpty) CreatedPartitions.create(session, table, created.map(_._1)) {
    catalog.createPartitions(table.identifier, created.map {
      case (spec, folder) => CatalogTablePartition(spec, table.storage.copy(locationUri = Some(folder.toUri)))
    }, ignoreIfExists = true)
  }

  /** Creates a partition without files, if it does not exist. If it existed before the replacement, it keeps its directory. */
  def createEmpty(spec: TablePartitionSpec): Unit = {
    fs.mkdirs(folderOf(spec))
    create(Seq(spec -> folderOf(spec)))
  }

  /** Drops the selected partitions that have no files. */
  def dropWithoutFiles(selected: TablePartitionSpec => Boolean): Unit = dropEmpty(known.collect { case (spec, folder) if selected(spec) => folder }.toSeq.distinct)

  /** Waits until other statements have finished their replacements. Completes or undoes a replacement that takes too long, because its statement has crashed. */
  def awaitOthers(): Unit = {
    val start = System.currentTimeMillis
    // The clock of the storage may differ.
    def hasCrashed(of: Replacement) = System.currentTimeMillis - BucketingConf.recoverAfterMillis > start.min(Replacement.startOf(of, fs))
    @tailrec
    def await(isFirst: Boolean): Unit = {
      val others = Replacement.records(location, conf).filter(_.done.isEmpty)
      if (others.exists(hasCrashed)) recover()
      else if (others.nonEmpty) {
        if (isFirst) logInfo(s"Waiting for another statement that replaces files of ${table.identifier.quotedString}.")
        Thread.sleep(PauseMillis)
        await(isFirst = false)
      }
    }
    await(isFirst = true)
  }

  /** Completes or undoes unfinished replacements. Returns `nothing`, `undone` or `completed`. */
  def recover(): String = Replacement.records(location, conf).filter(_.done.isEmpty).map { last =>
    if (last.isCommitted) complete(last) else undo(last)
    if (last.isCommitted) "completed" else "undone"
  }.lastOption.getOrElse("nothing")

  /** Deletes the new files of a replacement, so that the table keeps the old files. Does nothing if it is already committed. */
  private def undo(started: Replacement): Unit = if (Replacement.undo(started, fs)) {
    Compat.inParallel(pathsOf(started.added))(fs.delete(_, false))
    dropEmpty(started.created.map(defaultLocation))
    started.created.map(defaultLocation).foreach(deletesEmpty)
    Replacement.finish(started, fs)
    Compat.refresh(session, table.identifier)
  }

  /**
   * Completes a committed replacement. Deletes the old files and drops partitions that are now empty. Also deletes files that
   * other runs moved into the table after their replacements were undone.
   */
  private def complete(committed: Replacement): Unit = {
    val removed = pathsOf(committed.removed)
    committed.checkRestored(Compat.inParallel(removed.map(_.getParent).distinct)(children).flatten.map(file => files.nameOf(file.getPath)).toSet)
    Compat.inParallel(removed)(fs.delete(_, false))
    dropEmpty(Subdirectories.deleteEmpty(fs, removed.map(_.getParent).distinct, isPartition))
    Replacement.finish(committed, fs)
    val before = Replacement.records(location, conf).filter(_.folder.getName < committed.folder.getName)
    // Another run may commit its replacement at this moment.
    val undone = before.filterNot(_.isCommitted).filter(Replacement.undo(_, fs))
    Compat.inParallel(pathsOf(undone.flatMap(_.added).toSet))(fs.delete(_, false))
    Replacement.folders(location, fs).filter(_.getName < committed.folder.getName).foreach(fs.delete(_, true))
    Compat.updateStatistics(session, table)
    Compat.refresh(session, table.identifier)
    Compat.recache(session, location, fs)
  }

  /**
   * Returns the paths of files that belong to this table. A file outside the table's location must be in one of its
   * partitions, because the record may come from a copy of another table.
   */
  private def pathsOf(names: Set[String]): Seq[Path] = {
    val (below, elsewhere) = names.toSeq.partition(files.isBelow)
    lazy val folders = partitions.map(_.location.getPath).toSet
    (below ++ elsewhere.filter(name => folders(new Path(name).getParent.toString))).map(files.pathOf)
  }

  /** Returns the move of a new file into a partition, or into a table without partitions, under a name that no file has had yet. */
  def moveTo(file: Path, spec: TablePartitionSpec, name: String): Move =
    if (spec.isEmpty) Move(file, fs.makeQualified(new Path(location, name)), None, isNewPartition = false)
    else {
      val folder = known.get(spec)
      checkMovable(folder.toSeq)
      Move(file, fs.makeQualified(new Path(folder.getOrElse(defaultLocation(spec)), name)), Some(spec), folder.isEmpty)
    }

  /** Returns the files of the selected partitions, or of a table without partitions. */
  def filesOf(selected: TablePartitionSpec => Boolean): Seq[FileStatus] = if (table.partitionColumnNames.isEmpty) dataFiles(location) else {
    val folders = known.collect { case (spec, folder) if selected(spec) => folder }.toSeq.distinct
    checkMovable(folders)
    Compat.inParallel(folders)(dataFiles).flatten
  }

  /** Checks that files can be renamed into these directories. */
  private def checkMovable(folders: Seq[Path]): Unit = {
    folders.find(folder => Try(fs.makeQualified(folder)).isFailure).foreach { folder =>
      throw refused(s"a partition in $folder", s"all partitions on the file system of the table, ${fs.getUri}",
        s"move the partition, or set ${BucketingConf.ATOMIC_OVERWRITE.key}=false for an INSERT; nothing has been replaced")
    }
  }

  /** Checks that no two partitions have files in these directories, or in directories below them. Rows of such files belong to both partitions. */
  private def checkSeparate(folders: Set[Path]): Unit = if (table.partitionColumnNames.nonEmpty) {
    def ancestors(of: Path): Iterator[Path] = Iterator.iterate(of)(_.getParent).takeWhile(_ != null)
    val found = known.values.toSeq.flatMap(folder => Try(fs.makeQualified(folder)).toOption).flatMap(ancestors(_).filter(folders)).groupBy(identity)
    found.collectFirst { case (folder, several) if several.size > 1 => folder -> several.size }.foreach { case (folder, number) =>
      throw refused(s"$number partitions in the directory $folder", "a separate directory for each partition",
        "move the rows of each partition into a separate directory; nothing has been replaced")
    }
  }

  private def dataFiles(folder: Path): Seq[FileStatus] =
    children(folder).flatMap(file => if (file.isDirectory) dataFiles(file.getPath) else Seq(file))

  private def checkUnchanged(files: Seq[FileStatus]): Unit = {
    val now = Compat.inParallel(files.map(_.getPath.getParent).distinct)(children).flatten.map(file => file.getPath.toUri.getPath -> file).toMap
    files.find { file =>
      !now.get(file.getPath.toUri.getPath).exists(found => found.getLen == file.getLen && found.getModificationTime == file.getModificationTime)
    }.foreach(file => throw changed(s"${file.getPath} was changed or deleted since it was read"))
  }

  def changed(found: String, cause: Throwable = null) = new ConcurrentChange(
    message(found, "no other write to the same files at the same time", "run it again; nothing has been replaced"), cause)

  private def refused(found: String, expected: String, instead: String) = Compat.refusal(message(found, expected, instead))

  private def message(found: String, expected: String, instead: String) =
    Compat.message(s"Cannot replace files of ${table.identifier.quotedString}.", found, expected, instead)

  private def rename(from: Path, to: Path): Unit = {
    fs.mkdirs(to.getParent)
    // A rename to an existing directory would move the source into that directory.
    if (fs.exists(to) || !fs.rename(from, to)) throw new java.io.IOException(s"$from cannot be renamed to $to")
  }

  /** Returns all partitions. Like Spark's INSERT, it lists them with one call. */
  private def partitions: Seq[CatalogTablePartition] =
    if (table.partitionColumnNames.isEmpty) Nil else catalog.listPartitions(table.identifier)

  /** The directories of the partitions before the replacement. */
  lazy val known: Map[TablePartitionSpec, Path] = partitions.map(partition => partition.spec -> new Path(partition.location)).toMap

  /** Returns whether a directory is that of a partition or of a table without partitions. A custom directory may have any name. */
  private def isPartition(folder: Path): Boolean = table.partitionColumnNames.lastOption.fold(files.nameOf(folder) == folder.toUri.getPath) { column =>
    folder.getName.toLowerCase(java.util.Locale.ROOT).startsWith(s"${column.toLowerCase(java.util.Locale.ROOT)}=") ||
      known.values.exists(_.toUri.getPath == folder.toUri.getPath)
  }

  private def defaultLocation(spec: TablePartitionSpec): Path =
    ExternalCatalogUtils.generatePartitionPath(spec, table.partitionColumnNames, location)

  /**
   * Drops those partitions whose directories are in this set and have no files. Another statement may write files at the same
   * time. Therefore, a directory is deleted only if it is empty, and a partition with files is created again.
   */
  private def dropEmpty(folders: Seq[Path]): Unit = {
    val empty = folders.zip(Compat.inParallel(folders)(children)).collect { case (folder, Seq()) => folder.toUri.getPath }.toSet
    val dropped = if (empty.isEmpty) Nil else partitions.filter { partition =>
      val folder = new Path(partition.location)
      empty(folder.toUri.getPath) && children(folder).isEmpty
    }
    if (dropped.nonEmpty) {
      catalog.dropPartitions(table.identifier, dropped.map(_.spec), ignoreIfNotExists = true, purge = false, retainData = true)
      val used = Compat.inParallel(dropped.map(partition => new Path(partition.location)))(folder => !deletesEmpty(folder))
      val kept = dropped.zip(used).collect { case (partition, true) => partition }
      if (kept.nonEmpty) catalog.createPartitions(table.identifier, kept, ignoreIfExists = true)
    }
  }

  /** Deletes a directory, unless it is not empty. Returns whether the directory has no rows. */
  private def deletesEmpty(folder: Path): Boolean =
    try fs.delete(folder, false) || !fs.exists(folder) catch { case _: java.io.IOException => children(folder).isEmpty }

  private def children(folder: Path): Seq[FileStatus] =
    BucketFiles.children(folder, fs).filterNot(file => BucketFiles.isHidden(file.getPath.getName))
}
