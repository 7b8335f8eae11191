package org.apache.spark.sql.bucketing
package write

import scala.util.Try

import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.catalyst.catalog.CatalogTable

/** The size or the number of the files of an organized table, from its properties. An invalid value is an error. */
class FileSizes(table: CatalogTable) {

  /** The number of rows of a file, if it does not depend on the existing files. */
  def rowsPerFile(bytesPerRow: => Double): Option[Long] =
    property("bucketing.rows_per_file").orElse(property("bucketing.target_file_size").map(bytes => (bytes / math.max(0.01, bytesPerRow)).toLong.max(1)))

  def numFiles: Option[Long] = property("bucketing.num_files")
  def filesPerPartition: Option[Long] = property("bucketing.files_per_partition")

  private def property(key: String): Option[Long] = table.properties.get(key).map { text =>
    Try(text.trim.toLong).toOption.filter(_ > 0).getOrElse(throw Compat.refusal(s"Cannot write files of ${table.identifier.quotedString}.",
      s"the table property '$key' = '$text'", "a positive integer", "set the property with ALTER TABLE ... SET TBLPROPERTIES; nothing has been written"))
  }
}

object FileSizes {
  def defaultRowsPerFile(bytesPerRow: Double): Long = (DefaultSize / math.max(0.01, bytesPerRow)).toLong.max(1)

  private val DefaultSize: Long = 128L << 20
}

/**
 * The number of files of each group of new rows.
 *
 * @param groups the number of rows of each group
 */
class FileCounts(table: CatalogTable, groups: Map[InsertedGroup, Long], bytesPerRow: () => Double) {

  private val Maximum = 100000
  private val sizes = new FileSizes(table)
  // Rows with NULL have their own file.
  private lazy val all = groups.collect { case (group, rows) if !group.isNull => rows }.sum
  private lazy val bytes = bytesPerRow()
  private lazy val rowsPerFile: Long = sizes.rowsPerFile(bytes).getOrElse(FileSizes.defaultRowsPerFile(bytes))

  def of(group: InsertedGroup): Int = if (group.isNull) 1 else {
    val rows = groups(group)
    val files = sizes.filesPerPartition.orElse(sizes.numFiles.map(number => math.round(number.toDouble * rows / all)))
      .getOrElse((rows + rowsPerFile - 1) / rowsPerFile)
    math.min(math.min(rows, math.max(1, files)), Int.MaxValue).toInt
  }

  def check(): Unit = {
    val files = groups.keysIterator.map(of(_).toLong).sum
    if (files > Maximum) throw Compat.refusal(s"Cannot write into ${table.identifier.quotedString}.",
      f"$files%,d files for ${groups.values.sum}%,d rows in ${groups.size}%,d groups", f"at most $Maximum%,d files in one statement",
      "write larger files, or use a coarser `partition_by`; nothing has been inserted")
  }
}
