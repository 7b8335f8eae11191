package org.apache.spark.sql.bucketing
package write

import java.io.{IOException, InterruptedIOException}
import java.net.SocketTimeoutException
import java.nio.channels.ClosedByInterruptException

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.FSError

import org.apache.spark.{SparkException, SparkThrowable}
import org.apache.spark.internal.Logging
import org.apache.spark.sql.{Row, SaveMode, SparkSession}
import org.apache.spark.sql.bucketing.compat.{Compat, SparkVersion}
import org.apache.spark.sql.bucketing.compat.SparkVersion.ClassicSession
import org.apache.spark.sql.bucketing.hash.{BucketHash, HiveBucketHash}
import org.apache.spark.sql.bucketing.metadata.SealedSpec
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.expressions.SortOrder
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.datasources._
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.types.DateType
import org.apache.spark.util.SerializableConfiguration

/**
 * Spark's statistics about a write task.
 *
 * @param asRead whether readers return all rows exactly as they were written
 */
private case class WrittenStats(of: WriteTaskStats, asRead: Boolean) extends WriteTaskStats

/** @param dates the positions of bucket and sort columns of type DATE */
private class WrittenRowsTaskTracker(hadoopConf: Configuration, commitTime: Option[SQLMetric], dates: Array[Int])
    extends BasicWriteTaskStatsTracker(hadoopConf, commitTime) {

  private var asRead = true

  override def newRow(path: String, row: InternalRow): Unit = {
    if (dates.nonEmpty && asRead) asRead = !dates.exists(SealedSpec.isBeforeGregorian(row, _))
    super.newRow(path, row)
  }

  override def getFinalStats(commitTime: Long): WriteTaskStats = WrittenStats(super.getFinalStats(commitTime), asRead)
}

/** Collects Spark's statistics about a write, and whether readers return the rows as they were written. */
private class WrittenRowsJobTracker(
    hadoopConf: Configuration, metrics: Map[String, SQLMetric], commitTime: SQLMetric, dates: Array[Int], @transient private val note: Boolean => Unit)
    extends BasicWriteJobStatsTracker(new SerializableConfiguration(hadoopConf), metrics, commitTime) {

  private val conf = new SerializableConfiguration(hadoopConf)

  override def newTaskInstance(): WriteTaskStatsTracker = new WrittenRowsTaskTracker(conf.value, Some(commitTime), dates)

  override def processStats(stats: Seq[WriteTaskStats], jobCommitTime: Long): Unit = {
    val written = stats.collect { case of: WrittenStats => of }
    super.processStats(written.map(_.of), jobCommitTime)
    note(written.forall(_.asRead))
  }
}

/** One of Spark's INSERT commands. Implementations are subclasses of Spark's commands, so that rules and listeners still recognize them. */
trait SealedWrite extends V1WriteCommand {

  /** The original Spark command. */
  protected def of: V1WriteCommand

  /** The target table, or None for a CTAS, which creates the table after it writes the files. */
  protected def target: Option[CatalogTable]

  /** Returns a sealing command for another Spark command, with the same target table. */
  protected def like(other: LogicalPlan): V1WriteCommand

  /** Runs the command, or writes the files in another way. */
  protected def write(session: ClassicSession, child: SparkPlan): Seq[Row]

  /** Whether readers return all written rows exactly as they were written. */
  @transient protected var asRead = true

  /** Writes the files of this command into another directory, with its metrics, and commits them. */
  protected def insertInto(session: ClassicSession, insert: AtomicInsert, child: SparkPlan): Seq[Row] = {
    insert.run { folder =>
      // A command with Hive's SerDe has no columns for static partition values.
      new InsertIntoHadoopFsRelationCommand(insert.folderIn(folder, partitionColumns.size), Map.empty, ifPartitionNotExists = false, partitionColumns, bucketSpec, fileFormat,
        options + SealedWrites.NoMarker, query, SaveMode.Append, catalogTable = None, fileIndex = None, outputColumnNames) {
        override def basicWriteJobStatsTracker(conf: Configuration): BasicWriteJobStatsTracker = SealedWrite.this.basicWriteJobStatsTracker(conf)
      }.run(session, child)
      insert.written(folder, metrics("numFiles").value, asRead, BucketedRowsExec.otherExchange(child))
    }()
    Nil
  }

  override def basicWriteJobStatsTracker(hadoopConf: Configuration): BasicWriteJobStatsTracker = {
    val (own, commitTime) = metrics.partition { case (name, _) => name != BasicWriteJobStatsTracker.TASK_COMMIT_TIME }
    new WrittenRowsJobTracker(hadoopConf, own, commitTime(BasicWriteJobStatsTracker.TASK_COMMIT_TIME), dates, asRead = _)
  }

  /** Returns the positions of bucket and sort columns of type DATE among the data columns. */
  private def dates: Array[Int] = {
    val partitioned = partitionColumns.map(_.exprId).toSet
    val columns = query.output.filterNot(column => partitioned.contains(column.exprId))
    val names = bucketSpec.toSeq.flatMap(spec => spec.bucketColumnNames ++ spec.sortColumnNames)
    columns.indices.filter { i =>
      columns(i).dataType == DateType && names.exists(_.equalsIgnoreCase(columns(i).name))
    }.toArray
  }

  override def requiredOrdering: Seq[SortOrder] =
    if (SealedWrites.hashOf(options).isWrittenByStockSpark) of.requiredOrdering
    else BucketWriteExec.ordering(outputColumns, Compat.dynamicPartitions(of), bucketSpec.get, options)

  override def run(session: ClassicSession, child: SparkPlan): Seq[Row] = {
    BucketWriteExec.check(child, options, target)
    asRead = true
    SealedWrites.storing(session, target)(write(session, child))
  }

  override def nodeName: String = of.nodeName
  // Spark copies a node by its constructor arguments. The subclasses have other arguments than Spark's commands.
  override def makeCopy(arguments: Array[AnyRef]): LogicalPlan = like(of.makeCopy(arguments))
  override def clone(): LogicalPlan = {
    val cloned = like(of.clone())
    cloned.copyTagsFrom(this)
    cloned
  }
  // Spark ignores the result of a rule if it equals the input. Therefore, a sealing command must not equal the original command.
  override def canEqual(other: Any): Boolean = other.isInstanceOf[SealedWrite] && other.getClass == getClass
  override def equals(other: Any): Boolean = canEqual(other) && super.equals(other)
  override def hashCode: Int = super.hashCode + 1
}

object SealedWrites extends Logging {

  def warnScattered(table: Option[CatalogTable], operator: String): Unit =
    logWarning(s"The files written into ${table.fold("a new table")(_.identifier.quotedString)} are not sealed: found several files for one bucket. " +
      s"Expected one file per bucket and partition. The rows were distributed by $operator. Instead: disable this operator for writes into bucketed tables")

  /** Writes files. A storage failure, such as a full disk, becomes a short error without the stack trace of the task. */
  def storing[A](session: SparkSession, table: Option[CatalogTable])(write: => A): A = try write catch {
    case error @ (_: SparkException | _: IOException) => throw ofStorage(error, table, effect = None).getOrElse(error)
  }

  /**
   * Returns the short error for a storage failure.
   *
   * @param effect what the statement has changed, if it has not committed. Otherwise, only an error of its files proves that it has not
   */
  def ofStorage(error: Throwable, table: Option[CatalogTable], effect: Option[String]): Option[Throwable] = {
    val causes = Iterator.iterate(error)(_.getCause).takeWhile(_ != null).toIndexedSeq
    val found = causes.dropWhile(isOfJob)
    // Spark's other errors say what to do, and Spark ends a query quietly that has been interrupted.
    val isOther = found.exists(of => of.isInstanceOf[SparkThrowable] || isInterruption(of))
    if (isOther) None else found.collect { case storage @ (_: IOException | _: FSError) => messageOf(storage).trim }.lastOption
      .filter(message => effect.nonEmpty || causes.exists(isFailedTask) || message.contains("/_temporary")).map { message =>
        val short = Compat.refusal(s"Files of ${table.fold("a new table")(_.identifier.quotedString)} could not be written.", message,
          "storage that responds, has free space, and permits reading and writing", s"check these, and run the statement again${effect.fold("")(what => s"; $what")}")
        short.addSuppressed(error)
        short
      }
  }

  private def isInterruption(error: Throwable): Boolean = error match {
    case _: SocketTimeoutException => false
    case _: InterruptedIOException | _: ClosedByInterruptException | _: InterruptedException => true
    case _ => false
  }

  private def messageOf(error: Throwable): String = String.valueOf(error.getMessage)

  /** Whether an error only reports that a job or one of its tasks has failed. */
  private def isOfJob(error: Throwable): Boolean = isFailedTask(error) || error.isInstanceOf[SparkException] && messageOf(error).startsWith("Job aborted")

  // Spark 3.5 wraps this error in an error that reports the failed job.
  private def isFailedTask(error: Throwable): Boolean = error match {
    case failed: SparkException => SparkVersion.conditionOf(failed) == "TASK_WRITE_FAILED"
    case _ => false
  }

  /** Returns the hash that a write uses to assign rows to buckets. */
  def hashOf(options: Map[String, String]): BucketHash = options.get(HashOption).flatMap(BucketHash.named).getOrElse(
    if (options.get(BucketingUtils.optionForHiveCompatibleBucketWrite).contains("true")) BucketHash.Hive else BucketHash.Spark)

  /** Returns the options for a write in the Hive layout. Spark's own option among them also selects Hive's file names. */
  def optionsOf(hash: HiveBucketHash): Map[String, String] =
    Map(BucketingUtils.optionForHiveCompatibleBucketWrite -> "true", HashOption -> hash.name)

  // Nobody reads the file _SUCCESS in the directory of new files.
  val NoMarker: (String, String) = "mapreduce.fileoutputcommitter.marksuccessfuljobs" -> "false"

  private val HashOption = "__spark_bucketing_hash__"
}
