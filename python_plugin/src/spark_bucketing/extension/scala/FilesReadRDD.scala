package org.apache.spark.sql.bucketing

import scala.reflect.ClassTag

import org.apache.spark.{Partition, TaskContext}
import org.apache.spark.rdd.RDD

/** A partition and the files that it reads; a task is sent those of its own partition only. */
private case class PartitionOfFiles(of: Partition, files: Seq[FileVersion]) extends Partition {
  override def index: Int = of.index
}

/**
 * The rows (or batches of rows) of another RDD, of which it notes the files once the last row was read.
 *
 * @param files those of each partition
 */
class FilesReadRDD[T: ClassTag](
    rows: RDD[T], @transient private val files: IndexedSeq[Seq[FileVersion]], read: Findings[FileVersion])
    extends RDD[T](rows) {

  override protected def getPartitions: Array[Partition] =
    firstParent[T].partitions.map(of => PartitionOfFiles(of, files(of.index)): Partition)

  override def getPreferredLocations(partition: Partition): Seq[String] =
    firstParent[T].preferredLocations(partition.asInstanceOf[PartitionOfFiles].of)

  override def compute(partition: Partition, task: TaskContext): Iterator[T] = {
    val PartitionOfFiles(of, files) = partition.asInstanceOf[PartitionOfFiles]
    new AtTheEnd(firstParent[T].iterator(of, task), () => files.foreach(read.add))
  }
}

/** Calls back once, when there are no more rows. */
private class AtTheEnd[T](of: Iterator[T], ended: () => Unit) extends Iterator[T] {
  private var told = false

  override def hasNext: Boolean = {
    val more = of.hasNext
    if (!more && !told) {
      told = true
      ended()
    }
    more
  }

  override def next(): T = of.next()
}
