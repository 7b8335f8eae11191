package org.apache.spark.sql.bucketing
package dml

import org.apache.spark.sql.bucketing.write.SlotRouting

/**
 * Slots are parts of bins. Most bins have one slot. Rows that do not change stay in the range of their file.
 *
 * @param first the first slot of each bin
 * @param boundaries the minimums of the further slots of each bin
 */
class RangeRouting(places: OrganizedPlaces, binOfFile: Map[Int, Int], binOfCell: Map[Cell, Int], first: Array[Int], boundaries: Array[Array[Any]]) extends SlotRouting {
  override def slotOf(file: Int, isNew: Boolean, place: => Seq[Any]): Int = {
    lazy val values = place
    val bin = if (isNew) binOfCell.getOrElse(places.cellOf(values), throw unexpected) else binOfFile.getOrElse(file, throw unexpected)
    if (boundaries(bin).isEmpty || values.last == null) first(bin) else first(bin) + places.ranges.order.search(boundaries(bin), values.last)
  }
}

/**
 * Slots are buckets of partitions. Rows that do not change stay in the bucket of their file.
 *
 * @param slotOfFile the slots of files whose rows are all in one bucket
 * @param slotOfCell the slots of the other rows
 */
class BucketRouting(places: BucketPlaces, slotOfFile: Map[Int, Int], slotOfCell: Map[Cell, Int]) extends SlotRouting {
  override def slotOf(file: Int, isNew: Boolean, place: => Seq[Any]): Int = {
    val known = if (isNew) None else slotOfFile.get(file)
    known.getOrElse(slotOfCell.getOrElse(places.cellOf(place), throw unexpected))
  }
}
