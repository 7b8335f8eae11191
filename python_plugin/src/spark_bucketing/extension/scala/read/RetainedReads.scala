package org.apache.spark.sql.bucketing
package read

import java.io.{Closeable, FileNotFoundException}
import java.net.URI
import java.nio.file.NoSuchFileException

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.deploy.SparkHadoopUtil
import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.metadata.RetainedFiles
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.execution.datasources.{FileFormat, PartitionedFile}
import org.apache.spark.sql.execution.datasources.orc.OrcFileFormat
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types.StructType

/** Lets a query finish with the files that it was planned with, although a statement has replaced them since. See [[RetainedFiles]]. */
object RetainedReads {

  private type Read = PartitionedFile => Iterator[InternalRow]

  /** Returns a format that also finds replaced files. Another engine replaces only scans that have exactly Spark's format. */
  def of(session: SparkSession, table: CatalogTable, format: FileFormat): FileFormat =
    if (!Compat.columnarRules(session).forall(Compat.isOurs)) format
    else if (format.getClass == classOf[ParquetFileFormat]) new RetainedParquet(table.location)
    else if (format.getClass == classOf[OrcFileFormat]) new RetainedOrc(table.location)
    else format

  /** Returns the class of Spark's own format. */
  def stock(format: FileFormat): Class[_] = format match {
    case _: RetainedParquet => classOf[ParquetFileFormat]
    case _: RetainedOrc => classOf[OrcFileFormat]
    case other => other.getClass
  }

  /** Returns a function that reads a file, or the same file from where it is since a statement has replaced it. */
  def reading(format: FileFormat, read: Read): Read = format match {
    case of: Retained =>
      val table = of.table
      // A file may have columnar batches instead of rows.
      file => new RetainedRows(file, read.asInstanceOf[PartitionedFile => Iterator[AnyRef]], moved(table, file)).asInstanceOf[Iterator[InternalRow]]
    case _ => read
  }

  private def moved(table: URI, file: PartitionedFile): Option[PartitionedFile] = {
    val root = new Path(table)
    RetainedFiles(root, root.getFileSystem(SparkHadoopUtil.get.conf)).find(file.toPath).map(path => file.copy(filePath = SparkPath.fromPath(path)))
  }

  private trait Retained {
    def table: URI
  }

  private class RetainedParquet(override val table: URI) extends ParquetFileFormat with Retained {
    override def buildReaderWithPartitionValues(
        session: SparkSession, data: StructType, partition: StructType, required: StructType, filters: Seq[Filter], options: Map[String, String], conf: Configuration): Read =
      reading(this, super.buildReaderWithPartitionValues(session, data, partition, required, filters, options, conf))
  }

  private class RetainedOrc(override val table: URI) extends OrcFileFormat with Retained {
    override def buildReaderWithPartitionValues(
        session: SparkSession, data: StructType, partition: StructType, required: StructType, filters: Seq[Filter], options: Map[String, String], conf: Configuration): Read =
      reading(this, super.buildReaderWithPartitionValues(session, data, partition, required, filters, options, conf))
  }
}

/**
 * The rows or batches of a file. Some readers open a file again for each of its parts. If a statement has moved the file in the meantime, this iterator opens it
 * where it is now, and continues after what it has already returned.
 */
private class RetainedRows(file: PartitionedFile, read: PartitionedFile => Iterator[AnyRef], moved: => Option[PartitionedFile]) extends Iterator[AnyRef] with Closeable {

  private var isMoved = false
  private var returned = 0L
  private var rows: Iterator[AnyRef] = Iterator.empty
  try rows = read(file) catch { case NonFatal(error) => openMoved(error) }

  override def hasNext: Boolean = try rows.hasNext catch { case NonFatal(error) =>
    openMoved(error)
    rows.hasNext
  }

  override def next(): AnyRef = {
    val row = try rows.next() catch { case NonFatal(error) =>
      openMoved(error)
      rows.next()
    }
    returned += 1
    row
  }

  override def close(): Unit = rows match {
    case open: Closeable => open.close()
    case _ =>
  }

  private def openMoved(error: Throwable): Unit = {
    val found = (if (isMoved || !RetainedRows.isMissing(error)) None else moved).getOrElse(throw error)
    close()
    rows = read(found)
    isMoved = true
    (0L until returned).foreach(_ => rows.next())
  }
}

private object RetainedRows {
  def isMissing(error: Throwable): Boolean = Iterator.iterate(error)(_.getCause).takeWhile(_ != null).exists {
    case _: FileNotFoundException | _: NoSuchFileException => true
    case _ => false
  }
}
