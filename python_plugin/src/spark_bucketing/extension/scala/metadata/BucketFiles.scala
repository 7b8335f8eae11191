package org.apache.spark.sql.bucketing
package metadata

import java.io.{FileNotFoundException, IOException}
import java.net.URLDecoder

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, FileSystem, Path}

import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.bucketing.hash.BucketHash
import org.apache.spark.sql.execution.datasources.PartitionedFile

/** Parses the names of data files and directories, and lists directories. */
object BucketFiles {

  // Hive names its files 000003_0 or 000003_0_copy_1, and Trino 000003_0_<query id>. In Hive tables, Spark's names start in the
  // same way: 00003_0_part-00003-<uuid>_00003.c000.snappy.parquet. Spark's BucketingUtils.getBucketId cannot parse them: it
  // returns bucket 0 for Hive's names. Hive names files of transactional tables bucket_00003. Trino parses names in the same way.
  private val TransactionName = """^bucket_(\d{1,9})(?:_\d+)?$""".r

  /** Returns the bucket id in a file name. The position of the id in the name depends on the layout. */
  def bucketOf(name: String, hash: BucketHash): Option[Int] =
    if (hash.inHiveLayout) bucketOfHiveName(name).orElse(TransactionName.findFirstMatchIn(name).map(_.group(1).toInt)) else bucketOfSparkName(name)

  /** Returns the name of a file of a bucket, in the form of Spark's names, without the extension. */
  def nameOf(bucket: Int, part: String, hash: BucketHash): String = (if (hash.inHiveLayout) f"$bucket%05d_0_" else "") + f"${part}_$bucket%05d"

  // The next two methods match as regular expressions would, but in a tenth of the time: a query asks for the bucket of each of its files.

  // ^(\d{1,9})_\d+.*$
  private def bucketOfHiveName(name: String): Option[Int] = {
    val end = digitsEnd(name, 0)
    val isName = end < name.length && name.charAt(end) == '_' && digitsEnd(name, end + 1) > end + 1
    if (isName) number(name, 0, end) else None
  }

  // ^part-.*_(\d{1,9})(?:\..*)?$
  private def bucketOfSparkName(name: String): Option[Int] = if (!name.startsWith("part-")) None else
    Iterator.iterate(name.lastIndexOf('_'))(at => name.lastIndexOf('_', at - 1)).takeWhile(_ >= "part-".length).map { at =>
      val end = digitsEnd(name, at + 1)
      if (end == name.length || name.charAt(end) == '.') number(name, at + 1, end) else None
    }.find(_.isDefined).flatten

  private def digitsEnd(name: String, start: Int): Int = {
    var end = start
    while (end < name.length && name.charAt(end) >= '0' && name.charAt(end) <= '9') end += 1
    end
  }

  private def number(name: String, start: Int, end: Int): Option[Int] =
    if (end == start || end - start > 9) None else Some(Integer.parseInt(name, start, end, 10))

  // Extracts the name from the text of the URL. A table may have 100,000 files, and parsing each as a Path would be slow.
  def nameOf(file: String): String = {
    val name = file.substring(file.lastIndexOf('/') + 1)
    if (name.indexOf('%') < 0) name else URLDecoder.decode(name.replace("+", "%2B"), "UTF-8")
  }

  def nameOf(file: PartitionedFile): String = nameOf(file.urlEncodedPath)

  // Spark's file names have the id of the job that wrote them, so no other job writes a file with the same name.
  private val JobId = "part-[0-9]{1,9}-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}".r

  def isUnique(name: String): Boolean = JobId.findFirstIn(name).isDefined

  /** Whether to compare a file with its listing before it is read. On an object store, this needs a request, so only files of other engines are compared. */
  def mayChange(file: Path, conf: Configuration): Boolean = !isUnique(file.getName) || !ExclusiveFile.isRemote(file.getFileSystem(conf))

  /** Returns the directory of a file as text that can be compared. */
  def folderOf(file: String): String = folder(file.substring(0, file.lastIndexOf('/') max 0))

  def folderOf(file: PartitionedFile): String = folderOf(file.urlEncodedPath)

  /** Returns a location from the metastore as text that can be compared with the directories of files. */
  def folderOf(location: Path, conf: Configuration): String =
    folder(SparkPath.fromPath(location.getFileSystem(conf).makeQualified(location)).urlEncoded)

  // Hadoop writes a URL without a host in two ways: file:/ and file:///.
  private def folder(url: String): String = {
    val place = url.indexOf(":///")
    if (place < 0) url else url.substring(0, place + 1) + url.substring(place + 3)
  }

  /** Returns whether Spark reads a file. An empty file has neither rows nor a footer. */
  def isData(file: FileStatus): Boolean = file.isFile && file.getLen > 0 && !isHidden(file.getPath.getName)

  def isHidden(name: String): Boolean = name.startsWith(".") || name.startsWith("_")

  /**
   * Lists a directory; returns nothing if it does not exist. If another session deletes the directory in the meantime, some file systems throw
   * an IOException that is not a FileNotFoundException.
   */
  def children(folder: Path, fs: FileSystem): Seq[FileStatus] = try fs.listStatus(folder).toSeq catch {
    case _: FileNotFoundException => Nil
    case _: IOException if !fs.exists(folder) => Nil
  }

  /** Lists all files below a directory; returns nothing if it does not exist. */
  def filesBelow(folder: Path, fs: FileSystem): Seq[FileStatus] = try {
    val found = Seq.newBuilder[FileStatus]
    val files = fs.listFiles(folder, true)
    while (files.hasNext) found += files.next()
    found.result()
  } catch { case _: FileNotFoundException => Nil }
}
