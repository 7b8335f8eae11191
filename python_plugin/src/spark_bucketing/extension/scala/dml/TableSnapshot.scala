package org.apache.spark.sql.bucketing
package dml

import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.metadata.{FileStatistics, FileStats}
import org.apache.spark.sql.bucketing.read.{FileStatisticsColumns, OrganizedFiles, SealedSpecs}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.execution.datasources.HadoopFsRelation
import org.apache.spark.sql.types.{BinaryType, DataType, DoubleType, FloatType}

/**
 * A file of an organized table.
 *
 * @param id its position in the snapshot
 * @param partition its partition values
 * @param known its statistics; None if they are missing or ambiguous, so that the file may contain any row of its partition
 * @param cell the place of its rows
 */
case class TableFile(id: Int, status: FileStatus, partition: InternalRow, known: Option[FileStats], cell: Cell)

/** The files of an organized table at the start of a statement. */
class TableSnapshot(val table: CatalogTable, val columns: FileStatisticsColumns, val files: IndexedSeq[TableFile], val ranges: FileRanges) {

  private val (knownRows, knownBytes, knownFiles) = files.foldLeft((0L, 0L, 0L)) { case ((rows, bytes, number), file) =>
    file.known.fold((rows, bytes, number))(stats => (rows + stats.rows, bytes + stats.bytes, number + 1))
  }

  /** The average size of a row in a file. Without files, an estimate from the column types. */
  val bytesPerRow: Double = if (knownRows > 0) math.max(0.01, knownBytes.toDouble / knownRows) else table.schema.defaultSize.toDouble

  /** The target number of rows of a file. Without a property, files keep their average size. */
  val rowsPerFile: Long = {
    def property(key: String) = table.properties.get(key).flatMap(text => scala.util.Try(text.trim.toLong).toOption).filter(_ > 0)
    property(TableSnapshot.RowsPerFile)
      .orElse(property(TableSnapshot.TargetFileSize).map(bytes => (bytes / bytesPerRow).toLong))
      .getOrElse(if (knownFiles > 0) knownRows / knownFiles else (TableSnapshot.DefaultSize / bytesPerRow).toLong)
      .max(1)
  }
}

object TableSnapshot {

  /** Table properties with the target size of a file. */
  val RowsPerFile = "bucketing.rows_per_file"
  val TargetFileSize = "bucketing.target_file_size"

  private val DefaultSize = 128L << 20

  def now(session: SparkSession, table: CatalogTable, relation: HadoopFsRelation): TableSnapshot = {
    val columns = FileStatisticsColumns(table)
    // As for queries, statistics do not count if this session may read other values.
    val isSame = SealedSpecs.otherColumns(relation).isEmpty && columns.organized.forall(column => OrganizedFiles.isTheSameForAll(table, column.dataType))
    val statistics = if (isSame) FileStatistics.read(session, new Path(table.location), table.partitionColumnNames.size) else None
    val listed = for (directory <- OrganizedFiles.now(session, table); file <- directory.files) yield (directory.values, file.fileStatus)
    listed.groupBy(_._2.getPath).collectFirst { case (path, of) if of.size > 1 => path.getParent -> of.size }.foreach { case (folder, number) =>
      throw Compat.refusal(s"Cannot change rows of ${table.identifier.quotedString}.", s"$number partitions in the directory $folder",
        "a separate directory for each partition", "move the rows of each partition into a separate directory, for example with INSERT OVERWRITE, and run " +
        "it again; nothing has been replaced")
    }
    val known = listed.map { case (_, status) =>
      statistics.fold(Seq.empty[FileStats])(_.of(status)) match {
        case Seq(one) if columns.describe(one) => Some(one)
        case _ => None
      }
    }
    val groups = listed.zip(known).map { case ((partition, _), stats) => GroupKey.of(columns, partition, stats) }
    val column = columns.organized.headOption
    val ranges = FileRanges(column, groups.zip(known).collect { case (group, Some(stats)) => group -> stats })
    val files = listed.zip(known).zip(groups).zipWithIndex.map { case ((((partition, status), stats), group), id) =>
      val range = stats.fold(Cell.Unknown)(of => column.fold(1)(range => ranges.rangeOf(group, of.column(range))))
      TableFile(id, status, partition, stats, Cell(group, range))
    }
    new TableSnapshot(table, columns, files.toIndexedSeq, ranges)
  }
}

/** The values of the partition and implicit partition columns of a group of files, in a form that can be compared. */
object GroupKey {

  def of(columns: FileStatisticsColumns, partition: InternalRow, stats: Option[FileStats]): Seq[Any] =
    of(partition.copy().toSeq(columns.partition) ++ columns.implicitPartition.map(column => stats.map(_.column(column).lower).orNull))

  /** Equal values have equal keys: NaN is equal to itself, -0.0 is equal to 0.0, and arrays of the same bytes are equal. */
  def of(values: Seq[Any]): Seq[Any] = values.map {
    case value: Double => java.lang.Double.doubleToLongBits(value + 0.0)
    case value: Float => java.lang.Float.floatToIntBits(value + 0.0f)
    case bytes: Array[Byte] => bytes.toSeq
    case other => other
  }

  /** Returns the value of a key in Spark's internal format. */
  def valueOf(key: Any, dataType: DataType): Any = (dataType, key) match {
    case (DoubleType, bits: Long) => java.lang.Double.longBitsToDouble(bits)
    case (FloatType, bits: Int) => java.lang.Float.intBitsToFloat(bits)
    case (BinaryType, bytes: Seq[_]) => bytes.asInstanceOf[Seq[Byte]].toArray
    case _ => key
  }

  def copied(key: Seq[Any]): Seq[Any] = key.map(InternalRow.copyValue)
}
