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
import org.apache.hadoop.fs.{FileStatus, FileSystem, Path}

import org.apache.spark.sql.bucketing.compat.Compat

/**
 * Files that come into an organized table and files that go out of it, as one change. What both are is written down before
 * the first file moves, in a folder of the table's location that no reader of the table looks into, see docs/explanation/replacing-rows.md:
 * {{{
 *   _replaced/20240131120000000000-9f2c41d0/begun       what comes and goes; the new files are moved in then
 *   _replaced/20240131120000000000-9f2c41d0/committed   the same file: from now on the table has the new files; the old ones are deleted then
 *   _replaced/20240131120000000000-9f2c41d0/done        nothing is left of the files that are gone
 * }}}
 * Where it is undone, the first one is renamed to `undone` before the first of the new files is deleted. Of several that rename
 * it, one does: what was committed is not undone, nor the other way round, whoever else is at work. The next one that is
 * committed deletes the record. Until then readers know which files never came, whenever they have listed them; and since when a listing
 * is no older than the last replacement, which, once it is done, hides no file: an old one that is there again counts.
 *
 * @param added names of the files that come, by TableFiles: a copy of a table, or one that was renamed, has a record of its own files
 * @param removed names of the files that go
 * @param created partitions that come, by the values of their columns
 * @param done when the old files, or the new ones of what is undone, were gone, milliseconds since 1970
 */
case class Replacement(
    folder: Path, added: Set[String], removed: Set[String], created: Seq[Map[String, String]], isCommitted: Boolean, done: Option[Long]) {

  /** Files that do not count, where they are. */
  def hidden: Set[String] = if (!isCommitted) added else if (done.isEmpty) removed else Set.empty

  /** Raises where it is not done and, in a folder with old files, new ones are missing: that is one of before, and was restored. */
  def checkRestored(found: String => Boolean): Unit = if (isCommitted && done.isEmpty) {
    def parent(name: String) = name.take(name.lastIndexOf('/') + 1)
    val old = removed.filter(found).map(parent)
    added.find(name => old(parent(name)) && !found(name)).foreach { missing =>
      throw Compat.refusal(s"Cannot tell which files of the table count: the replacement $folder is not finished, and its new file $missing is " +
        s"missing beside old ones, as in a backup of before. Expected all of its new files. ${Replacement.Instead}")
    }
  }
}

object Replacement {

  val Folder = "_replaced"

  private val Begun = "begun"
  private val Undone = "undone"
  private val Committed = "committed"
  private val Done = "done"
  private val Instead =
    s"Instead: restore the whole folder of the table, with $Folder, from one backup, or build the table again by dbt run --full-refresh."
  private val Stamp = DateTimeFormatter.ofPattern("yyyyMMddHHmmssSSSSSS")

  private case class Lists(added: Set[String], removed: Set[String], created: Seq[Map[String, String]])

  // What is written down never changes, and no name comes twice. The least recently read is forgotten.
  private val known = Collections.synchronizedMap(new java.util.LinkedHashMap[String, Lists](16, 0.75f, true) {
    override def removeEldestEntry(eldest: java.util.Map.Entry[String, Lists]): Boolean = size > 100
  })

  /** Those of a table that are not forgotten yet, the first one first: the last that is committed, and others that are not. */
  def records(location: Path, conf: Configuration): Seq[Replacement] = {
    val fs = location.getFileSystem(conf)
    folders(location, fs).flatMap(read(_, fs))
  }

  /** Their folders, the first one first. */
  def folders(location: Path, fs: FileSystem): Seq[Path] = {
    val found = children(new Path(location, Folder), fs)
    found.find(file => !file.isDirectory && !file.getPath.getName.startsWith(".")).foreach(file => throw damaged(file.getPath, "not a folder"))
    found.map(_.getPath).sortBy(_.getName)
  }

  /** Writes down what is going to come and to go; files may move when this has come back. */
  def begin(location: Path, fs: FileSystem, lists: Replacement): Replacement = {
    val json = Json.createObjectNode()
    def add(name: String, values: Iterable[String]) = values.foldLeft(json.putArray(name))(_ add _)
    add("added", lists.added)
    add("removed", lists.removed)
    lists.created.foldLeft(json.putArray("created")) { (array, values) =>
      values.foldLeft(array.addObject()) { case (partition, (column, value)) => partition.put(column, value) }
      array
    }
    val folder = new Path(new Path(location, Folder), nextName(location, fs))
    // Under its name it is there as a whole or not at all.
    val unfinished = s".$Begun"
    write(new Path(folder, unfinished), fs, json.toString)
    if (!renamed(folder, unfinished, Begun, fs)) throw new IOException(s"$folder/$unfinished cannot be renamed")
    lists.copy(folder = folder)
  }

  /** The time, or what follows the last one's, since the last is told by its name, and clocks differ; and what no other one has. */
  private def nextName(location: Path, fs: FileSystem): String = {
    val now = Stamp.format(LocalDateTime.now(ZoneOffset.UTC))
    val last = folders(location, fs).lastOption.map(_.getName.takeWhile(_.isDigit)).filter(_ >= now)
    s"${last.fold(now)(time => (BigInt(time) + 1).toString)}-${UUID.randomUUID.toString.take(8)}"
  }

  /** Whether it is committed by this: false where another one has undone it. */
  def commit(of: Replacement, fs: FileSystem): Boolean = renamed(of.folder, Begun, Committed, fs)

  /** Whether it is undone, by this or by another one: false where it is committed. */
  def undo(of: Replacement, fs: FileSystem): Boolean = renamed(of.folder, Begun, Undone, fs) || !fs.exists(new Path(of.folder, Committed))

  def finish(of: Replacement, fs: FileSystem): Unit = write(new Path(of.folder, Done), fs, "")

  /** None for one of which nothing has happened yet. */
  @tailrec
  private def read(folder: Path, fs: FileSystem): Option[Replacement] = {
    val found = children(folder, fs).map(file => file.getPath.getName -> file).toMap
    Seq(Begun, Undone, Committed, Done).flatMap(found.get).find(!_.isFile).foreach(file => throw damaged(file.getPath, "not a file"))
    val done = found.get(Done).map(_.getModificationTime)
    Seq(Begun, Undone, Committed).find(found.contains) match {
      case None => None
      // It hides nothing, so that what it lists need not be known.
      case Some(Committed) if done.nonEmpty =>
        val Lists(added, removed, created) = Try(lists(folder, Committed, fs)).toOption.flatten.getOrElse(Lists(Set.empty, Set.empty, Nil))
        Some(Replacement(folder, added, removed, created, isCommitted = true, done))
      case Some(name) => lists(folder, name, fs) match {
        case Some(Lists(added, removed, created)) => Some(Replacement(folder, added, removed, created, name == Committed, done))
        // It was renamed meanwhile.
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
    def list(name: String) = elements(json.get(name)).getOrElse(throw new IOException(s"without the list `$name`"))
    def text(node: JsonNode) = Option(node).flatMap(node => Option(node.textValue)).getOrElse(throw new IOException("a list of other things than names"))
    Lists(list("added").map(text).toSet, list("removed").map(text).toSet, list("created").map { partition =>
      partition.fieldNames.asScala.map(column => column -> text(partition.get(column))).toMap
    })
  }

  private def damaged(file: Path, found: String) =
    Compat.refusal(s"Cannot tell which files of the table count: $file is damaged: $found. Expected a record of files that are replaced. $Instead")

  private def children(folder: Path, fs: FileSystem): Seq[FileStatus] =
    try fs.listStatus(folder).toSeq catch { case _: FileNotFoundException => Nil }

  private def renamed(folder: Path, from: String, to: String, fs: FileSystem): Boolean =
    try fs.rename(new Path(folder, from), new Path(folder, to)) catch { case _: FileNotFoundException => false }

  private def write(file: Path, fs: FileSystem, text: String): Unit = {
    val stream = fs.create(file, true)
    try stream.write(text.getBytes(UTF_8)) finally stream.close()
  }

  private val Json = new ObjectMapper

  private def elements(json: JsonNode): Option[Seq[JsonNode]] = Option(json).filter(_.isArray).map(_.elements.asScala.toIndexedSeq)

  /** A JSON array of names; None for anything else. */
  def jsonNames(text: String): Option[Seq[String]] =
    Try(Json.readTree(text)).toOption.flatMap(elements).filter(_.forall(_.isTextual)).map(_.map(_.textValue))
}

/**
 * The files of a table, each by its name: its path below the table's location, or its whole path where a partition lies elsewhere;
 * without storage and escapes, which may be written in several ways.
 */
case class TableFiles(location: Path) {

  private val root = location.toUri.getPath.stripSuffix("/") + "/"

  def nameOf(path: Path): String = path.toUri.getPath.stripPrefix(root)

  def isBelow(name: String): Boolean = !name.startsWith("/")

  def pathOf(name: String): Path = {
    val of = location.toUri
    new Path(new URI(of.getScheme, of.getAuthority, if (isBelow(name)) root + name else name, null, null))
  }
}
