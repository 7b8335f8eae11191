package org.apache.spark.sql.bucketing
package metadata

import java.io.FileNotFoundException
import java.util.Collections

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types._
import org.apache.spark.util.ThreadUtils

/**
 * What the file statistics of an organized table says of one file: its length and time, and of the columns that it is organized
 * and implicitPartition by the least and greatest value, the NULLs and the rows.
 */
case class FileStats(bytes: Long, modified: Long, rows: Long, checksum: Decimal, columns: Map[String, ColumnStats]) {
  def column(of: StructField): ColumnStats = columns(of.name)
}

/** @param lower a value of this type as Spark has it in rows; null where all are NULL */
case class ColumnStats(dataType: DataType, lower: Any, upper: Any, nulls: Long) {

  /** No value is above. A session may write timestamps in milliseconds, into the map as well, and the table's files may have microseconds. */
  def last: Any = (dataType, upper) match {
    case (TimestampType | TimestampNTZType, micros: Long) => math.min(micros, Long.MaxValue - 999) + 999
    case _ => upper
  }
}

/**
 * The file statistics of a table, docs/explanation/file-layout.md: rows about files, in a folder of the table's location that no reader looks into.
 * Nothing is believed of a file that has another length or time than the row about it.
 */
class FileStatistics(parts: Set[Path], files: Map[String, Seq[FileStats]], depth: Int) {

  /** What is known of this very file: nothing, or something for each set of values that its rows have of the implicitPartition columns. */
  def of(file: FileStatus): Seq[FileStats] = files.getOrElse(FileStatistics.lastNames(file.getPath, depth), Nil)
    .filter(mapped => mapped.bytes == file.getLen && mapped.modified == file.getModificationTime).distinct

  def isEmpty: Boolean = files.isEmpty

  /** As these parts have it: none of them changes, so that those that have been read are not read again, unless one of them is gone. */
  private def of(now: Seq[FileStatus], read: Seq[FileStatus] => Seq[(String, FileStats)]): FileStatistics = {
    val paths = now.map(_.getPath).toSet
    if (!parts.subsetOf(paths)) FileStatistics.empty(depth).of(now, read)
    else if (parts.size == paths.size) this
    else new FileStatistics(paths, read(now.filterNot(part => parts(part.getPath))).foldLeft(files) { case (all, (name, file)) =>
      all.updated(name, all.getOrElse(name, Nil) :+ file)
    }, depth)
  }
}

object FileStatistics extends Logging {

  /** Properties of a table that has a map: names of columns, in JSON. */
  val RangeBy = "bucketing.range_by"
  val ImplicitPartitionBy = "bucketing.implicit_partition_by"

  val Folder = "_file_statistics"

  // By location and depth. The least recently read ones are forgotten.
  private val known = Collections.synchronizedMap(new java.util.LinkedHashMap[(Path, Int), FileStatistics](16, 0.75f, true) {
    override def removeEldestEntry(eldest: java.util.Map.Entry[(Path, Int), FileStatistics]): Boolean = size > 100
  })

  private def empty(depth: Int) = new FileStatistics(Set.empty, Map.empty, depth)

  def isKept(properties: Map[String, String]): Boolean = Seq(RangeBy, ImplicitPartitionBy).exists(properties.contains)

  /**
   * Reads the map of a table, of which a session keeps what it has read.
   *
   * @param depth how many folders there are between the table's location and its files
   * @return None where there is no map that can be read: all files are read then, as without one
   */
  def read(session: SparkSession, location: Path, depth: Int): Option[FileStatistics] = try {
    val map = known.getOrDefault((location, depth), empty(depth)).of(partsOf(Compat.hadoopConf(session), new Path(location, Folder)), rows(session, _))
    known.put((location, depth), map)
    Some(map).filterNot(_.isEmpty)
  } catch {
    case NonFatal(error) =>
      logWarning(s"The file statistics of $location cannot be read: all files of the table are.", error)
      None
  }

  private def partsOf(conf: Configuration, folder: Path): Seq[FileStatus] = {
    val fs = folder.getFileSystem(conf)
    def inside(path: Path) = fs.listStatus(path).toSeq.filterNot(file => BucketFiles.isHidden(file.getPath.getName))
    val (folders, files) = (try inside(folder) catch { case _: FileNotFoundException => Nil }).partition(_.isDirectory)
    files ++ ThreadUtils.parmap(folders, "file-statistics", 16)(part => inside(part.getPath).filter(_.isFile)).flatten
  }

  private def rows(session: SparkSession, parts: Seq[FileStatus]): Seq[(String, FileStats)] =
    Compat.rowsOfParquet(session, parts).flatMap { case (schema, rows) => rows.map(mapped(schema)) }

  private def mapped(schema: StructType)(row: InternalRow): (String, FileStats) = {
    def at(name: String) = schema.fieldIndex(name)
    def values(name: String): Seq[(StructField, Any)] = schema.find(_.name == name).map(_.dataType).toSeq.collect { case columns: StructType =>
      columns.fields.toSeq.zip(row.getStruct(at(name), columns.size).toSeq(columns))
    }.flatten
    val rows = row.getLong(at("rows"))
    val implicitPartition = values("implicit_partition").map { case (column, value) => column.name -> ColumnStats(column.dataType, value, value, if (value == null) rows else 0) }
    val organized = values("lower").zip(values("upper")).map { case ((column, lower), (_, upper)) =>
      column.name -> ColumnStats(column.dataType, lower, upper, row.getLong(at("nulls")))
    }
    row.getUTF8String(at("file")).toString -> FileStats(row.getLong(at("bytes")), row.getLong(at("modified")) / 1000, rows,
      row.getDecimal(at("checksum"), 38, 0), (implicitPartition ++ organized).toMap)
  }

  /** The end of a file's URL, as the column `_metadata.file_path` has it. */
  def lastNames(path: Path, depth: Int): String =
    path.toUri.toString.split('/').takeRight(depth + 1).mkString("/")
}
