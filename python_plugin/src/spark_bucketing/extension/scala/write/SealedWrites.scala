package org.apache.spark.sql.bucketing
package write

import java.io.IOException
import java.util.UUID

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FSError, Path}

import org.apache.spark.{SparkException, SparkThrowable}
import org.apache.spark.internal.Logging
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.bucketing.compat.{Compat, SparkVersion}
import org.apache.spark.sql.bucketing.compat.SparkVersion.ClassicSession
import org.apache.spark.sql.bucketing.hash.{BucketHash, HiveBucketHash}
import org.apache.spark.sql.bucketing.metadata.{BucketFiles, SealedSpec, StoredPartition}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec
import org.apache.spark.sql.catalyst.expressions.SortOrder
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.datasources._
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.types.DateType
import org.apache.spark.util.{SerializableConfiguration, Utils}

/**
 * The mode in which a statement writes into a table.
 *
 * @param overwrites whether the statement replaces existing files
 * @param onlyNew whether the statement leaves existing partitions unchanged (IF NOT EXISTS)
 * @param static the static partition values in the statement
 */
case class WriteMode(overwrites: Boolean, onlyNew: Boolean, static: TablePartitionSpec)

/**
 * Spark's statistics about a write task, with the names of the files that the task wrote.
 *
 * @param files the partition values and the name of each written file
 * @param asRead whether readers return all rows exactly as they were written
 */
private case class WrittenStats(of: WriteTaskStats, files: Seq[(InternalRow, String)], asRead: Boolean) extends WriteTaskStats

/**
 * Records which files a write task creates.
 *
 * @param dates the positions of bucket and sort columns of type DATE
 */
private class WrittenFilesTaskTracker(hadoopConf: Configuration, commitTime: Option[SQLMetric], dates: Array[Int])
    extends BasicWriteTaskStatsTracker(hadoopConf, commitTime) {

  // In a partition with a custom location, file names start with an id until Spark commits the write.
  private val finalName = """(?:\d+_\d+_)?part-\d+-.*$""".r

  private var asRead = true
  private var partition: InternalRow = InternalRow.empty
  private val files = mutable.ArrayBuffer.empty[(InternalRow, String)]

  override def newPartition(values: InternalRow): Unit = {
    partition = values.copy()
    super.newPartition(values)
  }

  override def newFile(path: String): Unit = {
    val name = BucketFiles.nameOf(path)
    files += partition -> finalName.findFirstIn(name).getOrElse(name)
    super.newFile(path)
  }

  override def newRow(path: String, row: InternalRow): Unit = {
    if (dates.nonEmpty && asRead) asRead = !dates.exists(SealedSpec.isBeforeGregorian(row, _))
    super.newRow(path, row)
  }

  override def getFinalStats(commitTime: Long): WriteTaskStats =
    WrittenStats(super.getFinalStats(commitTime), files.toSeq, asRead)
}

/** Collects Spark's statistics about a write, and the files that its tasks report after they commit. */
private class WrittenFilesJobTracker(
    hadoopConf: Configuration, metrics: Map[String, SQLMetric], commitTime: SQLMetric, dates: Array[Int],
    @transient private val note: (Seq[(InternalRow, String)], Boolean) => Unit)
    extends BasicWriteJobStatsTracker(new SerializableConfiguration(hadoopConf), metrics, commitTime) {

  private val conf = new SerializableConfiguration(hadoopConf)

  override def newTaskInstance(): WriteTaskStatsTracker = new WrittenFilesTaskTracker(conf.value, Some(commitTime), dates)

  override def processStats(stats: Seq[WriteTaskStats], jobCommitTime: Long): Unit = {
    val written = stats.collect { case of: WrittenStats => of }
    super.processStats(written.map(_.of), jobCommitTime)
    note(written.flatMap(_.files), written.forall(_.asRead))
  }
}

/**
 * One of Spark's INSERT commands, which also seals the files that it writes. Implementations are subclasses of Spark's commands,
 * so that rules and listeners still recognize them.
 */
trait SealedWrite extends V1WriteCommand {

  /** The original Spark command. */
  protected def of: V1WriteCommand
  /** The target table, or None for a CTAS, which creates the table after it writes the files. */
  protected def into: Option[CatalogTable]
  protected def how: WriteMode

  /** The table of the files, if it exists. */
  protected def target: Option[CatalogTable] = into

  /** Returns a sealing command for another Spark command, with the same target table and mode. */
  protected def like(other: LogicalPlan): V1WriteCommand

  /** Runs the original Spark command. */
  protected def runOf(session: ClassicSession, child: SparkPlan): Seq[Row]

  /** Returns the final name of a written file. */
  protected def nameOf(file: String): String = file

  /** The written files, once Spark has moved them into the table. */
  @transient private var reported: Option[Seq[(InternalRow, String)]] = None
  @transient private var asRead = true

  override def basicWriteJobStatsTracker(hadoopConf: Configuration): BasicWriteJobStatsTracker = {
    val (own, commitTime) = metrics.partition { case (name, _) => name != BasicWriteJobStatsTracker.TASK_COMMIT_TIME }
    new WrittenFilesJobTracker(
      hadoopConf, own, commitTime(BasicWriteJobStatsTracker.TASK_COMMIT_TIME), dates, (files, areAsRead) => {
        reported = Some(files)
        asRead = areAsRead
      })
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
    BucketWriteExec.check(child, options, into)
    if (!how.overwrites && !how.onlyNew) into.foreach(SealWriter.beforeAppend(session, _, how.static))
    reported = None
    val (rows, partitions) = SealedWrites.storing(session, target)(into.filter(appends).fold((runOf(session, child), Option.empty[Seq[StoredPartition]])) { table =>
      CreatedPartitions.insert(session, table, reported.fold[SealWriter.Written](Map.empty)(byPartition))(runOf(session, child))
    })
    reported.filter(files => bucketSpec.isDefined && asRead && isOneFilePerBucket(files, child)).foreach { files =>
      into match {
        case Some(found) => SealWriter.after(session, found, bucketSpec.get, SealedWrites.hashOf(options), how, byPartition(files), partitions)
        case None => SealWriter.ofCreated(session, byPartition(files))
      }
    }
    rows
  }

  /** Returns whether Spark itself runs the statement, and only adds files to partitions. */
  private def appends(table: CatalogTable): Boolean = table.partitionColumnNames.nonEmpty && !how.overwrites && !how.onlyNew

  /** Returns whether the files are as planned. Otherwise, the plan does not prove what they contain, so they must not be sealed. */
  private def isOneFilePerBucket(files: Seq[(InternalRow, String)], written: SparkPlan): Boolean = {
    val hash = SealedWrites.hashOf(options)
    val most = if (!BucketedRowsExec.isIn(written)) 1
      else files.groupBy { case (partition, name) => (partition, BucketFiles.bucketOf(name, hash)) }.values.map(_.size).foldLeft(1)(_ max _)
    if (most > 1) SealedWrites.warnScattered(target, most, BucketedRowsExec.otherExchange(written))
    most == 1
  }

  private def byPartition(files: Seq[(InternalRow, String)]): SealWriter.Written = {
    val columns = DataTypeUtils.fromAttributes(partitionColumns)
    val found = files.groupBy(_._1).map { case (values, names) =>
      how.static ++ GroupKey.specOf(columns, values.toSeq(columns), options) -> names.map { case (_, name) => nameOf(name) }.toSet
    }
    // The statement has static values for all partition columns, or the table has no partition columns.
    val named = how.static.size == into.fold(0)(_.partitionColumnNames.length)
    if (named && found.isEmpty) Map(how.static -> Set.empty) else found
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

  def warnScattered(table: Option[CatalogTable], files: Int, operator: Option[String]): Unit =
    logWarning(s"The files written into ${table.fold("a new table")(_.identifier.quotedString)} are not sealed: found $files files for one bucket. " +
      s"Expected one file per bucket and partition. The rows were distributed by ${operator.getOrElse("an unknown operator")}. Instead: " +
      "disable this operator for writes into bucketed tables")

  /** Writes files. A storage failure, such as a full disk, becomes a short error without the stack trace of the task. */
  def storing[A](session: SparkSession, table: Option[CatalogTable])(write: => A): A = try write catch {
    case error @ (_: SparkException | _: IOException) => throw ofStorage(session, error, table).getOrElse(error)
  }

  def ofStorage(session: SparkSession, error: Throwable, table: Option[CatalogTable]): Option[Throwable] = {
    val causes = Iterator.iterate(error)(_.getCause).takeWhile(_ != null).toIndexedSeq
    val found = causes.dropWhile(!isFailedTask(_)) match {
      case _ +: ofTask => ofTask.lastOption.filterNot(_ => ofTask.exists(_.isInstanceOf[SparkThrowable]))
      // The driver also reads files. Therefore, only an error about temporary files proves that the commit failed.
      case _ => causes.lastOption.filter(isAboutTemporaryFiles)
    }
    found.collect { case storage @ (_: IOException | _: FSError) =>
      val name = table.fold("a new table")(_.identifier.quotedString)
      // All writes to a table share its _temporary folder, and the first write that ends deletes it.
      val interrupted = isAboutTemporaryFiles(storage) && table.forall(takesFiles(session, _))
      val found = messageOf(storage).trim
      if (interrupted) Compat.refusal(s"Files of $name could not be written.", s"$found; $DeletedByAnother", OneWrite, AfterConcurrentWrite +
        "; if no other statement wrote to the table, check the permissions of its directory")
      else Compat.refusal(s"Files of $name could not be written.", found, "free space and write permission", "check both, and run the statement again")
    }
  }

  private val DeletedByAnother = "another statement wrote to the table at the same time and deleted the temporary files of this one"
  val OneWrite = "one write at a time"
  val AfterConcurrentWrite = "delete the rows of this statement that the table has, and run the statement again"

  // INSERT OVERWRITE writes into a directory of its own.
  private def isAboutTemporaryFiles(error: Throwable): Boolean =
    messageOf(error).contains("/_temporary") && !messageOf(error).contains(s"/${FileOverwrite.Folder}/")

  // The error messages of storage systems differ. Only writing a file shows whether the storage is full or read-only.
  private def takesFiles(session: SparkSession, table: CatalogTable): Boolean = try {
    val file = new Path(new Path(table.location), s"_write_test_${UUID.randomUUID()}")
    val storage = file.getFileSystem(Compat.hadoopConf(session))
    try Utils.tryWithResource(storage.create(file, false))(_.write(0)) finally storage.delete(file, false)
    true
  } catch { case NonFatal(_) | _: FSError => false }

  private def messageOf(error: Throwable): String = String.valueOf(error.getMessage)

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

  private val HashOption = "__spark_bucketing_hash__"
}
