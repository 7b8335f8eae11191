package org.apache.spark.sql.bucketing
package write

import scala.collection.mutable

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow

/**
 * New rows with the same values in the partition and implicit partition columns.
 *
 * @param values the values from [[GroupKey]]
 * @param isNull whether the rows have NULL in the range column
 */
case class InsertedGroup(values: Seq[Any], isNull: Boolean)

/**
 * The slots of new rows. Each slot is one file.
 *
 * @param first the first slot of each group
 * @param files the number of slots of each group
 * @param boundaries the minimums of the further slots of each group
 */
class InsertPlan(
    val slots: IndexedSeq[Slot], first: Map[InsertedGroup, Int], files: Map[InsertedGroup, Int], boundaries: Map[InsertedGroup, Array[Any]], order: RangeOrder,
    depth: Int)
    extends SlotRouting {

  // Without a range column, each task distributes the rows of a group evenly.
  override def isDeterministic: Boolean = order.dataType.nonEmpty
  @transient private lazy val next = mutable.HashMap.empty[InsertedGroup, Int]

  override def slotOf(file: Int, isNew: Boolean, place: => Seq[Any]): Int = {
    val values = place
    val group = InsertedGroups.of(values, order.dataType.nonEmpty, depth)
    val number = files(group)
    first(group) + (
      if (number == 1) 0
      else if (order.dataType.nonEmpty) order.search(boundaries(group), values.last)
      else {
        val slot = next.getOrElse(group, TaskContext.getPartitionId() % number)
        next(group) = (slot + 1) % number
        slot
      })
  }
}

object InsertedGroups {
  private val SamplesPerFile = 100L

  /** @param values the values of the group columns and, if there is a range column, its value */
  def of(values: Seq[Any], hasRange: Boolean, depth: Int): InsertedGroup = {
    val (partition, others) = (if (hasRange) values.init else values).splitAt(depth)
    InsertedGroup(GroupKey.ofPartition(partition) ++ GroupKey.of(others), hasRange && values.last == null)
  }

  /** Returns the number of rows of each group. */
  def count(places: RDD[Seq[Any]], hasRange: Boolean, depth: Int): Map[InsertedGroup, Long] = places.mapPartitions { rows =>
    val counts = mutable.HashMap.empty[InsertedGroup, Long]
    rows.foreach { values =>
      val group = copied(of(values, hasRange, depth))
      counts(group) = counts.getOrElse(group, 0L) + 1
    }
    counts.iterator
  }.collect().toSeq.groupBy(_._1).map { case (group, counts) => group -> counts.map(_._2).sum }

  /**
   * Returns the slots of all groups. With a range column, the slots of a group have disjoint ranges, with quantiles of a sample as boundaries.
   *
   * @param rows the number of rows of each group
   * @param files the number of files of a group
   * @param shared the boundaries of each group by its values, if another table determines them
   * @param depth the number of partition columns, which are the first columns of a group
   */
  def plan(
      rows: Map[InsertedGroup, Long], files: InsertedGroup => Int, shared: Option[Map[Seq[Any], Array[Any]]], places: => RDD[Seq[Any]], order: RangeOrder,
      depth: Int, bytesPerRow: Double): InsertPlan = {
    val several = if (order.dataType.isEmpty || shared.nonEmpty) Map.empty[InsertedGroup, Int] else rows.keysIterator.map(group => group -> files(group)).filter(_._2 > 1).toMap
    val samples = if (several.isEmpty) Map.empty[InsertedGroup, Seq[Any]]
      else sample(places, several.map { case (group, number) => group -> math.max(1, rows(group) / (number * SamplesPerFile)) }, depth)
    val boundaries = shared.fold(several.map { case (group, number) => group -> order.quantiles(samples.getOrElse(group, Nil), number) }) { of =>
      rows.keysIterator.filterNot(_.isNull).map(group => group -> of.getOrElse(group.values, Array.empty[Any])).toMap
    }
    val numbers = rows.keysIterator.map(group => group -> boundaries.get(group).fold(if (order.dataType.isEmpty) files(group) else 1)(_.length + 1)).toSeq
    val slots = numbers.flatMap { case (group, number) => Seq.fill(number)(group -> rows(group).toDouble / number) }
    new InsertPlan(slots.map { case (group, number) => Slot(group.values.take(depth), number * bytesPerRow, Long.MaxValue, None) }.toIndexedSeq,
      numbers.map(_._1).zip(numbers.scanLeft(0)(_ + _._2)).toMap, numbers.toMap, boundaries, order, depth)
  }

  /** Returns every n-th value of each group. The first one depends on the task, because a task may have fewer rows. */
  private def sample(places: RDD[Seq[Any]], steps: Map[InsertedGroup, Long], depth: Int): Map[InsertedGroup, Seq[Any]] = places.mapPartitionsWithIndex { (task, rows) =>
    val sampled = mutable.HashMap.empty[InsertedGroup, Sample]
    rows.foreach { values =>
      val group = of(values, hasRange = true, depth)
      steps.get(group).foreach { step =>
        sampled.getOrElseUpdate(copied(group), new Sample(step, Math.floorMod(task * 0x9E3779B1L, step))).add(values.last)
      }
    }
    sampled.iterator.map { case (group, sample) => group -> sample.values.toSeq }
  }.collect().toSeq.groupBy(_._1).map { case (group, found) => group -> found.flatMap(_._2) }

  // The values of a row are valid only until the next row.
  private def copied(group: InsertedGroup): InsertedGroup = group.copy(values = GroupKey.copied(group.values))

  private class Sample(step: Long, first: Long) {
    val values = mutable.ArrayBuffer.empty[Any]
    private var number = first

    def add(value: Any): Unit = {
      if (number % step == 0) values += InternalRow.copyValue(value)
      number += 1
    }
  }
}
