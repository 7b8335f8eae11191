package org.apache.spark.sql.bucketing
package read

import java.nio.{ByteBuffer, ByteOrder}
import java.util.Collections

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.orc.{ColumnStatistics, DateColumnStatistics, DecimalColumnStatistics, IntegerColumnStatistics, OrcFile, StringColumnStatistics}
import org.apache.parquet.hadoop.ParquetFileReader
import org.apache.parquet.hadoop.util.HadoopInputFile
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName

import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.hash.BucketRanges
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, PartitionedFile}
import org.apache.spark.sql.execution.datasources.orc.OrcFileFormat
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * The value of a sort column at the start of a part of a file.
 *
 * @param rows the number of rows in the part
 */
case class CutPoint(value: Any, rows: Long)

/**
 * A part of a file that is read as a whole: a row group of a Parquet file, or a stripe of an ORC file.
 *
 * @param start the position of the first byte
 * @param points the points of its pages, or one point. Parts whose values are all NULL have no point
 */
case class FilePart(start: Long, rows: Long, points: Seq[CutPoint])

/** Reads from the footers of sorted files where their rows can be divided. Only the sizes of tasks depend on it. */
object CutPoints {

  private val MaxFiles = 32
  private val MaxPoints = 256

  private val known = Collections.synchronizedMap(new java.util.LinkedHashMap[(String, Long, String), Seq[FilePart]](16, 0.75f, true) {
    override def removeEldestEntry(eldest: java.util.Map.Entry[(String, Long, String), Seq[FilePart]]): Boolean = size > 1000
  })

  /** Returns points of the largest files of a scan. */
  def of(scan: BucketScan, column: Attribute): Seq[CutPoint] = partsOf(scan, column, scan.largest(MaxFiles)).flatten.flatMap(_.points)

  /** Returns the parts of each file, in their order. */
  def partsOf(scan: BucketScan, column: Attribute, files: Seq[PartitionedFile]): Seq[Seq[FilePart]] = {
    val conf = Compat.hadoopConf(scan.session)
    Compat.inParallel(files) { file =>
      val key = (file.urlEncodedPath, file.modificationTime, s"${column.name} ${column.dataType.sql}")
      Option(known.get(key)).getOrElse {
        val found = if (isOrc(scan)) ofOrc(file, column, conf) else ofParquet(file, column, conf)
        known.put(key, found)
        found
      }
    }
  }

  /**
   * Returns whether filters on a column of these files have the same order as the column. ORC compares strings as Java does, unlike their bytes, and its
   * statistics change strings that are not valid.
   */
  def hasOrderOfFilters(scan: BucketScan, dataType: DataType): Boolean =
    BucketRanges.supports(dataType) && !(isOrc(scan) && dataType.isInstanceOf[StringType])

  private def isOrc(scan: BucketScan): Boolean = scan.relation.fileFormat.isInstanceOf[OrcFileFormat]

  // A filter would contain another string.
  private def isValid(cut: Any): Boolean = cut match {
    case text: UTF8String => UTF8String.fromString(text.toString) == text
    case _ => true
  }

  /** Returns values that divide the points into a number of ranges with about the same number of rows, or into fewer ranges if many rows have equal values. */
  def divide(points: Seq[CutPoint], number: Int, ordering: Ordering[Any]): IndexedSeq[Any] = {
    val sorted = points.filter(point => isValid(point.value)).sortBy(_.value)(ordering).toIndexedSeq
    val starts = sorted.scanLeft(0L)(_ + _.rows)
    val found = (1 until number).flatMap { i =>
      val at = starts.indexWhere(_ >= starts.last / number * i)
      if (at < sorted.size && ordering.gt(sorted(at).value, sorted.head.value)) Some(sorted(at).value) else None
    }
    found.foldLeft(IndexedSeq.empty[Any])((cuts, value) => if (cuts.lastOption.exists(ordering.equiv(_, value))) cuts else cuts :+ value)
  }

  private def thinned(points: Seq[CutPoint], most: Int): Seq[CutPoint] =
    points.grouped((points.size + most - 1) / most max 1).map(some => CutPoint(some.head.value, some.map(_.rows).sum)).toSeq

  private def ofParquet(file: PartitionedFile, column: Attribute, conf: Configuration): Seq[FilePart] = {
    val reader = ParquetFileReader.open(HadoopInputFile.fromPath(file.toPath, conf))
    val blocks = reader.getFooter.getBlocks.asScala.toSeq
    try blocks.map { block =>
      val points = block.getColumns.asScala.find(of => of.getPath.size == 1 && of.getPath.toArray.head.equalsIgnoreCase(column.name)).toSeq.flatMap { chunk =>
        val (index, offsets) = (reader.readColumnIndex(chunk), reader.readOffsetIndex(chunk))
        def value(bytes: ByteBuffer) = valueOf(bytes, chunk.getPrimitiveType.getPrimitiveTypeName, column.dataType)
        if (index != null && offsets != null) (0 until offsets.getPageCount).filterNot(index.getNullPages.get(_)).map { page =>
          CutPoint(value(index.getMinValues.get(page)), offsets.getLastRowIndex(page, block.getRowCount) - offsets.getFirstRowIndex(page) + 1)
        } else Option(chunk.getStatistics).filter(_.hasNonNullValue).map(found => CutPoint(value(ByteBuffer.wrap(found.getMinBytes)), block.getRowCount)).toSeq
      }
      FilePart(block.getStartingPos, block.getRowCount, thinned(points, MaxPoints / blocks.size max 1))
    } finally reader.close()
  }

  private def valueOf(bytes: ByteBuffer, stored: PrimitiveTypeName, dataType: DataType): Any = {
    val found = bytes.duplicate.order(ByteOrder.LITTLE_ENDIAN)
    def all = {
      val copy = new Array[Byte](found.remaining)
      found.get(copy)
      copy
    }
    (dataType, stored) match {
      case (ByteType, _) => found.getInt.toByte
      case (ShortType, _) => found.getInt.toShort
      case (IntegerType | DateType, _) => found.getInt
      case (LongType, PrimitiveTypeName.INT32) => found.getInt.toLong
      case (LongType, _) => found.getLong
      case (decimal: DecimalType, PrimitiveTypeName.INT32) => Decimal(found.getInt.toLong, decimal.precision, decimal.scale)
      case (decimal: DecimalType, PrimitiveTypeName.INT64) => Decimal(found.getLong, decimal.precision, decimal.scale)
      case (decimal: DecimalType, _) => Decimal(BigDecimal(BigInt(all), decimal.scale), decimal.precision, decimal.scale)
      case _ => UTF8String.fromBytes(all)
    }
  }

  private def ofOrc(file: PartitionedFile, column: Attribute, conf: Configuration): Seq[FilePart] = {
    val reader = OrcFile.createReader(file.toPath, OrcFile.readerOptions(conf))
    try {
      val at = reader.getSchema.getFieldNames.asScala.indexWhere(_.equalsIgnoreCase(column.name))
      reader.getStripes.asScala.toSeq.zip(reader.getStripeStatistics.asScala).map { case (stripe, statistics) =>
        val value = if (at < 0) None else valueOf(statistics.getColumnStatistics()(reader.getSchema.getChildren.get(at).getId), column.dataType)
        FilePart(stripe.getOffset, stripe.getNumberOfRows, value.map(CutPoint(_, stripe.getNumberOfRows)).toSeq)
      }
    } finally reader.close()
  }

  private def valueOf(found: ColumnStatistics, dataType: DataType): Option[Any] = (dataType, found) match {
    case (_, none) if none.getNumberOfValues == 0 => None
    case (ByteType, of: IntegerColumnStatistics) => Some(of.getMinimum.toByte)
    case (ShortType, of: IntegerColumnStatistics) => Some(of.getMinimum.toShort)
    case (IntegerType, of: IntegerColumnStatistics) => Some(of.getMinimum.toInt)
    case (LongType, of: IntegerColumnStatistics) => Some(of.getMinimum)
    case (DateType, of: DateColumnStatistics) => Some(of.getMinimumDayOfEpoch.toInt)
    case (decimal: DecimalType, of: DecimalColumnStatistics) => Some(Decimal(BigDecimal(of.getMinimum.bigDecimalValue), decimal.precision, decimal.scale))
    case (_: StringType, of: StringColumnStatistics) => Some(UTF8String.fromString(of.getLowerBound))
    case _ => None
  }
}

/** Reads the footers of files on the driver. */
object Footers {

  /** Returns the number of rows in Parquet or ORC files of a table. */
  def rows(files: Seq[FileStatus], of: HadoopFsRelation): Long = {
    val conf = Compat.hadoopConf(of.sparkSession, of.options)
    // An empty file has no footer.
    Compat.inParallel(files.filter(_.getLen > 0))(file => if (of.fileFormat.isInstanceOf[OrcFileFormat]) ofOrc(file, conf) else ofParquet(file, conf)).sum
  }

  private def ofParquet(file: FileStatus, conf: Configuration): Long = {
    val reader = ParquetFileReader.open(HadoopInputFile.fromStatus(file, conf))
    try reader.getRecordCount finally reader.close()
  }

  private def ofOrc(file: FileStatus, conf: Configuration): Long = {
    val reader = OrcFile.createReader(file.getPath, OrcFile.readerOptions(conf))
    try reader.getNumberOfRows finally reader.close()
  }
}
