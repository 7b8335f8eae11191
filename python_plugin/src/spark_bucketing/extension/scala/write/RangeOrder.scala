package org.apache.spark.sql.bucketing
package write

import org.apache.spark.sql.catalyst.util.TypeUtils
import org.apache.spark.sql.types.DataType

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
