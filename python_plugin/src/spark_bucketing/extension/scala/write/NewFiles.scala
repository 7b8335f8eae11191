package org.apache.spark.sql.bucketing
package write

import scala.collection.mutable

import org.apache.hadoop.fs.Path
import org.apache.hadoop.mapreduce.{Job, JobID, TaskAttemptContext, TaskAttemptID, TaskID, TaskType}
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat
import org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl

import org.apache.spark.TaskContext
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.metadata.{BucketFiles, SealedSpec}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, UnsafeProjection}
import org.apache.spark.sql.execution.datasources.{FileFormat, OutputWriter, OutputWriterFactory}
import org.apache.spark.sql.types._
import org.apache.spark.util.SerializableConfiguration

/** Opens files of a format with Spark's writers, at any path. */
class FileOpener private (factory: OutputWriterFactory, schema: StructType, conf: SerializableConfiguration) extends Serializable {

  def context(task: Int, attempt: Int): TaskAttemptContext =
    new TaskAttemptContextImpl(conf.value, new TaskAttemptID(new TaskID(new JobID("0", 0), TaskType.MAP, task), attempt))

  def extension(of: TaskAttemptContext): String = factory.getFileExtension(of)

  def open(path: Path, of: TaskAttemptContext): OutputWriter = {
    path.getFileSystem(conf.value).mkdirs(path.getParent)
    factory.newInstance(path.toString, schema, of)
  }
}

object FileOpener {
  def apply(session: SparkSession, format: FileFormat, options: Map[String, String], schema: StructType): FileOpener = {
    val job = Job.getInstance(Compat.hadoopConfWith(session, options))
    job.setOutputKeyClass(classOf[Void])
    job.setOutputValueClass(classOf[InternalRow])
    FileOutputFormat.setOutputPath(job, new Path("unused"))
    val factory = format.prepareWrite(session, job, options, schema)
    new FileOpener(factory, schema, new SerializableConfiguration(job.getConfiguration))
  }
}

/**
 * A part of the new rows that one task writes.
 *
 * @param partition the key of the partition
 * @param bytes the approximate size of the rows
 * @param limit the maximum number of rows of a file
 * @param bucket the bucket in the names of the files
 */
case class Slot(partition: Seq[Any], bytes: Double, limit: Long, bucket: Option[Int])

/**
 * A file that a statement has written.
 *
 * @param lower the minimum of the range column; null without values
 * @param kept the number of rows that are not new
 * @param keptHashes the sum of the hashes of these rows
 * @param hasOldDates whether some readers may return other dates than those written
 */
case class NewFile(
    slot: Int, path: String, rows: Long, hashes: BigInt, lower: Any, upper: Any, nulls: Long, implicitPartition: Seq[Any], kept: Long, keptHashes: BigInt,
    hasOldDates: Boolean)

/**
 * The columns of the rows to write.
 *
 * @param data the columns of the files
 * @param place the positions of the implicit partition columns and of the range column
 * @param slot the position of the slot; the columns after it are the row's hash and whether it is new
 * @param dates the positions of bucket and sort columns of type DATE
 */
case class RowsToWrite(
    columns: Array[DataType], data: Array[Int], implicitPartition: Array[Int], range: Option[Int], slot: Int, dates: Array[Int] = Array.empty)

/**
 * Writes the sorted rows of a task. A file has rows of one slot and one implicit partition, and either NULLs or values of the range column. It ends after the
 * limit of its slot, but only between two different values, so that ranges of files are disjoint.
 *
 * @param folders the directory of the files, by slot
 */
class NewFiles(opener: FileOpener, of: RowsToWrite, slots: Array[Slot], folders: Array[String], id: String) extends Serializable {

  def write(task: TaskContext, rows: Iterator[InternalRow]): Array[NewFile] = {
    val context = opener.context(task.partitionId(), task.attemptNumber())
    val data = UnsafeProjection.create(of.data.map(at => BoundReference(at, of.columns(at), nullable = true)).toSeq)
    val written = mutable.ArrayBuffer.empty[NewFile]
    var open: Option[OpenFile] = None
    def close(): Unit = open.foreach { file =>
      open = None
      file.writer.close()
      written += file.done
    }
    try {
      rows.foreach { row =>
        if (!open.exists(_.takes(row))) {
          close()
          val slot = row.getInt(of.slot)
          val part = f"part-${task.partitionId()}%05d-$id-${task.taskAttemptId()}"
          val name = slots(slot).bucket.fold(part)(BucketFiles.hiveName(_, part))
          val path = new Path(folders(slot), f"$name.c${written.size}%03d${opener.extension(context)}")
          open = Some(new OpenFile(row, path.toString, opener.open(path, context)))
        }
        open.get.write(row, data(row))
      }
      close()
    } finally open.foreach(_.writer.close())
    written.toArray
  }

  private class OpenFile(first: InternalRow, path: String, val writer: OutputWriter) {
    private val slot = first.getInt(of.slot)
    private val group = groupOf(first).map(InternalRow.copyValue)
    private val lower = InternalRow.copyValue(valueOf(first))
    private val limit = slots(slot).limit
    private val order = RangeOrder(of.range.map(of.columns(_)))
    private var upper: Any = lower
    private var (rows, kept) = (0L, 0L)
    private var hasOldDates = false
    private val (hashes, keptHashes) = (new HashSum, new HashSum)

    private def groupOf(row: InternalRow): Seq[Any] = of.implicitPartition.toSeq.map(at => row.get(at, of.columns(at)))
    private def valueOf(row: InternalRow): Any = of.range.map(at => row.get(at, of.columns(at))).orNull

    def takes(row: InternalRow): Boolean = row.getInt(of.slot) == slot &&
      (of.implicitPartition.isEmpty || GroupKey.of(groupOf(row)) == GroupKey.of(group)) && {
        val value = valueOf(row)
        (value == null) == (lower == null) && (rows < limit || of.range.nonEmpty && (value == null || order.ordering.equiv(value, upper)))
      }

    def write(row: InternalRow, data: InternalRow): Unit = {
      writer.write(data)
      rows += 1
      val hash = row.getLong(of.slot + 1)
      hashes.add(hash)
      if (!row.getBoolean(of.slot + 2)) {
        kept += 1
        keptHashes.add(hash)
      }
      if (of.dates.nonEmpty) hasOldDates ||= of.dates.exists(SealedSpec.isBeforeGregorian(row, _))
      if (lower != null) upper = InternalRow.copyValue(valueOf(row))
    }

    def done: NewFile = NewFile(
      slot, path, rows, hashes.value, lower, upper, if (of.range.nonEmpty && lower == null) rows else 0, group, kept, keptHashes.value, hasOldDates)
  }
}

/** A sum of hashes that does not overflow before 2^31 rows. */
class HashSum {
  private var (high, low) = (0L, 0L)
  def add(hash: Long): Unit = {
    high += hash >> 32
    low += hash & 0xffffffffL
  }
  def value: BigInt = (BigInt(high) << 32) + low
}
