package org.apache.spark.sql.bucketing
package write

import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.metadata.{FileStatistics, Replacement}
import org.apache.spark.sql.bucketing.read.FileStatisticsColumns
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Writes the file statistics of the new files of a replacement. */
class FileStatisticsWriter(session: SparkSession, table: CatalogTable) {

  private val columns = FileStatisticsColumns(table)
  private val schema = StructType(columns.attributes.filter(_.name != "path").map(column => StructField(column.name, column.dataType)))

  /**
   * @param folder the directory of the replacement
   * @param files the new files, the keys of their partitions, and their status at their final paths
   */
  def write(folder: Path, files: Seq[(NewFile, Seq[Any], FileStatus)]): Unit = if (files.nonEmpty) {
    // The session's setting for old dates applies to the rows, and may be an error.
    val conf = SQLConf.get.clone()
    Seq(SQLConf.PARQUET_REBASE_MODE_IN_WRITE, SQLConf.PARQUET_INT96_REBASE_MODE_IN_WRITE).foreach(entry => conf.setConfString(entry.key, "CORRECTED"))
    SQLConf.withExistingConf(conf)(writeAll(folder, files))
  }

  private def writeAll(folder: Path, files: Seq[(NewFile, Seq[Any], FileStatus)]): Unit = {
    val opener = FileOpener(session, new ParquetFileFormat, Map.empty, schema)
    val context = opener.context(0, 0)
    val part = new Path(folder, s"${Replacement.Staged}/statistics/part-00000${opener.extension(context)}")
    val project = UnsafeProjection.create(schema.map(_.dataType).toArray)
    val writer = opener.open(part, context)
    try files.foreach { case (file, partition, status) => writer.write(project(row(file, partition, status))) } finally writer.close()
    val fs = part.getFileSystem(Compat.hadoopConf(session))
    val parts = new Path(new Path(table.location), FileStatistics.Folder)
    fs.mkdirs(parts)
    if (!fs.rename(part.getParent, new Path(parts, folder.getName))) throw new java.io.IOException(s"${part.getParent} cannot be renamed to $parts/${folder.getName}")
  }

  private def row(file: NewFile, partition: Seq[Any], status: FileStatus): InternalRow = {
    def struct(of: StructType, values: Seq[Any]) = if (of.isEmpty) Nil else Seq(InternalRow.fromSeq(values))
    val values = partition.zip(columns.partition).map { case (value, column) => GroupKey.valueOf(value, column.dataType) }
    InternalRow.fromSeq(Seq(UTF8String.fromString(FileStatistics.lastNames(status.getPath, columns.partition.size)), status.getLen, status.getModificationTime * 1000)
      ++ struct(columns.partition, values) ++ struct(columns.implicitPartition, file.implicitPartition)
      ++ struct(columns.organized, Seq(file.lower)) ++ struct(columns.organized, Seq(file.upper))
      ++ Seq(if (columns.organized.isEmpty) null else file.nulls, file.sums.rows, Decimal(BigDecimal(file.sums.hashes), 38, 0)))
  }
}

object FileStatisticsWriter {

  /** Returns the hash of a row in the file statistics. Spark cannot hash some types, so their values are cast to strings. */
  def hash(columns: Seq[Attribute]): Expression = new XxHash64(columns.map { column =>
    if (column.dataType.existsRecursively(of => of.isInstanceOf[MapType] || of.typeName == "variant")) Cast(column, StringType, Some(SQLConf.get.sessionLocalTimeZone)) else column
  })
}
