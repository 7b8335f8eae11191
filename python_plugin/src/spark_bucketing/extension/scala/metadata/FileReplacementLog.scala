package org.apache.spark.sql.bucketing
package metadata

import java.io.{FileNotFoundException, IOException}
import java.net.URI
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.AccessDeniedException
import java.time.{LocalDateTime, ZoneOffset}
import java.time.format.DateTimeFormatter
import java.util.{Locale, UUID}

import scala.jdk.CollectionConverters._
import scala.util.Try
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import com.google.common.cache.CacheBuilder
import org.apache.commons.io.IOUtils
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, FileSystem, Path}
import org.apache.hadoop.security.AccessControlException

import org.apache.spark.internal.Logging
import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, ExternalCatalogUtils}
import org.apache.spark.util.Utils

/**
 * The commit of a statement that adds files to a table, replaces or removes some. Before the first file moves, a record lists the old and new files.
 * The record is in a subdirectory of the table's location, which readers of the table skip. See
 * docs/explanation/replacing-rows.md:
 * {{{
 *   _replaced/20240131120000000000-9f2c41d0/begun       the statement begins; it has read nothing yet
 *   _replaced/20240131120000000000-9f2c41d0/heartbeat   renewed every second while the statement works
 *   _replaced/20240131120000000000-9f2c41d0/files       the new files, until they move into the table
 *   _replaced/20240131120000000000-9f2c41d0/started     lists the files; then the new files move into the table
 *   _replaced/20240131120000000000-9f2c41d0/outcome     `committed` or `undone`, and an id; then the old or the new files are deleted
 *   _replaced/20240131120000000000-9f2c41d0/done        these files are deleted
 *   _replaced/20240131120000000000-9f2c41d0/merged      optional: the id of the merged rows, written before the commit
 * }}}
 * A file is complete once it exists, and no file is renamed or changed later, except the heartbeat. So these files have one meaning after every crash:
 * {{{
 *   started  outcome    done  meaning                                                            the table has
 *   no       any        any   nothing has happened yet, or a later replacement is deleting the record   -
 *   yes      no         no    undecided: the statement runs or has crashed                       the old files
 *   yes      committed  no    committed: old files may still exist                               the new files
 *   yes      committed  yes   completed                                                          the new files
 *   yes      undone     any   undone: new files may still exist, or arrive late                  the old files
 *   yes      no         yes   cannot result from a crash: an error                               -
 * }}}
 * Only the statement itself commits its replacement, and any statement can undo it. Each of them creates `outcome` exclusively, see [[ExclusiveFile]], so
 * exactly one succeeds. If the file system has no exclusive operation, or the statement did not know one, only the statement itself decides.
 *
 * A later committed replacement deletes the record, `started` first, once no running statement may compare itself with it. So a process that finds no `started` before it creates `outcome` is too late: the
 * replacement has already been decided. Until then, readers ignore the new files of an undone replacement, even
 * if an old listing contains them. Readers also detect a listing that is older than a replacement. Once a replacement
 * is done, readers ignore none of its files. If an old file is restored, it is therefore part of the table again.
 *
 * @param added the names of the new files as in [[TableFiles]]; they stay valid if the table is copied or renamed
 * @param removed the names of the old files
 * @param created the partition values of new partitions
 * @param dropped the partition values of existing partitions that the statement drops unless they have files afterwards
 * @param statement the statement
 * @param isExclusive whether the statement that wrote the record decides with an exclusive operation
 * @param versions the last version that each application has written, in this replacement or earlier ones
 * @param decision whether the replacement is committed or undone, or None if it is undecided
 * @param done the time when all old or new files had been deleted, in milliseconds since 1970
 * @param lastSign the time of the last sign of life of the statement, in milliseconds since 1970 by the clock of the storage
 */
case class Replacement(
    folder: Path, added: Set[String], removed: Set[String], created: Seq[Map[String, String]], dropped: Seq[Map[String, String]],
    statement: StatementScope, isExclusive: Boolean, versions: Map[String, Long] = Map.empty, decision: Option[Boolean] = None, done: Option[Long] = None, lastSign: Long = 0) {

  def name: String = folder.getName

  /** Names the statement for a person: its operation, its user, and when it began. */
  def words: String = s"${statement.operation} by ${statement.user}, which began at ${Replacement.timeOf(name)}"

  /** Returns whether an application has already written a version. */
  def has(version: AppVersion): Boolean = versions.get(version.app).exists(_ >= version.number)

  def isUndone: Boolean = decision.contains(false)

  /** Whether the new files, and no longer the old files, belong to the table. */
  def isCommitted: Boolean = decision.contains(true)

  /** Whether it may have changed any files, because it is a statement of Spark, or because its lists are lost. */
  def isOfAnyFiles: Boolean = added.isEmpty && removed.isEmpty && created.isEmpty && dropped.isEmpty

  /** The directories of its files, with a slash at the end; the empty string for the table's location. */
  lazy val folders: Set[String] = (added ++ removed).map(TableFiles.folderOf)

  /** The partitions that may still be dropped, by the statement itself or by one that completes or undoes it. */
  def mayDrop: Seq[Map[String, String]] = if (done.nonEmpty) Nil else decision.fold(Seq.empty[Map[String, String]])(if (_) dropped else created)

  /** Returns the names of the files that readers ignore, whether or not the files exist. */
  def hidden: Set[String] = if (!isCommitted) added else if (done.isEmpty) removed else Set.empty

  /**
   * Throws an error if new files of an unfinished replacement are missing in a directory that has old files. Such a directory was
   * restored from a backup that is older than the replacement.
   */
  def checkRestored(found: String => Boolean): Unit = if (isCommitted && done.isEmpty) {
    def parent(name: String) = name.take(name.lastIndexOf('/') + 1)
    val old = removed.filter(found).map(parent)
    added.find(name => old(parent(name)) && !found(name)).foreach { missing =>
      throw Compat.refusal(s"Cannot determine the current files of the table, because the replacement $folder is not finished.",
        s"no file $missing, in a directory with old files", "all new files of the replacement", Replacement.Instead)
    }
  }
}

/** A version of an application's writes, such as the number of a batch. Versions of an application ascend. */
case class AppVersion(app: String, number: Long)

/**
 * Which partitions a statement depends on. Two statements conflict if both depend on a partition, unless one of them only appends rows.
 *
 * @param operation the statement in words, such as `MERGE`
 * @param partitions the partitions, as names of directories such as `ds=2024-01-31/hour=3`. A name stands for all partitions below it, so the empty name
 *                   stands for the whole table. None if the statement only appends rows
 * @param spec the bucket spec of the new files, as text, if their rows are in the correct buckets and sorted
 */
case class StatementScope(operation: String, user: String, partitions: Option[Set[String]], spec: Option[String] = None) {

  def isAppend: Boolean = partitions.isEmpty

  def conflictsWith(other: StatementScope): Boolean =
    (for (own <- partitions; others <- other.partitions) yield own.exists(name => others.exists(StatementScope.overlap(name, _)))).getOrElse(false)
}

object StatementScope {

  /** More names would make records long and comparisons slow. */
  private val MaxPartitions = 1000
  val Whole = ""

  def apply(operation: String, partitions: Iterable[String], spec: Option[String]): StatementScope = {
    val names = partitions.toSet
    StatementScope(operation, Utils.getCurrentUserName(), Some(if (names.size > MaxPartitions) Set(Whole) else names), spec)
  }

  def append(spec: Option[String]): StatementScope = StatementScope("INSERT INTO", Utils.getCurrentUserName(), None, spec)

  /** Returns the names of partitions by the values of their leading partition columns. Without the value of the first column, this is the whole table. */
  def namesOf(table: CatalogTable, partitions: Iterable[Map[String, String]]): Iterable[String] = partitions.map { values =>
    table.partitionColumnNames.map(column => values.get(column).map(ExternalCatalogUtils.getPartitionPathString(column.toLowerCase(Locale.ROOT), _)))
      .takeWhile(_.isDefined).flatten.mkString("/")
  }

  private def overlap(one: String, other: String): Boolean =
    one == other || one.startsWith(if (other.isEmpty) other else s"$other/") || other.startsWith(if (one.isEmpty) one else s"$one/")
}

object Replacement extends Logging {

  val Folder = "_replaced"

  /** How long a record stays after its statement, so that a query that has listed the directories in the meantime finds it. */
  val KeptMillis: Long = 5 * 60 * 1000

  /** The directory of the new files, in the directory of the record. */
  val Staged = "files"

  private val Begun = "begun"
  private val Started = "started"
  private val Outcome = "outcome"
  private val Beat = "heartbeat"
  private val Done = "done"
  private val Merged = "merged"
  private val Decided = "(committed|undone) [0-9a-f-]{36}\n".r
  private val Instead =
    s"restore the whole directory of the table, including $Folder, from one backup, or rebuild the table with `dbt run --full-refresh`"
  private val Stamp = DateTimeFormatter.ofPattern("yyyyMMddHHmmssSSSSSS")
  private val Readable = DateTimeFormatter.ofPattern("yyyy-MM-dd HH:mm:ss 'UTC'")

  private case class Lists(
      added: Set[String], removed: Set[String], created: Seq[Map[String, String]], dropped: Seq[Map[String, String]], statement: StatementScope, isExclusive: Boolean,
      versions: Map[String, Long])

  // Caches the lists of files, because a record never changes and its name is unique. The weight is the number of names.
  private val known = CacheBuilder.newBuilder().maximumWeight(200000)
    .weigher[String, Lists]((_, of) => 10 + of.added.size + of.removed.size + of.created.size + of.dropped.size).build[String, Lists]()

  /** Returns the replacements of a table, oldest first. Replacements that no running statement or reader needs may be missing. */
  def records(location: Path, conf: Configuration): Seq[Replacement] = {
    val fs = location.getFileSystem(conf)
    Compat.inParallel(listed(location, fs).toSeq.sortBy(_._1.getName)) { case (folder, files) => read(folder, files, fs) }.flatten
  }

  /** Lists the directories of the records. S3A lists the files of all directories at once. Elsewhere, another statement may delete a directory meanwhile. */
  private def listed(location: Path, fs: FileSystem): Map[Path, Seq[FileStatus]] = {
    val root = fs.makeQualified(new Path(location, Folder))
    if (ExclusiveFile.isS3A(fs)) BucketFiles.filesBelow(root, fs).groupBy(_.getPath.getParent).filter { case (folder, _) => folder.getParent == root }
    else Compat.inParallel(folders(location, fs))(folder => folder -> BucketFiles.children(folder, fs)).toMap
  }

  /**
   * Returns the replacements of a table for a reader. A user without permission to list the records reads the files that the metastore and the directories
   * have. While a statement replaces files, these can be old and new ones.
   */
  def forReader(location: Path, conf: Configuration): Seq[Replacement] = try records(location, conf) catch {
    case denied @ (_: AccessControlException | _: AccessDeniedException) =>
      if (warned.add(location.toString)) logWarning(s"Queries of the table in $location may return old and new rows while a statement replaces its files: found no " +
        s"permission to list ${new Path(location, Folder)}. Expected permission to read it. Instead: grant this permission to the readers of the table.", denied)
      Nil
  }

  private val warned = java.util.concurrent.ConcurrentHashMap.newKeySet[String]

  /** Returns the directories that contain the replacement records of a table, oldest first. */
  def folders(location: Path, fs: FileSystem): Seq[Path] = {
    val found = BucketFiles.children(new Path(location, Folder), fs)
    found.find(file => !file.isDirectory && !file.getPath.getName.startsWith(".")).foreach(file => throw damaged(file.getPath, "not a directory"))
    found.map(_.getPath).sortBy(_.getName)
  }

  /** Creates the directory of a replacement. */
  def newFolder(location: Path, fs: FileSystem): Path = {
    val folder = new Path(new Path(location, Folder), nextName(location, fs))
    def write() = ExclusiveFile.write(new Path(folder, Begun), "", fs, overwrites = true)
    // Another statement may delete the directory while it is empty.
    try write() catch { case _: IOException => write() }
    folder
  }

  /** Returns whether the statement of a directory without a record is running. Without `begun`, its creation or deletion has been interrupted. */
  def isRunning(folder: Path, fs: FileSystem, maxSilence: Long): Boolean = isKept(folder, fs) && silence(folder, fs) < maxSilence

  /** Returns whether the directory of a replacement exists since the statement has begun. Other statements delete it if they take this one for crashed. */
  def isKept(folder: Path, fs: FileSystem): Boolean = fs.exists(new Path(folder, Begun))

  /** Returns when the statement of a replacement has begun, in milliseconds since 1970 by the clock of the storage. */
  def begunAt(folder: Path, fs: FileSystem): Option[Long] = BucketFiles.children(folder, fs).find(_.getPath.getName == Begun).map(_.getModificationTime)

  /** Writes the record of a replacement. No file may be moved before this method returns. */
  def begin(fs: FileSystem, of: Replacement): Unit = {
    val json = Json.createObjectNode()
    def add(name: String, values: Iterable[String]) = values.foldLeft(json.putArray(name))(_ add _)
    add("added", of.added)
    add("removed", of.removed)
    for ((name, partitions) <- Seq("created" -> of.created, "dropped" -> of.dropped)) partitions.foldLeft(json.putArray(name)) { (array, values) =>
      values.foldLeft(array.addObject()) { case (partition, (column, value)) => partition.put(column, value) }
      array
    }
    json.put("operation", of.statement.operation).put("user", of.statement.user).put("exclusive", of.isExclusive)
    of.statement.partitions.fold[Any](json.put("appends", true))(add("partitions", _))
    of.statement.spec.foreach(json.put("spec", _))
    of.versions.foldLeft(json.putObject("versions")) { case (versions, (app, version)) => versions.put(app, version) }
    ExclusiveFile.publish(new Path(of.folder, Started), json.toString, fs)
  }

  /**
   * Returns a unique name that sorts after all earlier records. The name starts with the current time. If the last record
   * is later, because the clocks of two hosts differ, the name starts with the next number after that record.
   */
  private def nextName(location: Path, fs: FileSystem): String = {
    val now = Stamp.format(LocalDateTime.now(ZoneOffset.UTC))
    val last = folders(location, fs).lastOption.map(_.getName.takeWhile(_.isDigit)).filter(_ >= now)
    s"${last.fold(now)(time => (BigInt(time) + 1).toString)}-${UUID.randomUUID.toString.take(8)}"
  }

  /** Returns the time in the name of a replacement, as text. A name after one with a time in the future may have none. */
  def timeOf(name: String): String = Try(LocalDateTime.parse(name.takeWhile(_.isDigit), Stamp).format(Readable)).getOrElse(name)

  /** Returns whether a directory has the name of a replacement. */
  def isName(name: String): Boolean = name.matches("\\d{20}-.+")

  /** Deletes a directory without a record. */
  def discard(folder: Path, fs: FileSystem): Unit = if (!fs.exists(new Path(folder, Started))) fs.delete(folder, true)

  /**
   * Deletes the directory of a crashed statement without a record. If the statement was only paused and writes its record now, either it finds that `begun` does
   * not exist, or this method finds the record and keeps it.
   */
  def abandon(folder: Path, fs: FileSystem): Unit = {
    end(folder, fs)
    discard(folder, fs)
  }

  /** Shows that the statement of a directory does nothing more in it. */
  def end(folder: Path, fs: FileSystem): Unit = fs.delete(new Path(folder, Begun), false)

  /** Deletes a record. Without `started`, the rest of it means nothing. */
  def forget(folder: Path, fs: FileSystem): Unit = {
    fs.delete(new Path(folder, Started), false)
    fs.delete(folder, true)
  }

  /** Returns whether a replacement that has begun is undecided. */
  def isUndecided(of: Replacement, fs: FileSystem): Boolean = {
    val names = BucketFiles.children(of.folder, fs).map(_.getPath.getName).toSet
    names(Started) && !names(Outcome)
  }

  /** Shows that the statement of a replacement is working. */
  def beat(folder: Path, fs: FileSystem): Unit = ExclusiveFile.write(new Path(folder, Beat), "", fs, overwrites = true)

  /** Returns how long the statement of a replacement has shown no sign of life, in milliseconds by the clock of the storage. */
  def silence(folder: Path, fs: FileSystem): Long = {
    val now = new Path(folder, s".now-${UUID.randomUUID}")
    try {
      ExclusiveFile.write(now, "", fs, overwrites = true)
      val files = BucketFiles.children(folder, fs)
      lastSign(files).fold(0L)(last => files.find(_.getPath.getName == now.getName).fold(0L)(_.getModificationTime - last).max(0))
    } catch { case NonFatal(_) => 0 } finally Try(fs.delete(now, false))
  }

  /** Returns the time of the last sign of life. Other statements write other files into the directory. */
  private def lastSign(files: Seq[FileStatus]): Option[Long] =
    files.filter(file => file.isFile && Set(Begun, Beat, Started)(file.getPath.getName)).map(_.getModificationTime).reduceOption(_ max _)

  /**
   * Commits or undoes a replacement, unless it is already decided.
   *
   * @param isAlone whether no other process decides at the same time, so that an exclusive operation is not necessary
   * @return whether the replacement is committed. None if a later replacement has deleted the record: then a replacement that its own statement has not yet
   *         tried to commit is undone, and that of another statement may have been committed
   * @throws IOException if the record was deleted while its own statement committed: the replacement may have been committed, completed and forgotten
   */
  def decide(of: Replacement, commits: Boolean, isAlone: Boolean, fs: FileSystem): Option[Boolean] = {
    def exists = fs.exists(new Path(of.folder, Started))
    if (!exists) None else {
      val failure = Try(create(of, commits, isAlone, fs)).failed.toOption
      // Another process may have been faster, or the answer of the storage may have been lost.
      val decision = decisionOf(of.folder, fs)
      if (exists) decision.orElse(throw failure.getOrElse(undecidable(of.folder, fs)))
      else {
        fs.delete(of.folder, true)
        if (commits) throw failure.getOrElse(new IOException(s"${of.folder} was deleted during the commit"))
        None
      }
    }
  }

  private def create(of: Replacement, commits: Boolean, isAlone: Boolean, fs: FileSystem): Unit = {
    val file = new Path(of.folder, Outcome)
    val text = s"${if (commits) "committed" else "undone"} ${UUID.randomUUID}\n"
    if (of.isExclusive && ExclusiveFile.isSupported(of.folder, fs)) ExclusiveFile.create(file, text, fs)
    else if (isAlone && !fs.exists(file)) ExclusiveFile.publish(file, text, fs)
  }

  private def undecidable(folder: Path, fs: FileSystem) = Compat.refusal("Cannot undo an unfinished statement.",
    s"the unfinished statement of $folder, which may still be running; the file system ${fs.getUri} has no exclusive create, so two statements could decide its outcome differently",
    "a statement that has ended", "make sure that it has ended, and run ALTER TABLE ... RECOVER FILES FORCE, which undoes it; nothing has been replaced")

  /** Returns whether all old or new files of a replacement have been deleted. */
  def isDone(of: Replacement, fs: FileSystem): Boolean = fs.exists(new Path(of.folder, Done))

  def finish(of: Replacement, fs: FileSystem): Unit = ExclusiveFile.write(new Path(of.folder, Done), "", fs, overwrites = true)

  /** Writes the id of the rows that a replacement merges. */
  def writeMerged(folder: Path, fs: FileSystem, id: String): Unit = ExclusiveFile.write(new Path(folder, Merged), id, fs, overwrites = true)

  /** Returns the id of the rows that a replacement has merged, if it has one. */
  def merged(folder: Path, fs: FileSystem): Option[String] = text(new Path(folder, Merged), fs)

  /** Reads a record. Returns None if the statement has not begun, or if a later replacement deletes the record. */
  private def read(folder: Path, files: Seq[FileStatus], fs: FileSystem): Option[Replacement] = {
    val found = files.map(file => file.getPath.getName -> file).toMap
    Seq(Started, Outcome, Done).flatMap(found.get).find(!_.isFile).foreach(file => throw damaged(file.getPath, "not a file"))
    val done = found.get(Done).map(_.getModificationTime)
    // A listing may lack a file that was created while the directory was listed.
    val decision = if (found.contains(Started) && (found.contains(Outcome) || done.nonEmpty)) knownDecisionOf(folder, found.get(Outcome), fs) else None
    // The record may have been deleted since it was listed, and `started` is deleted first.
    if (!found.contains(Started) || decision.isEmpty && !fs.exists(new Path(folder, Started))) None
    else if (decision.isEmpty && done.nonEmpty) throw damaged(new Path(folder, Done), s"`$Done` without `$Outcome`")
    else {
      val known = try listsOf(folder, fs) catch {
        // Readers ignore no files of a replacement that is completed, so its lists of files may be missing.
        case NonFatal(_) if decision.contains(true) && done.nonEmpty => Some(Lists(Set.empty, Set.empty, Nil, Nil, StatementScope("a statement", Seq(StatementScope.Whole), None), isExclusive = true, Map.empty))
      }
      known.map(of => Replacement(folder, of.added, of.removed, of.created, of.dropped, of.statement, of.isExclusive, of.versions, decision, done,
        lastSign(found.values.toSeq).getOrElse(0)))
    }
  }

  private def decisionOf(folder: Path, fs: FileSystem): Option[Boolean] = parsed(new Path(folder, Outcome), fs) {
    case Decided(decision) => decision == "committed"
    case _ => throw new IOException("a text other than `committed` or `undone` and an id")
  }

  // A decision never changes. Of a table that is restored from a backup, another file may have the same path.
  private val decisions = CacheBuilder.newBuilder().maximumSize(10000).build[(Path, Long), Option[Boolean]]()

  private def knownDecisionOf(folder: Path, listed: Option[FileStatus], fs: FileSystem): Option[Boolean] = listed.fold(decisionOf(folder, fs)) { file =>
    val key = (file.getPath, file.getModificationTime)
    Option(decisions.getIfPresent(key)).getOrElse {
      val found = decisionOf(folder, fs)
      if (found.nonEmpty && ExclusiveFile.isConditional(file.getPath, fs)) decisions.put(key, found)
      found
    }
  }

  private def listsOf(folder: Path, fs: FileSystem): Option[Lists] = Option(known.getIfPresent(folder.toString)).orElse {
    val found = parsed(new Path(folder, Started), fs)(parse)
    found.foreach(known.put(folder.toString, _))
    found
  }

  private def parse(text: String): Lists = {
    val json = Json.readTree(text)
    def list(name: String) = elements(json.get(name)).getOrElse(throw new IOException(s"the list `$name` is missing"))
    def value(node: JsonNode) = Option(node).flatMap(node => Option(node.textValue)).getOrElse(throw new IOException("a list contains a value that is not a name"))
    def names(name: String) = list(name).map(value).map(TableFiles.checked).toSet
    def partitions(name: String) = list(name).map(partition => partition.fieldNames.asScala.map(column => column -> value(partition.get(column))).toMap)
    def textOf(name: String): Option[String] = Option(json.get(name)).map(value)
    val isAppend = Option(json.get("appends")).exists(_.booleanValue)
    val statement = StatementScope(textOf("operation").getOrElse("a statement"), textOf("user").getOrElse("an unknown user"),
      if (isAppend) None else Some(elements(json.get("partitions")).fold(Set(StatementScope.Whole))(_.map(value).toSet)), textOf("spec"))
    Lists(names("added"), names("removed"), partitions("created"), if (json.has("dropped")) partitions("dropped") else Nil, statement, Option(json.get("exclusive")).exists(_.booleanValue), Option(json.get("versions")).fold(Map.empty[String, Long]) { versions =>
      versions.fieldNames.asScala.map(app => app -> versions.get(app).longValue).toMap
    })
  }

  /** Reads a file of a record. Returns None if it does not exist. */
  private def parsed[A](file: Path, fs: FileSystem)(parse: String => A): Option[A] = try text(file, fs).map(parse) catch {
    case NonFatal(error) => throw damaged(file, Option(error.getMessage).getOrElse(error.toString).linesIterator.take(1).mkString)
  }

  private def text(file: Path, fs: FileSystem): Option[String] =
    try Some(Utils.tryWithResource(fs.open(file))(stream => IOUtils.toString(stream, UTF_8))) catch {
      case _: FileNotFoundException => None
    }

  /** Returns the error for a name of a file that is not the table's. */
  def foreign(of: Replacement, name: String): AnalysisException = damaged(new Path(of.folder, Started), s"the name $name, which is outside the table and its partitions",
    s"if the table has lost the partition of this file, add it with ALTER TABLE ... ADD PARTITION; otherwise, $Instead")

  private def damaged(file: Path, found: String, instead: String = Instead): AnalysisException =
    Compat.refusal(s"Cannot determine the current files of the table, because $file is damaged.", found, "a record of replaced files", instead)

  private val Json = new ObjectMapper

  private def elements(json: JsonNode): Option[Seq[JsonNode]] = Option(json).filter(_.isArray).map(_.elements.asScala.toIndexedSeq)

  /** Parses a JSON array of names. Returns None for any other text. */
  def jsonNames(text: String): Option[Seq[String]] =
    Try(Json.readTree(text)).toOption.flatMap(elements).filter(_.forall(_.isTextual)).map(_.map(_.textValue))
}

/**
 * Names the files of a table. A name is the file's path relative to the table's location. If the file's partition is outside
 * this location, the name is an absolute path. A name has no scheme, host or escapes, because a URL can be written in several ways.
 */
case class TableFiles(location: Path) {

  private val root = location.toUri.getPath.stripSuffix("/") + "/"

  def nameOf(path: Path): String = path.toUri.getPath.stripPrefix(root)

  def folderOf(path: Path): String = TableFiles.folderOf(nameOf(path))

  /** Returns whether a path is the table's location or below it. */
  def contains(path: Path): Boolean = (path.toUri.getPath.stripSuffix("/") + "/").startsWith(root)

  def isBelow(name: String): Boolean = !name.startsWith("/")

  def pathOf(name: String): Path = {
    val of = location.toUri
    new Path(new URI(of.getScheme, of.getAuthority, if (isBelow(name)) root + TableFiles.checked(name) else TableFiles.checked(name), null, null))
  }
}

object TableFiles {
  /** Returns the directory in the name of a file, with a slash at the end; the empty string for the table's location. */
  def folderOf(name: String): String = name.take(name.lastIndexOf('/') + 1)

  /** Returns a name. Throws an error if a file elsewhere could have it, because anyone who can write into the table's directory can write names. */
  def checked(name: String): String =
    if (name.stripPrefix("/").split("/", -1).exists(Set("", ".", ".."))) throw new IOException(s"the name `$name`, which is not the path of a file") else name
}
