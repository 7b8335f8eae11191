package org.apache.spark.sql.bucketing
package write

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.apache.hadoop.mapreduce.{Job, JobID, TaskAttemptContext, TaskAttemptID, TaskID, TaskType}
import org.apache.hadoop.mapreduce.lib.output.FileOutputFormat
import org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl

import org.apache.spark.{SparkThrowable, TaskContext}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.hash.BucketHash
import org.apache.spark.sql.bucketing.metadata.{BucketFiles, SealedSpec}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, UnsafeProjection}
import org.apache.spark.sql.errors.QueryExecutionErrors
import org.apache.spark.sql.execution.datasources.{FileFormat, OutputWriter, OutputWriterFactory}
import org.apache.spark.sql.types._
import org.apache.spark.util.{SerializableConfiguration, Utils}

/** Opens files of a format with Spark's writers, at any path. */
class FileOpener private (factory: OutputWriterFactory, schema: StructType, conf: SerializableConfiguration) extends Serializable {

  def context(task: Int, attempt: Int): TaskAttemptContext =
    new TaskAttemptContextImpl(conf.value, new TaskAttemptID(new TaskID(new JobID("0", 0), TaskType.MAP, task), attempt))

  def extension(of: TaskAttemptContext): String = factory.getFileExtension(of)

  /** Runs a step of a write. Reports storage errors in the same way as Spark's own writer. */
  def storing[A](path: String)(step: => A): A = try step catch {
    case NonFatal(error) if !error.isInstanceOf[SparkThrowable] => throw QueryExecutionErrors.taskFailedWhileWritingRowsError(path, error)
  }

  def lengthOf(path: String): Long = {
    val file = new Path(path)
    file.getFileSystem(conf.value).getFileStatus(file).getLen
  }

  def open(path: Path, of: TaskAttemptContext): OutputWriter = {
    path.getFileSystem(conf.value).mkdirs(path.getParent)
    factory.newInstance(path.toString, schema, of)
  }
}

object FileOpener {
  def apply(session: SparkSession, format: FileFormat, options: Map[String, String], schema: StructType): FileOpener = {
    val job = Job.getInstance(Compat.hadoopConf(session, options))
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
 * @param bucket the bucket in the names of the files, and its hash
 */
case class Slot(partition: Seq[Any], bytes: Double, limit: Long, bucket: Option[(Int, BucketHash)])

/**
 * A file that a statement has written.
 *
 * @param lower the minimum of the range column; null without values
 * @param hasOldDates whether some readers may return other dates than those written
 */
case class NewFile(
    slot: Int, path: String, sums: FileSums, lower: Any, upper: Any, nulls: Long, implicitPartition: Seq[Any], hasOldDates: Boolean)

/**
 * Positions of columns among the columns of a table.
 *
 * @param data the columns of the files
 * @param implicitPartition the implicit partition columns
 * @param range the range column
 * @param dates bucket and sort columns of type DATE
 */
case class FileColumns(data: Seq[Int], implicitPartition: Seq[Int] = Nil, range: Option[Int] = None, dates: Seq[Int] = Nil)

/**
 * Writes the sorted rows of a task. A file has rows of one slot and one implicit partition, and either NULLs or values of the range column. It ends after the
 * limit of its slot, but only between two different values, so that ranges of files are disjoint.
 *
 * @param types the types of the rows' columns: the table's columns, the slot, the row's hash and whether it is new
 * @param folders the directory of the files, by slot
 */
class NewFiles(opener: FileOpener, of: FileColumns, types: Array[DataType], slots: Array[Slot], folders: Array[String], id: String) extends Serializable {

  private val slot = types.length - 3

  def write(task: TaskContext, rows: Iterator[InternalRow]): Array[NewFile] = {
    val context = opener.context(task.partitionId(), task.attemptNumber())
    val data = UnsafeProjection.create(of.data.map(at => BoundReference(at, types(at), nullable = true)))
    val written = mutable.ArrayBuffer.empty[NewFile]
    var open: Option[OpenFile] = None
    val metrics = task.taskMetrics().outputMetrics
    def close(): Unit = open.foreach { file =>
      open = None
      opener.storing(file.path) {
        file.writer.close()
        metrics.setBytesWritten(metrics.bytesWritten + opener.lengthOf(file.path))
      }
      written += file.done
      metrics.setRecordsWritten(metrics.recordsWritten + file.sum.rows)
    }
    try {
      rows.foreach { row =>
        if (!open.exists(_.takes(row))) {
          close()
          val number = row.getInt(slot)
          val part = f"part-${task.partitionId()}%05d-$id-${task.taskAttemptId()}"
          val name = slots(number).bucket.fold(part) { case (bucket, hash) => BucketFiles.nameOf(bucket, part, hash) }
          val path = new Path(folders(number), f"$name.c${written.size}%03d${opener.extension(context)}")
          open = Some(new OpenFile(row, path.toString, opener.storing(path.toString)(opener.open(path, context))))
        }
        open.get.write(row, data(row))
      }
      close()
    } finally open.foreach(file => Utils.tryLogNonFatalError(file.writer.close()))
    written.toArray
  }

  private class OpenFile(first: InternalRow, val path: String, val writer: OutputWriter) {
    private val number = first.getInt(slot)
    private val group = groupOf(first).map(InternalRow.copyValue)
    private val lower = InternalRow.copyValue(valueOf(first))
    private val limit = slots(number).limit
    private val order = RangeOrder(of.range.map(types(_)))
    private var upper: Any = lower
    private var hasOldDates = false
    val sum = new FileSum

    private def groupOf(row: InternalRow): Seq[Any] = of.implicitPartition.map(at => row.get(at, types(at)))
    private def valueOf(row: InternalRow): Any = of.range.map(at => row.get(at, types(at))).orNull

    def takes(row: InternalRow): Boolean = row.getInt(slot) == number &&
      (of.implicitPartition.isEmpty || GroupKey.of(groupOf(row)) == GroupKey.of(group)) && {
        val value = valueOf(row)
        (value == null) == (lower == null) && (sum.rows < limit || of.range.nonEmpty && (value == null || order.ordering.equiv(value, upper)))
      }

    def write(row: InternalRow, data: InternalRow): Unit = {
      opener.storing(path)(writer.write(data))
      sum.add(row.getLong(slot + 1), isKept = !row.getBoolean(slot + 2))
      if (of.dates.nonEmpty) hasOldDates ||= of.dates.exists(SealedSpec.isBeforeGregorian(row, _))
      if (lower != null) upper = InternalRow.copyValue(valueOf(row))
    }

    def done: NewFile = NewFile(
      number, path, sum.value, lower, upper, if (of.range.nonEmpty && lower == null) sum.rows else 0, group, hasOldDates)
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

/** Row counts and sums of hashes of rows; `kept` counts the rows that the statement does not change. */
case class FileSums(rows: Long, hashes: BigInt, kept: Long, keptHashes: BigInt) {
  def +(other: FileSums): FileSums = FileSums(rows + other.rows, hashes + other.hashes, kept + other.kept, keptHashes + other.keptHashes)
  def hasSameKept(other: FileSums): Boolean = kept == other.kept && keptHashes == other.keptHashes
}

object FileSums {
  val Zero: FileSums = FileSums(0, 0, 0, 0)
  def total(all: Iterable[FileSums]): FileSums = all.foldLeft(Zero)(_ + _)
}

/** Counts the rows of a file. */
class FileSum {
  private var (counted, kept) = (0L, 0L)
  private val (hashes, keptHashes) = (new HashSum, new HashSum)

  def rows: Long = counted

  def add(hash: Long, isKept: Boolean): Unit = {
    counted += 1
    hashes.add(hash)
    if (isKept) {
      kept += 1
      keptHashes.add(hash)
    }
  }

  def value: FileSums = FileSums(counted, hashes.value, kept, keptHashes.value)
}
