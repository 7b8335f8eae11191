package org.apache.spark.sql.bucketing
package write

import java.util.concurrent.TimeUnit

import scala.annotation.tailrec
import scala.collection.mutable
import scala.util.Try
import scala.util.control.NonFatal

import org.apache.hadoop.fs.{FileStatus, FileSystem, Path}

import org.apache.spark.SparkException
import org.apache.spark.internal.Logging
import org.apache.spark.sql.{AnalysisException, SparkSession}
import org.apache.spark.sql.bucketing.compat.{Compat, SparkVersion}
import org.apache.spark.sql.bucketing.metadata.{AppVersion, BucketFiles, ExclusiveFile, Replacement, RetainedFiles, StatementScope, TableFiles}
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTablePartition, ExternalCatalogUtils}
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec
import org.apache.spark.sql.internal.SQLConf

/**
 * Adds files to a table, replaces and removes them, all atomically. All statements of the extension that write into a table use it. See
 * docs/explanation/replacing-rows.md.
 */
class FileReplacement(session: SparkSession, table: CatalogTable) extends Logging {

  private val PauseMillis = 50L
  private val MaxPauseMillis = 1000L
  // Nobody waits for the directory of a statement that has not written its record.
  private val MinSilenceMillis = 60000L
  private val conf = Compat.hadoopConf(session)
  private val location = new Path(table.location)
  private val fs = location.getFileSystem(conf)
  private val catalog = Compat.catalog(session)

  private val files = TableFiles(fs.makeQualified(location))

  /** Runs a statement that writes rows, unless the application has already committed this version. Then returns another result. */
  def runOnce[A](repeated: => A)(statement: Transaction => A): A = run(version) { transaction =>
    transaction.version.filter(version => committed.exists(_.has(version))).fold(statement(transaction)) { version =>
      logInfo(s"${version.app} has already written version ${version.number} into ${table.identifier.quotedString}, so nothing is written.")
      repeated
    }
  }

  /** Returns the version that the session's application writes. */
  private def version: Option[AppVersion] = (BucketingConf.txnAppId, BucketingConf.txnVersion) match {
    case (Some(app), Some(number)) => Some(AppVersion(app, number))
    case (None, None) => None
    case (app, _) =>
      val (found, missing) = if (app.isEmpty) (BucketingConf.APP_VERSION, BucketingConf.APP) else (BucketingConf.APP, BucketingConf.APP_VERSION)
      throw refused(s"${found.key} alone", "both settings or neither", s"set ${missing.key}, or unset the other; nothing has been changed")
  }

  private def committed: Seq[Replacement] = Replacement.records(location, conf).filter(_.isCommitted)

  /** Runs a statement with a directory for its new files and its record. Later statements delete the directory. */
  def run[A](version: Option[AppVersion] = None)(statement: Transaction => A): A = {
    val folder = try Replacement.newFolder(location, fs) catch {
      case error: java.io.IOException => throw unwritable(new Path(location, Replacement.Folder), error)
    }
    val heartbeat = new Heartbeat(folder, fs)
    var begun: Option[Transaction] = None
    try {
      // Until a replacement is done, its old files may still exist. If this statement replaced its new files, nobody could tell which files are current.
      val seen = committed.filter(of => of.done.nonEmpty || of.statement.isAppend)
      val transaction = new Transaction(folder, seen.map(_.name).toSet, heartbeat, version)
      begun = Some(transaction)
      statement(transaction)
    } catch {
      // After its commit, a statement throws no error.
      case error @ (_: java.io.IOException | _: SparkException) =>
        val effect = if (begun.exists(_.isUndone.contains(false))) "the next statement that changes the table first undoes what this one has changed" else "nothing has been changed"
        throw SealedWrites.ofStorage(error, Some(table), Some(effect)).getOrElse(error)
    } finally {
      heartbeat.close()
      // The statement may have taken effect.
      try {
        fs.delete(new Path(folder, Replacement.Staged), true)
        if (begun.exists(_.isUndone.nonEmpty)) Replacement.end(folder, fs)
        Replacement.discard(folder, fs)
      } catch { case NonFatal(error) => logWarning(s"Cannot delete $folder. A later statement deletes it.", error) }
    }
  }

  /** Returns the id of the rows that the last committed replacement has merged, if it has one. */
  def merged: Option[String] = committed.lastOption.flatMap(last => Replacement.merged(last.folder, fs))

  def writeMerged(folder: Path, id: String): Unit = Replacement.writeMerged(folder, fs, id)

  /** Runs a step of a statement before its replacement. Another replacement deletes files, so the step may fail because of it. */
  def before[A](transaction: Transaction)(step: => A): A = try step catch {
    case NonFatal(error) =>
      val other = others(transaction).find(other => other.isCommitted && !other.statement.isAppend).getOrElse(throw error)
      throw changed(s"another statement, which has replaced files of the table: ${other.words}", error)
  }

  /** Names the statement that has last added or removed one of these files, if its record is known. */
  def authorOf(paths: Iterable[Path]): String = {
    val names = paths.map(files.nameOf).toSet
    committed.reverseIterator.find(of => names.exists(name => of.added(name) || of.removed(name))).fold("")(of => s", by ${of.words}")
  }

  /** Returns the replacements of other statements that may have happened since a statement read the table. */
  private def others(transaction: Transaction): Seq[Replacement] =
    Replacement.records(location, conf).filter(other => other.name != transaction.folder.getName && !other.isUndone && !(other.isCommitted && transaction.seen(other.name)))

  /**
   * Changes the files of the table.
   *
   * @param record writes the statistics of the new files, which exist at their final paths
   * @param seal records the layout of the new files in the metastore, after the commit
   * @return the new files, in the order of their moves
   * @throws ConcurrentChange if another statement has changed partitions of this one since the transaction began, or has changed an old file
   */
  def replace(transaction: Transaction, changes: FileChanges)(record: Seq[FileStatus] => Unit)(seal: Seq[FileStatus] => Unit): Seq[FileStatus] = {
    import changes._
    checkUnchanged(going)
    val created = coming.filter(_.isNewPartition).flatMap(_.partition).distinct
    checkSeparate((going.map(_.getPath.getParent) ++ coming.map(_.to.getParent)).toSet)
    val started = Replacement(transaction.folder, coming.map(move => files.nameOf(move.to)).toSet, going.map(file => files.nameOf(file.getPath)).toSet, created,
      (dropped ++ emptied(going, coming)).toSeq, statement, ExclusiveFile.isSupported(transaction.folder, fs), versions(transaction))
    begin(started, transaction)
    val written = try {
      checkAlone(started, transaction)
      // Others delete the records that this statement has to compare itself with only after they have shown that they take it for crashed.
      if (!Replacement.isKept(transaction.folder, fs)) throw undoneByAnother()
      awaitDrops(started, coming.flatMap(_.partition).toSet)
      deleteStrays(started, transaction, stillNew(created, overwrites), overwrites)
      moveIn(going, coming)(if (!transaction.heartbeat.isRecent && !Replacement.isUndecided(started, fs)) throw undoneByAnother())
      val written = listed(coming.map(_.to))
      record(written)
      checkUnchanged(going)
      written
    } catch { case NonFatal(error) => throw withdrawn(started, transaction, error) }
    if (!commit(started)) throw withdrawn(started, transaction, undoneByAnother())
    val isSealed = afterCommit(s"Its files may not be sealed. Instead: run ALTER TABLE ${table.identifier.quotedString} SEAL BUCKETS.")(seal(written))
    afterCommit("Old files are not deleted yet. Readers with the extension ignore them, and the next change of the table or ALTER TABLE ... RECOVER FILES " +
      "deletes them.")(complete(started.copy(decision = Some(true)), isSealed))
    afterCommit("The session may read cached rows until REFRESH TABLE.")(refresh())
    // Spark then also updates partitions, and removes their bucket descriptors.
    if (SQLConf.get.autoSizeUpdateEnabled) afterCommit("Hive and Trino may not find the buckets.")(seal(written))
    written
  }

  /** Runs a step after a commit. The statement has taken effect. If it failed now, a client would repeat it. Returns whether the step has succeeded. */
  def afterCommit(consequence: String)(step: => Unit): Boolean = try {
    step
    true
  } catch { case error @ (NonFatal(_) | _: LinkageError) =>
    logWarning(s"The new rows are in ${table.identifier.quotedString}. $consequence", error)
    false
  }

  private def begin(started: Replacement, transaction: Transaction): Unit = try before(transaction)(Replacement.begin(fs, started)) catch {
    case error: java.io.IOException => throw withdrawn(started, transaction, unwritable(started.folder, error))
    case NonFatal(error) => throw withdrawn(started, transaction, error)
  }

  private def unwritable(folder: Path, error: java.io.IOException): Throwable =
    refused(String.valueOf(error), s"a new file in $folder", "check free space and write permission, and run it again; nothing has been replaced", error)

  /** Commits a replacement. Returns false if another statement has undone it. */
  private def commit(started: Replacement): Boolean = {
    def decide(commits: Boolean) = Replacement.decide(started, commits, isAlone = !started.isExclusive, fs)
    val decision = try decide(commits = true) catch {
      // The storage may still carry out the failed request, unless the replacement is undone.
      case NonFatal(error) => Try(decide(commits = false)).toOption.filter(_.nonEmpty).getOrElse(throw refused(
        s"an error during the commit; the outcome is unknown: $error", "a storage that answers",
        s"when the storage answers, run ALTER TABLE ${table.identifier.quotedString} RECOVER FILES. If the result is `undone`, run this statement again. If it " +
          "is `completed`, do not. If it is `nothing`, compare the rows of the table", error))
    }
    decision.contains(true)
  }

  private def undoneByAnother(cause: Throwable = null) = changed("another statement has undone this replacement", cause)

  /** Undoes the statement's own replacement after an error. Returns the error to throw. */
  private def withdrawn(started: Replacement, transaction: Transaction, error: Throwable): Throwable = {
    transaction.isUndone = Some(false)
    val isOwn = try {
      val isUndecided = Replacement.isUndecided(started, fs)
      undo(started, isOwn = true, isAlone = !started.isExclusive)
      transaction.isUndone = Some(true)
      isUndecided
    } catch { case NonFatal(other) =>
      error.addSuppressed(other)
      true
    }
    error match {
      case changed: ConcurrentChange => changed
      case refused: AnalysisException if Compat.isRefusal(refused) => refused
      case _ => if (isOwn) error else undoneByAnother(error)
    }
  }

  /**
   * Checks that no other statement changes partitions of this one at the same time, or has changed them since this statement read the
   * table. Each statement writes its record before it reads the others, so at least one of two statements finds the other.
   */
  private def checkAlone(started: Replacement, transaction: Transaction): Unit =
    others(transaction).find(other => other.statement.conflictsWith(started.statement) || transaction.version.exists(other.has)).foreach { other =>
      val what = if (other.isCommitted) "has changed the same partitions since this one read them" else "changes the same partitions at the same time"
      throw changed(s"another statement, which $what: ${other.words}")
    }

  /** Returns the partitions that lose files and get none. */
  private def emptied(going: Seq[FileStatus], coming: Seq[FileMove]): Iterable[TablePartitionSpec] = {
    // A partition may have subdirectories.
    def folders(of: Seq[Path]) = of.map(_.getParent).distinct.flatMap(Iterator.iterate(_)(_.getParent).takeWhile(_ != null)).map(_.toUri.getPath).toSet
    val (losing, getting) = (folders(going.map(_.getPath)), folders(coming.map(_.to)))
    known.collect { case (spec, folder) if losing(folder.toUri.getPath) && !getting(folder.toUri.getPath) => spec }
  }

  /** Waits until no other statement can drop partitions that get new files. */
  private def awaitDrops(started: Replacement, filled: Set[TablePartitionSpec]): Unit = {
    def mayDrop(other: Replacement) = other.name != started.name && other.mayDrop.exists(filled)
    if (filled.nonEmpty && unfinished.exists(mayDrop)) awaitOthers(mayDrop)
  }

  /**
   * Returns the new partitions that still do not exist. If another statement has created a partition, an overwriting one has to replace its files, and any
   * other one has to move its files into the partition's directory.
   */
  private def stillNew(created: Seq[TablePartitionSpec], overwrites: Boolean): Seq[TablePartitionSpec] = if (created.isEmpty) Nil else {
    val now = partitions.map(partition => partition.spec -> new Path(partition.location).toUri.getPath).toMap
    val (existing, fresh) = created.partition(now.contains)
    existing.find(spec => overwrites || now(spec) != defaultLocation(spec).toUri.getPath).foreach { spec =>
      throw changed(s"the partition ${defaultLocation(spec).getName}, which another statement has created since this one began")
    }
    fresh
  }

  /** Deletes files in the directories of new partitions, or throws an error because of them. */
  private def deleteStrays(started: Replacement, transaction: Transaction, created: Seq[TablePartitionSpec], overwrites: Boolean): Unit = {
    val found = Compat.inParallel(created.map(defaultLocation))(dataFiles)
    if (found.exists(_.nonEmpty)) {
      // Another statement may create the same partitions at the same time. It has recorded its files before it has moved them. Its record stays at least as long
      // as this statement is undecided.
      val recorded = others(transaction).flatMap(_.added).toSet
      if (!Replacement.isUndecided(started, fs)) throw undoneByAnother()
      val strays = found.map(_.filterNot(file => recorded(files.nameOf(file.getPath))))
      if (!overwrites) checkEmpty(created.zip(strays))
      SparkVersion.delete(fs, strays.flatten.map(_.getPath))
    }
  }

  /** Returns the versions of all applications. Older records need not stay for them. */
  private def versions(transaction: Transaction): Map[String, Long] =
    (committed.flatMap(_.versions) ++ transaction.version.map(of => of.app -> of.number))
      .groupBy(_._1).map { case (app, of) => app -> of.map(_._2).max }

  private def checkEmpty(created: Seq[(TablePartitionSpec, Seq[FileStatus])]): Unit = created.find(_._2.exists(BucketFiles.isData)).foreach { case (spec, _) =>
    throw refused(s"files in ${defaultLocation(spec)}, which is not a partition of the table", "an empty directory for the new partition",
      "move the files away, or restore the partition with ALTER TABLE ... ADD PARTITION, and run it again; nothing has been replaced")
  }

  /**
   * Moves the new files into the table. Readers with the extension still ignore them. Partitions without old files are created after their files exist,
   * because another statement may drop an empty partition.
   *
   * @param check throws an error if another statement has undone the replacement
   */
  private def moveIn(going: Seq[FileStatus], coming: Seq[FileMove])(check: => Unit): Unit = {
    Compat.inParallel(coming.map(_.to.getParent).distinct)(fs.mkdirs)
    Compat.inParallel(coming) { case FileMove(from, to, _, _) =>
      check
      // Nothing else has the new name, which contains a random id.
      if (!fs.rename(from, to)) throw new java.io.IOException(s"$from cannot be renamed to $to")
    }
    val full = going.map(_.getPath.getParent).toSet
    val created = coming.filterNot(move => full(move.to.getParent)).flatMap(_.partition).distinct.map(spec => spec -> folderOf(spec))
    // Another statement may have dropped a partition and created it in another directory.
    create(created).find { case (folder, location) => folder.toUri.getPath != location.toUri.getPath }.foreach { case (folder, location) =>
      throw changed(s"the partition of $folder in $location, where another statement has created it")
    }
  }

  private def folderOf(spec: TablePartitionSpec): Path = known.getOrElse(spec, defaultLocation(spec))

  /** Creates partitions unless they exist. Returns the wanted and the actual directories of those that may be in another one. */
  private def create(created: Seq[(TablePartitionSpec, Path)]): Seq[(Path, Path)] = if (created.isEmpty) Nil else {
    val uncertain = created.filter { case (spec, folder) => !known.contains(spec) || folder.toUri.getPath != defaultLocation(spec).toUri.getPath }
    val found = CreatedPartitions.create(session, table, uncertain.map(_._1)) {
      catalog.createPartitions(table.identifier, created.map {
        case (spec, folder) => CatalogTablePartition(spec, table.storage.copy(locationUri = Some(folder.toUri)))
      }, ignoreIfExists = true)
    }
    uncertain.map(_._2).zip(found.map(of => new Path(of.location)))
  }

  /** Creates a partition without files, if it does not exist. If it existed before the replacement, it keeps its directory. */
  def createEmpty(spec: TablePartitionSpec): Unit = {
    fs.mkdirs(folderOf(spec))
    create(Seq(spec -> folderOf(spec)))
  }

  /**
   * Waits until other statements have finished their replacements. If a statement shows no sign of life for a time, it has crashed. Then completes or undoes
   * its replacement.
   *
   * @param waits whether to wait for a statement that is running
   * @return `undone` or `completed`, for each replacement of a crashed statement
   */
  def awaitOthers(waits: Replacement => Boolean = _ => true): Seq[String] = {
    // The last sign of life of each statement, and since when it has not changed, by the clock of this process.
    val signs = mutable.HashMap.empty[String, (Long, Long)]
    def hasCrashed(of: Replacement) = {
      val now = System.nanoTime
      val (sign, since) = signs.get(of.folder.getName) match {
        case None => (of.lastSign, now - TimeUnit.MILLISECONDS.toNanos(Replacement.silence(of.folder, fs)))
        case Some((sign, since)) => (of.lastSign, if (sign == of.lastSign) since else now)
      }
      signs(of.folder.getName) = (sign, since)
      now - since >= TimeUnit.MILLISECONDS.toNanos(BucketingConf.recoverAfterMillis)
    }
    @tailrec
    def await(results: Seq[String], pause: Long): Seq[String] = {
      val (crashed, alive) = unfinished.partition(hasCrashed)
      val found = results ++ crashed.map(recover(_, isForced = false))
      if (!alive.exists(waits)) found
      else {
        if (pause == PauseMillis) logInfo(s"Waiting for another statement that replaces files of ${table.identifier.quotedString}.")
        Thread.sleep(pause)
        await(found, (pause * 5 / 4).min(MaxPauseMillis))
      }
    }
    await(Nil, PauseMillis)
  }

  /** Completes or undoes unfinished replacements at once, even if their statements are still running. */
  def recover(): Seq[String] = unfinished.map(recover(_, isForced = true))

  /** Deletes old files that no query needs any more. */
  def expire(): Unit = RetainedFiles(location, fs).expire(System.currentTimeMillis - BucketingConf.retainOldFilesMillis)

  private def unfinished: Seq[Replacement] = Replacement.records(location, conf).filter(_.done.isEmpty)

  private def recover(other: Replacement, isForced: Boolean): String = {
    // It may drop partitions, so this statement must list them later.
    val recovering = new FileReplacement(session, table)
    if (other.isCommitted || recovering.undo(other, isOwn = false, isAlone = isForced).contains(true)) {
      recovering.complete(other.copy(decision = Some(true)), isSealed = false)
      refresh()
      "completed"
    } else "undone"
  }

  /**
   * Undoes a replacement, unless it is committed: deletes the new files, so that the table keeps the old files.
   *
   * @param isOwn whether the calling statement has begun the replacement
   * @param isAlone whether no other process decides at the same time
   * @return whether the replacement is committed, as in [[Replacement.decide]]
   */
  private def undo(started: Replacement, isOwn: Boolean, isAlone: Boolean): Option[Boolean] = {
    val added = pathsOf(started, started.added)
    val decision = Replacement.decide(started, commits = false, isAlone, fs)
    if (decision.contains(false) || isOwn && decision.isEmpty) {
      SparkVersion.delete(fs, added)
      // Without a record, other statements would not wait.
      if (decision.nonEmpty) {
        dropEmpty(started, started.created)
        // Another program may have created a file with the name of the directory.
        unfilled(started.created.filter(isSpec))(defaultLocation).map(defaultLocation).filter(children(_).isEmpty).foreach(deletesEmpty)
        Replacement.finish(started, fs)
      }
      Compat.refresh(session, table.identifier)
    }
    decision
  }

  /**
   * Completes a committed replacement: deletes the old files, and drops partitions that are now empty. Before, the statement has sealed the new files, or the
   * seals of the old files are removed, so that nobody takes deleted files for lost.
   */
  private def complete(committed: Replacement, isSealed: Boolean): Unit = {
    // After a crash, the partition of deleted files may have been dropped.
    val removed = pathsOf(committed, committed.removed, mustExist = false)
    val folders = removed.map(_.getParent).distinct
    committed.checkRestored(Compat.inParallel(folders)(children).flatten.map(file => files.nameOf(file.getPath)).toSet)
    if (!isSealed) SealWriter.unsealRemoved(session, table, removed.groupBy(_.getParent))
    retire(committed.name, removed)
    Subdirectories.deleteEmpty(fs, folders, isPartition)
    dropEmpty(committed, committed.dropped)
    Replacement.finish(committed, fs)
    forget(committed)
  }

  /** Removes old files from the table. Queries that have planned to read them find them for some time, see [[RetainedFiles]]. */
  private def retire(replacement: String, removed: Seq[Path]): Unit = if (removed.nonEmpty) {
    val canKeep = ExclusiveFile.movesFiles(location, fs)
    RetainedFiles(location, fs).remove(replacement, removed, canKeep && BucketingConf.retainOldFilesMillis > 0)
    if (canKeep) expire()
  }

  /**
   * Deletes what crashed statements have left, and then the earlier records that no running statement has to compare itself with. If a statement was only
   * paused, it finds that its own directory has gone.
   */
  private def forget(committed: Replacement): Unit = {
    val records = Replacement.records(location, conf)
    val known = records.map(_.name).toSet
    def isRunning(folder: Path) = Replacement.isRunning(folder, fs, BucketingConf.recoverAfterMillis.max(MinSilenceMillis))
    val (running, crashed) = Replacement.folders(location, fs)
      .filter(folder => Replacement.isName(folder.getName) && !known(folder.getName)).partition(isRunning)
    crashed.foreach(Replacement.abandon(_, fs))
    val (done, unfinished) = records.filter(_.name != committed.name).partition(_.done.nonEmpty)
    val begun = (running ++ unfinished.map(_.folder)).flatMap(Replacement.begunAt(_, fs)).reduceOption(_ min _)
    val now = records.find(_.name == committed.name).flatMap(_.done).getOrElse(System.currentTimeMillis)
    val needless = done.filter { record =>
      def isCarried = record.versions.forall { case (app, number) => committed.has(AppVersion(app, number)) }
      // A statement that runs again still has its new files in the directory of the undone record, and a paused one may move more files into the table.
      // An append conflicts with nothing, so only statements that seal the same partitions now need its record.
      def isRecent = !record.statement.isAppend || record.created.nonEmpty || record.done.forall(_ >= System.currentTimeMillis - MinSilenceMillis)
      def isNeeded = if (record.isUndone) isRunning(record.folder) else isRecent && begun.exists(time => record.done.forall(_ >= time))
      record.name < committed.name && (record.isUndone || isCarried) && !isNeeded
    }
    // The statements may have moved more files into the table after their replacements were undone. From now on, they cannot.
    needless.filter(_.isUndone).foreach(undone => fs.delete(new Path(undone.folder, Replacement.Staged), true))
    val late = Compat.inParallel(needless.filter(_.isUndone)) { undone =>
      val added = pathsOf(undone, undone.added)
      val found = added.map(_.getParent).distinct.flatMap(children).map(_.getPath).filter(added.toSet)
      SparkVersion.delete(fs, found)
      // A query may have listed these files.
      if (found.nonEmpty) Replacement.finish(undone, fs)
      undone.name -> found
    }.filter(_._2.nonEmpty).toMap
    // A query may have listed the directories before, and finds out from the records what has changed.
    needless.filter(of => !late.contains(of.name) && of.done.exists(_ <= now - Replacement.KeptMillis)).foreach(record => Replacement.forget(record.folder, fs))
  }

  private def refresh(): Unit = {
    Compat.updateStatistics(session, table)
    Compat.refresh(session, table.identifier)
    Compat.recache(session, location, fs)
  }

  /** Returns the paths of files that a record names. Throws an error if a file does not belong to this table, so that nobody deletes it. */
  private def pathsOf(of: Replacement, names: Set[String], mustExist: Boolean = true): Seq[Path] = {
    // Others may have dropped a partition since this statement moved a file into its directory.
    lazy val locations = (partitions.map(partition => new Path(partition.location)) ++ known.values).distinct
    lazy val folders = locations.map(_.toUri.getPath).toSet
    def isInPartition(name: String) = Iterator.iterate(new Path(name).getParent)(_.getParent).takeWhile(_ != null).exists(folder => folders(folder.toUri.getPath))
    lazy val ownFolders = (location +: locations).flatMap(withoutLinks)
    val found = names.toSeq.map(name => name -> files.pathOf(name))
    // A symbolic link below the table may lead to files of others.
    val isOwn = found.map(_._2.getParent).distinct.map(folder => folder -> withoutLinks(folder).forall(real => ownFolders.exists(real.startsWith))).toMap
    def isForeign(name: String, path: Path) = !files.isBelow(name) && !isInPartition(name) || !isOwn(path.getParent)
    val (foreign, own) = found.partition { case (name, path) => isForeign(name, path) }
    foreign.find { case (_, path) => mustExist || fs.exists(path) }.foreach { case (name, _) => throw Replacement.foreign(of, name) }
    own.map(_._2)
  }

  /** Returns the path of a local directory without symbolic links, or None on other file systems and if the directory does not exist. */
  private def withoutLinks(folder: Path): Option[java.nio.file.Path] =
    if (folder.getFileSystem(conf).getUri.getScheme == "file") Try(java.nio.file.Paths.get(folder.toUri.getPath).toRealPath()).toOption else None

  /** Returns the move of a new file into a partition, or into a table without partitions, under a name that no file has had yet. */
  def moveTo(file: Path, spec: TablePartitionSpec, name: String): FileMove =
    if (spec.isEmpty) FileMove(file, fs.makeQualified(new Path(location, name)), None, isNewPartition = false)
    else {
      val folder = known.get(spec)
      checkMovable(folder.toSeq)
      FileMove(file, fs.makeQualified(new Path(folder.getOrElse(defaultLocation(spec)), name)), Some(spec), folder.isEmpty)
    }

  /** Returns the current files of the selected partitions, or of a table without partitions. Those that another statement is moving in are not yet current. */
  def filesOf(selected: TablePartitionSpec => Boolean): Seq[FileStatus] = {
    val found = if (table.partitionColumnNames.isEmpty) dataFiles(location) else {
      val folders = known.collect { case (spec, folder) if selected(spec) => folder }.toSeq.distinct
      checkMovable(folders)
      Compat.inParallel(folders)(dataFiles).flatten
    }
    val hidden = Replacement.records(location, conf).flatMap(_.hidden).toSet
    found.filterNot(file => hidden(files.nameOf(file.getPath)))
  }

  /** Checks that files can be renamed into these directories. */
  private def checkMovable(folders: Seq[Path]): Unit = {
    folders.find(folder => Try(fs.makeQualified(folder)).isFailure).foreach { folder =>
      throw refused(s"a partition in $folder", s"all partitions on the file system of the table, ${fs.getUri}",
        s"move the partition, or set ${BucketingConf.ATOMIC.key}=false for an INSERT; nothing has been replaced")
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

  /** Returns the files at these paths. They come from listings, as for readers, because the times in a file's own status may be less precise. */
  private def listed(paths: Seq[Path]): Seq[FileStatus] = {
    val found = byPath(paths)
    paths.map(path => found.getOrElse(path.toUri.getPath, throw new java.io.FileNotFoundException(s"$path does not exist, although it was moved into the table")))
  }

  private def byPath(paths: Seq[Path]): Map[String, FileStatus] =
    Compat.inParallel(paths.map(_.getParent).distinct)(children).flatten.map(file => file.getPath.toUri.getPath -> file).toMap

  private def checkUnchanged(files: Seq[FileStatus]): Unit = {
    val now = byPath(files.map(_.getPath))
    files.find { file =>
      !now.get(file.getPath.toUri.getPath).exists(found => found.getLen == file.getLen && found.getModificationTime == file.getModificationTime)
    }.foreach(file => throw changed(s"${file.getPath} has been changed or deleted since the statement read it${authorOf(Seq(file.getPath))}"))
  }

  def changed(found: String, cause: Throwable = null) = new ConcurrentChange(
    message(found, "no other write to the same files at the same time", "run it again; nothing has been replaced"), cause)

  private def refused(found: String, expected: String, instead: String, cause: Throwable = null): AnalysisException = {
    val error = Compat.refusal(message(found, expected, instead))
    Option(cause).foreach(error.addSuppressed)
    error
  }

  private def message(found: String, expected: String, instead: String) =
    Compat.message(s"Cannot replace files of ${table.identifier.quotedString}.", found, expected, instead)

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
   * Drops those partitions of a record that have no files. A statement of the extension either finds the record of this one and waits, see `awaitDrops`, or
   * this method finds its record and keeps the partition. Other programs may write files at the same time. Therefore, a directory is deleted only if it is
   * empty, and a partition with files is created again.
   */
  private def dropEmpty(of: Replacement, selected: Seq[TablePartitionSpec]): Unit = {
    val specs = selected.filter(isSpec).toSet
    def areEmpty[A](some: Seq[A])(folder: A => Path): Seq[A] =
      some.zip(Compat.inParallel(some.map(folder))(children)).collect { case (of, Seq()) => of }
    def location(of: CatalogTablePartition) = new Path(of.location)
    val dropped = if (areEmpty(specs.toSeq)(folderOf).isEmpty) Nil
      else areEmpty(unfilled(partitions.filter(of => specs(of.spec)))(location))(location)
    // Another statement may have completed or undone this one too, and others no longer wait for it.
    if (dropped.nonEmpty && !Replacement.isDone(of, fs)) {
      catalog.dropPartitions(table.identifier, dropped.map(_.spec), ignoreIfNotExists = true, purge = false, retainData = true)
      val used = Compat.inParallel(dropped.map(partition => new Path(partition.location)))(folder => !deletesEmpty(folder))
      val kept = dropped.zip(used).collect { case (partition, true) => partition }
      if (kept.nonEmpty) catalog.createPartitions(table.identifier, kept, ignoreIfExists = true)
    }
  }

  private def isSpec(values: TablePartitionSpec): Boolean = values.keySet == table.partitionColumnNames.toSet

  /** Returns the partitions into which no unfinished statement moves files. */
  private def unfilled[A](partitions: Seq[A])(folder: A => Path): Seq[A] = if (partitions.isEmpty) Nil else {
    val filling = unfinished.filterNot(_.isUndone).flatMap(_.added.map(TableFiles.folderOf)).toSet
    partitions.filterNot(of => filling(files.folderOf(new Path(folder(of), "file"))))
  }

  /** Deletes a directory, unless it is not empty. Returns whether the directory has no rows. */
  private def deletesEmpty(folder: Path): Boolean =
    try fs.delete(folder, false) || !fs.exists(folder) catch { case _: java.io.IOException => children(folder).isEmpty }

  private def children(folder: Path): Seq[FileStatus] =
    BucketFiles.children(folder, fs).filterNot(file => BucketFiles.isHidden(file.getPath.getName))
}
