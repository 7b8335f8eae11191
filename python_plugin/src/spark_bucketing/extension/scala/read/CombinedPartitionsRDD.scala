package org.apache.spark.sql.bucketing
package read

import java.util.PriorityQueue

import org.apache.spark.{Dependency, NarrowDependency, Partition, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, RowOrdering, SortOrder}

/**
 * A partition that combines partitions of the input.
 *
 * @param of partitions of the input
 */
case class CombinedPartition(index: Int, of: Seq[Partition]) extends Partition

/**
 * Combines partitions of the input without a shuffle. The RDD concatenates the partitions, or merges them by their ordering.
 *
 * @param from for each partition, the indices of partitions of the input
 * @param order sort order for merging the partitions, or empty to concatenate them
 */
class CombinedPartitionsRDD(private var input: RDD[InternalRow], from: IndexedSeq[Seq[Int]], order: Seq[SortOrder], columns: Seq[Attribute])
    extends RDD[InternalRow](input.context, Nil) {

  // In Spark 3.5, the ordering may be a lazy sequence, which is not serializable.
  private val mergedBy = order.toIndexedSeq

  override def getDependencies: Seq[Dependency[_]] = Seq(new NarrowDependency(input) {
    override def getParents(partition: Int): Seq[Int] = from(partition)
  })

  override protected def getPartitions: Array[Partition] =
    from.indices.map(i => CombinedPartition(i, from(i).map(input.partitions(_))): Partition).toArray

  override def getPreferredLocations(partition: Partition): Seq[String] =
    partition.asInstanceOf[CombinedPartition].of.flatMap(input.preferredLocations).distinct

  override def compute(partition: Partition, task: TaskContext): Iterator[InternalRow] = {
    val pieces = partition.asInstanceOf[CombinedPartition].of
    if (mergedBy.isEmpty || pieces.length < 2) pieces.iterator.flatMap(input.iterator(_, task))
    else new MergedRowIterator(pieces.map(input.iterator(_, task)), RowOrdering.create(mergedBy, columns))
  }

  override def clearDependencies(): Unit = {
    super.clearDependencies()
    input = null
  }
}

/**
 * Merges sorted iterators. An input may reuse its row object, so it advances only after the caller has used its previous row. As
 * long as one input has the smallest rows, the queue does not change. Files of different dates are an example.
 */
private class MergedRowIterator(inputs: Seq[Iterator[InternalRow]], ordering: Ordering[InternalRow])
    extends Iterator[InternalRow] {

  private class Head(val rows: Iterator[InternalRow]) {
    var row: InternalRow = rows.next()
  }

  private val others = new PriorityQueue[Head](inputs.length, (a: Head, b: Head) => ordering.compare(a.row, b.row))
  inputs.filter(_.hasNext).foreach(rows => others.add(new Head(rows)))
  private var current: Head = others.poll()
  private var used = false

  override def hasNext: Boolean = {
    if (used) advance()
    current != null
  }

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException
    used = true
    current.row
  }

  private def advance(): Unit = {
    used = false
    if (!current.rows.hasNext) current = others.poll()
    else {
      current.row = current.rows.next()
      if (!others.isEmpty && ordering.compare(current.row, others.peek.row) > 0) {
        val behind = current
        current = others.poll()
        others.add(behind)
      }
    }
  }
}
