package org.apache.spark.sql.bucketing
package write

import org.apache.spark.sql.bucketing.metadata.FileStats
import org.apache.spark.sql.bucketing.read.FileStatisticsColumns
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec
import org.apache.spark.sql.catalyst.expressions.{Cast, Empty2Null, EqualTo, Expression, If, Literal}
import org.apache.spark.sql.catalyst.util.{CaseInsensitiveMap, DateTimeUtils, TypeUtils}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

/** The values of the partition and implicit partition columns of a group of files, in a form that can be compared. */
object GroupKey {

  def of(columns: FileStatisticsColumns, partition: InternalRow, stats: Option[FileStats]): Seq[Any] =
    of(partition.copy().toSeq(columns.partition) ++ columns.implicitPartition.map(column => stats.map(_.column(column).lower).orNull))

  /** Partition values have the same key if they have the same text. Spark writes 0.0 and -0.0 into different directories. */
  def ofPartition(values: Seq[Any]): Seq[Any] = values.map {
    case value: Double => java.lang.Double.doubleToLongBits(value)
    case value: Float => java.lang.Float.floatToIntBits(value)
    case other => of(Seq(other)).head
  }

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

  /** Returns the text of partition values, as in the names of directories. The options of a table may have a time zone. */
  def specOf(partition: StructType, key: Seq[Any], options: Map[String, String]): TablePartitionSpec = {
    val timeZone = CaseInsensitiveMap(options).getOrElse(DateTimeUtils.TIMEZONE_OPTION, SQLConf.get.sessionLocalTimeZone)
    partition.zip(key).map { case (column, value) =>
      val text = Cast(Literal.create(valueOf(value, column.dataType), column.dataType), StringType, Some(timeZone)).eval()
      column.name -> Option(text).fold(ExternalCatalogUtils.DEFAULT_PARTITION_NAME)(_.toString)
    }.toMap
  }

  /** Returns a value of a partition column as it is read. Spark writes the empty string, NULL and the name of the directory of NULL into the same directory. */
  def asRead(value: Expression): Expression = if (value.dataType != StringType) value
    else If(EqualTo(value, Literal(ExternalCatalogUtils.DEFAULT_PARTITION_NAME)), Literal(null, StringType), Empty2Null(value))

  def copied(key: Seq[Any]): Seq[Any] = key.map(InternalRow.copyValue)
}

/** Compares values of the range column, which may be missing. */
case class RangeOrder(dataType: Option[DataType]) {
  @transient lazy val ordering: Ordering[Any] = dataType.map(TypeUtils.getInterpretedOrdering).orNull

  /** Returns the number of boundaries that are not above the value. The boundaries are ascending. */
  def search(boundaries: Array[Any], value: Any): Int = {
    var (from, until) = (0, boundaries.length)
    while (from < until) {
      val middle = (from + until) >>> 1
      if (ordering.lteq(boundaries(middle), value)) from = middle + 1 else until = middle
    }
    from
  }

  /** Returns the boundaries of so many parts of equal size, or of fewer parts if the values are not different enough. */
  def quantiles(samples: Seq[Any], parts: Int): Array[Any] = {
    val sorted = samples.toArray[Any].sorted(ordering)
    distinct((1 until parts).filter(_ => sorted.nonEmpty).map(i => sorted((i.toLong * sorted.length / parts).toInt)))
  }

  /** Returns the different values in ascending order. */
  def distinct(values: Seq[Any]): Array[Any] = {
    val sorted = values.toArray[Any].sorted(ordering)
    sorted.indices.filter(i => i == 0 || ordering.gt(sorted(i), sorted(i - 1))).map(sorted(_)).toArray
  }
}
