package org.apache.spark.sql.bucketing
package metadata

import java.io.{FileNotFoundException, IOException}
import java.net.URLDecoder

import scala.util.matching.Regex

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
  private val SparkName = """^part-.*_(\d{1,9})(?:\..*)?$""".r

  /** Returns the bucket id in a file name. The position of the id in the name depends on the layout. */
  def bucketOf(name: String, hash: BucketHash): Option[Int] =
    if (hash.inHiveLayout) bucketOfHiveName(name).orElse(matched(TransactionName, name)) else matched(SparkName, name)

  /** Returns the name of a file of a bucket, in the form of Spark's names, without the extension. */
  def nameOf(bucket: Int, part: String, hash: BucketHash): String = (if (hash.inHiveLayout) f"$bucket%05d_0_" else "") + f"${part}_$bucket%05d"

  private def matched(pattern: Regex, name: String): Option[Int] = pattern.findFirstMatchIn(name).map(_.group(1).toInt)

  // Matches ^(\d{1,9})_\d+.*$ without a regular expression, which would take ten times as long for the files of a query.
  private def bucketOfHiveName(name: String): Option[Int] = {
    val digits = name.indexOf('_')
    if (digits < 1 || digits > 9 || digits + 1 >= name.length || name.exists(LineEnds.contains(_))) None
    else if (isDigit(name.charAt(digits + 1)) && (0 until digits).forall(i => isDigit(name.charAt(i)))) Some(name.substring(0, digits).toInt)
    else None
  }

  private val LineEnds = "\n\r\u0085\u2028\u2029"

  private def isDigit(char: Char): Boolean = char >= '0' && char <= '9'

  // Extracts the name from the text of the URL. A table may have 100,000 files, and parsing each as a Path would be slow.
  def nameOf(file: String): String = {
    val name = file.substring(file.lastIndexOf('/') + 1)
    if (name.indexOf('%') < 0) name else URLDecoder.decode(name.replace("+", "%2B"), "UTF-8")
  }

  def nameOf(file: PartitionedFile): String = nameOf(file.urlEncodedPath)

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
}
