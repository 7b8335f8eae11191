package org.apache.spark.sql.bucketing
package metadata

import java.io.{FileNotFoundException, InputStream, IOException}
import java.net.URI
import java.nio.charset.StandardCharsets.UTF_8
import java.time.{LocalDateTime, ZoneOffset}
import java.time.format.DateTimeFormatter
import java.util.{Collections, UUID}

import scala.annotation.tailrec
import scala.jdk.CollectionConverters._
import scala.util.Try
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}

import org.apache.spark.sql.bucketing.compat.Compat

/**
 * An atomic replacement of files in a table. Before the first file moves, a record lists the old and new files.
 * The record is in a subdirectory of the table's location, which readers of the table skip. See
 * docs/explanation/recovery.md:
 * {{{
 *   _replaced/20240131120000000000-9f2c41d0/files       the new files, until they move into the table
 *   _replaced/20240131120000000000-9f2c41d0/started     lists the files; then the new files move into the table
 *   _replaced/20240131120000000000-9f2c41d0/committed   the same file, renamed: the table has the new files; then the old files are deleted
 *   _replaced/20240131120000000000-9f2c41d0/done        all old files are deleted
 *   _replaced/20240131120000000000-9f2c41d0/merged      optional: the id of the merged rows, written before the commit
 * }}}
 * To undo a replacement, a run renames `started` to `undone` before it deletes the new files. Only one rename of `started` can
 * succeed. Concurrent runs therefore cannot undo a committed replacement, or commit an undone one.
 *
 * The next committed replacement deletes the record. Until then, readers ignore the new files of an undone replacement, even
 * if an old listing contains them. Readers also detect a listing that is older than the last replacement. Once a replacement
 * is done, readers ignore none of its files. If an old file is restored, it is therefore part of the table again.
 *
 * @param added the names of the new files as in [[TableFiles]]; they stay valid if the table is copied or renamed
 * @param removed the names of the old files
 * @param created the partition values of new partitions
 * @param isCommitted whether the new files, and no longer the old files, belong to the table
 * @param done the time when all old files had been deleted, in milliseconds since 1970
 */
case class Replacement(
    folder: Path, added: Set[String], removed: Set[String], created: Seq[Map[String, String]], isCommitted: Boolean, done: Option[Long]) {

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

object Replacement {

  val Folder = "_replaced"

  /** The directory of the new files, in the directory of the record. */
  val Staged = "files"

  private val Started = "started"
  private val Undone = "undone"
  private val Committed = "committed"
  private val Done = "done"
  private val Merged = "merged"
  private val Instead =
    s"restore the whole directory of the table, including $Folder, from one backup, or rebuild the table with `dbt run --full-refresh`"
  private val Stamp = DateTimeFormatter.ofPattern("yyyyMMddHHmmssSSSSSS")

  private case class Lists(added: Set[String], removed: Set[String], created: Seq[Map[String, String]])

  // Caches the lists of files, because a record never changes and its name is unique. Evicts the least recently used record.
  private val known = Collections.synchronizedMap(new java.util.LinkedHashMap[String, Lists](16, 0.75f, true) {
    override def removeEldestEntry(eldest: java.util.Map.Entry[String, Lists]): Boolean = size > 100
  })

  /** Returns the last committed replacement of a table, and all replacements that are not committed, oldest first. */
  def records(location: Path, conf: Configuration): Seq[Replacement] = {
    val fs = location.getFileSystem(conf)
    folders(location, fs).flatMap(read(_, fs))
  }

  /** Returns the directories that contain the replacement records of a table, oldest first. */
  def folders(location: Path, fs: FileSystem): Seq[Path] = {
    val found = BucketFiles.children(new Path(location, Folder), fs)
    found.find(file => !file.isDirectory && !file.getPath.getName.startsWith(".")).foreach(file => throw damaged(file.getPath, "not a directory"))
    found.map(_.getPath).sortBy(_.getName)
  }

  /** Creates the directory of a replacement. */
  def newFolder(location: Path, fs: FileSystem): Path = {
    val folder = new Path(new Path(location, Folder), nextName(location, fs))
    fs.mkdirs(folder)
    folder
  }

  /** Writes the record of a replacement. No file may be moved before this method returns. */
  def begin(fs: FileSystem, lists: Replacement): Unit = {
    val json = Json.createObjectNode()
    def add(name: String, values: Iterable[String]) = values.foldLeft(json.putArray(name))(_ add _)
    add("added", lists.added)
    add("removed", lists.removed)
    lists.created.foldLeft(json.putArray("created")) { (array, values) =>
      values.foldLeft(array.addObject()) { case (partition, (column, value)) => partition.put(column, value) }
      array
    }
    // The rename makes the complete record visible in a single step.
    val unfinished = s".$Started"
    write(new Path(lists.folder, unfinished), fs, json.toString)
    if (!renamed(lists.folder, unfinished, Started, fs)) throw new IOException(s"${lists.folder}/$unfinished cannot be renamed")
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

  /** Deletes a directory without a record. */
  def discard(folder: Path, fs: FileSystem): Unit =
    if (!BucketFiles.children(folder, fs).exists(file => Set(Started, Undone, Committed)(file.getPath.getName))) fs.delete(folder, true)

  def isStarted(of: Replacement, fs: FileSystem): Boolean = fs.exists(new Path(of.folder, Started))

  /** Returns when a replacement that is not done started, in milliseconds since 1970. */
  def startOf(of: Replacement, fs: FileSystem): Long =
    BucketFiles.children(of.folder, fs).filterNot(_.getPath.getName == Staged).map(_.getModificationTime).foldLeft(System.currentTimeMillis)(_ min _)

  /** Commits a replacement. Returns false if another run has undone it. */
  def commit(of: Replacement, fs: FileSystem): Boolean = renamed(of.folder, Started, Committed, fs)

  /** Undoes a replacement, unless another run has already undone it. Returns false if it is committed. */
  def undo(of: Replacement, fs: FileSystem): Boolean = renamed(of.folder, Started, Undone, fs) || !fs.exists(new Path(of.folder, Committed))

  def finish(of: Replacement, fs: FileSystem): Unit = {
    fs.delete(new Path(of.folder, Staged), true)
    write(new Path(of.folder, Done), fs, "")
  }

  /** Writes the id of the rows that a replacement merges. */
  def writeMerged(folder: Path, fs: FileSystem, id: String): Unit = write(new Path(folder, Merged), fs, id)

  /** Returns the id of the rows that a replacement has merged, if it has one. */
  def merged(folder: Path, fs: FileSystem): Option[String] = {
    val file = new Path(folder, Merged)
    if (!fs.exists(file)) None else {
      val stream = fs.open(file)
      try Some(scala.io.Source.fromInputStream(stream, UTF_8.name).mkString) finally stream.close()
    }
  }

  /** Reads a record. Returns None if the record has not been written completely. */
  @tailrec
  private def read(folder: Path, fs: FileSystem): Option[Replacement] = {
    val found = BucketFiles.children(folder, fs).map(file => file.getPath.getName -> file).toMap
    Seq(Started, Undone, Committed, Done).flatMap(found.get).find(!_.isFile).foreach(file => throw damaged(file.getPath, "not a file"))
    val done = found.get(Done).map(_.getModificationTime)
    Seq(Started, Undone, Committed).find(found.contains) match {
      case None => None
      // Readers ignore no files of a replacement that is done, so its lists of files may be missing.
      case Some(Committed) if done.nonEmpty =>
        val Lists(added, removed, created) = Try(lists(folder, Committed, fs)).toOption.flatten.getOrElse(Lists(Set.empty, Set.empty, Nil))
        Some(Replacement(folder, added, removed, created, isCommitted = true, done))
      case Some(name) => lists(folder, name, fs) match {
        case Some(Lists(added, removed, created)) => Some(Replacement(folder, added, removed, created, name == Committed, done))
        // Another run has renamed the file in the meantime.
        case None => read(folder, fs)
      }
    }
  }

  private def lists(folder: Path, name: String, fs: FileSystem): Option[Lists] =
    Option(known.get(folder.toString)).orElse {
      val file = new Path(folder, name)
      try {
        val lists = parse(file, fs)
        known.put(folder.toString, lists)
        Some(lists)
      } catch {
        case _: FileNotFoundException if !fs.exists(file) => None
        case NonFatal(error) => throw damaged(file, Option(error.getMessage).getOrElse(error.toString).linesIterator.take(1).mkString)
      }
    }

  private def parse(file: Path, fs: FileSystem): Lists = {
    val stream = fs.open(file)
    val json = try Json.readTree(stream: InputStream) finally stream.close()
    def list(name: String) = elements(json.get(name)).getOrElse(throw new IOException(s"the list `$name` is missing"))
    def text(node: JsonNode) = Option(node).flatMap(node => Option(node.textValue)).getOrElse(throw new IOException("a list contains a value that is not a name"))
    Lists(list("added").map(text).toSet, list("removed").map(text).toSet, list("created").map { partition =>
      partition.fieldNames.asScala.map(column => column -> text(partition.get(column))).toMap
    })
  }

  private def damaged(file: Path, found: String) =
    Compat.refusal(s"Cannot determine the current files of the table, because $file is damaged.", found, "a record of replaced files", Instead)

  private def renamed(folder: Path, from: String, to: String, fs: FileSystem): Boolean =
    try fs.rename(new Path(folder, from), new Path(folder, to)) catch { case _: FileNotFoundException => false }

  private def write(file: Path, fs: FileSystem, text: String): Unit = {
    val stream = fs.create(file, true)
    try stream.write(text.getBytes(UTF_8)) finally stream.close()
  }

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

  /** Returns whether a path is the table's location or below it. */
  def contains(path: Path): Boolean = (path.toUri.getPath.stripSuffix("/") + "/").startsWith(root)

  def isBelow(name: String): Boolean = !name.startsWith("/")

  def pathOf(name: String): Path = {
    val of = location.toUri
    new Path(new URI(of.getScheme, of.getAuthority, if (isBelow(name)) root + name else name, null, null))
  }
}
