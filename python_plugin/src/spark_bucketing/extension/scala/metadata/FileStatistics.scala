package org.apache.spark.sql.bucketing
package metadata

import java.util.Collections

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.types._
import org.apache.spark.util.ThreadUtils

/**
 * The statistics of one file of an organized table.
 *
 * @param bytes the length of the file in bytes
 * @param modified the modification time in milliseconds since 1970
 * @param checksum the sum of the hashes of all rows
 * @param columns the statistics of each column in `range_by` and `implicit_partition_by`, by name
 */
case class FileStats(bytes: Long, modified: Long, rows: Long, checksum: Decimal, columns: Map[String, ColumnStats]) {
  def column(of: StructField): ColumnStats = columns(of.name)
}

/**
 * The statistics of one column in one file.
 *
 * @param lower the minimum in Spark's internal format, or null if all values are NULL
 * @param upper the maximum in Spark's internal format, or null if all values are NULL
 * @param nulls the number of rows that have NULL in this column
 */
case class ColumnStats(dataType: DataType, lower: Any, upper: Any, nulls: Long) {

  /**
   * Returns a value that is not less than any value in the file. The statistics may have timestamps in milliseconds, although
   * the files of the table have timestamps in microseconds.
   */
  def last: Any = (dataType, upper) match {
    case (TimestampType | TimestampNTZType, micros: Long) => math.min(micros, Long.MaxValue - 999) + 999
    case _ => upper
  }
}

/**
 * The file statistics of a table. Statistics are in a subdirectory of the table's location, which readers of the table skip. See
 * docs/explanation/file-layout.md. Statistics apply to a file only if its length and modification time match.
 */
class FileStatistics(parts: Set[Path], files: Map[String, Seq[FileStats]], depth: Int) {

  /**
   * Returns the statistics of a file, with one element for each combination of implicit partition values in the file. The
   * result is empty if the statistics do not cover the file.
   */
  def of(file: FileStatus): Seq[FileStats] = files.getOrElse(FileStatistics.lastNames(file.getPath, depth), Nil)
    .filter(mapped => mapped.bytes == file.getLen && mapped.modified == file.getModificationTime).distinct

  def isEmpty: Boolean = files.isEmpty

  /** Returns the average size of a row in files, if there are rows. */
  def bytesPerRow(files: Seq[FileStatus]): Option[Double] = {
    val known = files.map(file => (of(file).map(_.rows).sum, file.getLen)).filter(_._1 > 0)
    if (known.isEmpty) None else Some(known.map(_._2).sum.toDouble / known.map(_._1).sum)
  }

  /** Returns the statistics in these files. Reads only new files, because the others never change. After a deletion, reads all files again. */
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

  /** The table properties that state which columns have file statistics. Each value is a JSON array of column names. */
  val RangeBy = "bucketing.range_by"
  val ImplicitPartitionBy = "bucketing.implicit_partition_by"

  val Folder = "_file_statistics"

  // Caches statistics by table location and depth. Evicts the least recently used statistics.
  private val known = Collections.synchronizedMap(new java.util.LinkedHashMap[(Path, Int), FileStatistics](16, 0.75f, true) {
    override def removeEldestEntry(eldest: java.util.Map.Entry[(Path, Int), FileStatistics]): Boolean = size > 100
  })

  private def empty(depth: Int) = new FileStatistics(Set.empty, Map.empty, depth)

  def isKept(properties: Map[String, String]): Boolean = Seq(RangeBy, ImplicitPartitionBy).exists(properties.contains)

  /**
   * Reads the file statistics of a table, and caches the statistics files that were read.
   *
   * @return the statistics, or None if they are missing or unreadable, so that queries read all files
   */
  def read(session: SparkSession, table: CatalogTable): Option[FileStatistics] = try {
    val (location, depth) = (new Path(table.location), table.partitionColumnNames.size)
    val map = known.getOrDefault((location, depth), empty(depth)).of(partsOf(Compat.hadoopConf(session), new Path(location, Folder)), rows(session, _))
    known.put((location, depth), map)
    Some(map).filterNot(_.isEmpty)
  } catch {
    case NonFatal(error) =>
      logWarning(s"Cannot read the file statistics of the table in ${new Path(table.location)}. Queries read all files of the table. " +
        "Instead: repair the statistics with `spark-bucketing table stats --repair`.", error)
      None
  }

  private def partsOf(conf: Configuration, folder: Path): Seq[FileStatus] = {
    val fs = folder.getFileSystem(conf)
    def inside(path: Path) = BucketFiles.children(path, fs).filterNot(file => BucketFiles.isHidden(file.getPath.getName))
    val (folders, files) = inside(folder).partition(_.isDirectory)
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

  /** Returns the last path segments of a file's URL, in the format of the column `_metadata.file_path`. */
  def lastNames(path: Path, depth: Int): String =
    path.toUri.toString.split('/').takeRight(depth + 1).mkString("/")
}
