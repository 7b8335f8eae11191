package org.apache.spark.sql.bucketing
package metadata

import java.net.URLDecoder

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.bucketing.hash.BucketHash
import org.apache.spark.sql.execution.datasources.PartitionedFile

/** What the names of data files and folders say. */
object BucketFiles {

  // Hive's own 000003_0, 000003_0_copy_1, and Spark's 00003_0_part-00003-<uuid>_00003.c000.snappy.parquet below Hive
  // tables. Spark's BucketingUtils.getBucketId reads bucket 0 from Hive's names, so it is not used. Trino reads the same.
  private val SparkName = """^part-.*_(\d{1,9})(?:\..*)?$""".r

  /** The bucket that a name claims under this layout. */
  def bucketOf(name: String, hash: BucketHash): Option[Int] = (hash, name) match {
    case (BucketHash.Hive, _) => bucketOfHiveName(name)
    case (BucketHash.Spark, SparkName(id)) => Some(id.toInt)
    case _ => None
  }

  // ^(\d{1,9})_\d+.*$ without a regular expression, which takes ten times as long: it is asked for each file of a query.
  private def bucketOfHiveName(name: String): Option[Int] = {
    val digits = name.indexOf('_')
    if (digits < 1 || digits > 9 || digits + 1 >= name.length || name.exists(LineEnds.contains(_))) None
    else if (isDigit(name.charAt(digits + 1)) && (0 until digits).forall(i => isDigit(name.charAt(i)))) Some(name.substring(0, digits).toInt)
    else None
  }

  private val LineEnds = "\n\r\u0085\u2028\u2029"

  private def isDigit(char: Char): Boolean = char >= '0' && char <= '9'

  // Cut from the URL, since a table may have a hundred thousand files and a path is costly to parse.
  def nameOf(file: String): String = {
    val name = file.substring(file.lastIndexOf('/') + 1)
    if (name.indexOf('%') < 0) name else URLDecoder.decode(name.replace("+", "%2B"), "UTF-8")
  }

  def nameOf(file: PartitionedFile): String = nameOf(file.urlEncodedPath)

  /** The folder of a file, to be compared as text. */
  def folderOf(file: String): String = folder(file.substring(0, file.lastIndexOf('/') max 0))

  def folderOf(file: PartitionedFile): String = folderOf(file.urlEncodedPath)

  /** A location of the metastore, to be compared with the folders of files. */
  def folderOf(location: Path, conf: Configuration): String =
    folder(SparkPath.fromPath(location.getFileSystem(conf).makeQualified(location)).urlEncoded)

  // Hadoop has two spellings of a URL without a host.
  private def folder(url: String): String = {
    val place = url.indexOf(":///")
    if (place < 0) url else url.substring(0, place + 1) + url.substring(place + 3)
  }

  /** Whether Spark reads a file. Files without a byte hold no rows, and no footer that could be opened. */
  def isData(file: FileStatus): Boolean = file.isFile && file.getLen > 0 && !isHidden(file.getPath.getName)

  def isHidden(name: String): Boolean = name.startsWith(".") || name.startsWith("_")
}
