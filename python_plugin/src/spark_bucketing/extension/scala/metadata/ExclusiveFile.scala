package org.apache.spark.sql.bucketing
package metadata

import java.io.{File, IOException}
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Files
import java.util.UUID

import scala.util.Try
import scala.util.control.NonFatal

import org.apache.hadoop.fs.{FileAlreadyExistsException, FileSystem, FilterFileSystem, FSDataOutputStream, Path, RawLocalFileSystem}

/**
 * Creates small files. A file is either complete or does not exist, even after a crash. If several processes create the same file exclusively, one of them
 * succeeds, and the others fail. Storage systems have different operations for that:
 *
 *  - local file systems: a hard link to a complete hidden file
 *  - S3A with the path capability `fs.option.create.conditional.overwrite` (Hadoop 3.4.2 and later): one conditional PUT
 *  - Google Cloud Storage: a file that is created without overwriting is stored when it is closed, if the object does not exist
 *  - HDFS, and Azure Data Lake Storage with a hierarchical namespace: a rename, which fails if the target exists
 *
 * No exclusive operation is known for other storage systems.
 */
object ExclusiveFile {

  private val Conditional = "fs.option.create.conditional.overwrite"
  // Without a request for a directory with the name of the file.
  private val Overwrite = "fs.s3a.create.performance"
  // ABFS has ACLs if the account has a hierarchical namespace. Otherwise, its renames are copies.
  private val Acls = "fs.capability.paths.acls"
  private val Hdfs = Set("hdfs", "webhdfs", "swebhdfs")
  private val Abfs = Set("abfs", "abfss")

  /** Returns whether files in a directory can be created exclusively. */
  def isSupported(folder: Path, fs: FileSystem): Boolean = of(folder, fs).nonEmpty

  /** Creates a file. Throws an error if it exists. After another error, the file may exist nevertheless, because the answer of the storage may be lost. */
  def create(file: Path, text: String, fs: FileSystem): Unit =
    of(file.getParent, fs).getOrElse(throw new UnsupportedOperationException(s"$file cannot be created exclusively"))(file, text)

  /** Creates or replaces a file that no other process creates. */
  def publish(file: Path, text: String, fs: FileSystem): Unit =
    if (hasCapability(file, Conditional, fs) || schemeOf(fs) == "gs") write(file, text, fs, overwrites = true)
    else inHiddenFile(file, text, fs)(hidden => if (!fs.rename(hidden, file)) throw new IOException(s"$hidden cannot be renamed to $file"))

  /** Writes a file. On file systems other than object stores, a crash can leave it incomplete. */
  def write(file: Path, text: String, fs: FileSystem, overwrites: Boolean): Unit =
    write(if (overwrites && isS3A(fs)) build(file, Overwrite, fs) else fs.create(file, overwrites), text)

  private def build(file: Path, option: String, fs: FileSystem): FSDataOutputStream =
    fs.createFile(file).overwrite(true).recursive().opt(option, true).build().asInstanceOf[FSDataOutputStream]

  private def write(stream: FSDataOutputStream, text: String): Unit = try stream.write(text.getBytes(UTF_8)) finally stream.close()

  def isS3A(fs: FileSystem): Boolean = fs.getUri.getScheme == "s3a"

  /** Returns whether the status of a file needs a request to an object store, as far as the name of the storage tells. */
  def isRemote(fs: FileSystem): Boolean = !Set("file", "viewfs")(schemeOf(fs)) && !Hdfs(schemeOf(fs))

  /** Returns whether the storage itself creates a file exclusively, so that a decision is the only one. */
  def isConditional(file: Path, fs: FileSystem): Boolean = hasCapability(file, Conditional, fs)

  /** Returns whether the storage moves files without copying them. */
  def movesFiles(folder: Path, fs: FileSystem): Boolean = schemeOf(fs) match {
    case "viewfs" =>
      val resolved = fs.resolvePath(folder)
      movesFiles(resolved, resolved.getFileSystem(fs.getConf))
    case scheme => scheme == "file" || Hdfs(scheme) || Abfs(scheme) && hasCapability(folder, Acls, fs)
  }

  private type Create = (Path, String) => Unit

  private def of(folder: Path, fs: FileSystem): Option[Create] = schemeOf(fs) match {
    case _ if hasCapability(folder, Conditional, fs) => Some((file: Path, text: String) => {
      write(build(file, Conditional, fs), text)
    })
    case "file" => local(fs).filter(raw => hasLinks(raw.pathToFile(folder))).map(raw => (file: Path, text: String) => inHiddenFile(file, text, fs) { hidden =>
      Files.createLink(raw.pathToFile(file).toPath, raw.pathToFile(hidden).toPath)
    })
    case "gs" => Some((file: Path, text: String) => write(file, text, fs, overwrites = false))
    case "viewfs" =>
      val resolved = fs.resolvePath(folder)
      of(resolved, resolved.getFileSystem(fs.getConf)).map(create => (file: Path, text: String) => create(new Path(resolved, file.getName), text))
    case scheme if Hdfs(scheme) || Abfs(scheme) && hasCapability(folder, Acls, fs) => Some((file: Path, text: String) => inHiddenFile(file, text, fs) { hidden =>
      if (!fs.rename(hidden, file)) throw new FileAlreadyExistsException(file.toString)
    })
    case _ => None
  }

  private def schemeOf(fs: FileSystem): String = Try(fs.getScheme).getOrElse(fs.getUri.getScheme)

  private def hasCapability(path: Path, name: String, fs: FileSystem): Boolean = Try(fs.hasPathCapability(path, name)).getOrElse(false)

  private def local(fs: FileSystem): Option[RawLocalFileSystem] = fs match {
    case raw: RawLocalFileSystem => Some(raw)
    case filtered: FilterFileSystem => local(filtered.getRawFileSystem)
    case _ => None
  }

  private def hasLinks(folder: File): Boolean = {
    val (file, link) = (hiddenName("link"), hiddenName("link"))
    def path(name: String) = new File(folder, name).toPath
    try {
      Files.createFile(path(file))
      Files.createLink(path(link), path(file))
      true
    } catch { case _: UnsupportedOperationException | _: IOException => false } finally Seq(file, link).foreach(name => Try(Files.deleteIfExists(path(name))))
  }

  private def hiddenName(name: String): String = s".$name-${UUID.randomUUID}"

  private def inHiddenFile(file: Path, text: String, fs: FileSystem)(use: Path => Unit): Unit = {
    val hidden = new Path(file.getParent, hiddenName(file.getName))
    try {
      write(hidden, text, fs, overwrites = true)
      use(hidden)
    } finally try fs.delete(hidden, false) catch { case NonFatal(_) => }
  }
}
