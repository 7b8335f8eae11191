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
}
