package org.apache.spark.sql.bucketing

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.{Row, SaveMode}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec
import org.apache.spark.sql.catalyst.expressions.{Attribute, BoundReference, Cast, Expression}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.util.{CaseInsensitiveMap, DateTimeUtils}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.datasources._
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.hive.execution.InsertIntoHiveTable
import org.apache.spark.sql.types.StringType
import org.apache.spark.util.SerializableConfiguration

/**
 * Spark's commands for an INSERT, with a record of each partition that they write. Subclasses, so that whatever looks
 * at commands sees those that it knows.
 */
object RecordedWrites {

  /** The command with records, where it leaves some. */
  def apply(write: V1WriteCommand, table: CatalogTable): V1WriteCommand = write match {
    case insert: InsertIntoHadoopFsRelationCommand =>
      val overwrites = insert.mode == SaveMode.Overwrite
      PartitionRecorder.of(table, insert, overwrites, insert.ifPartitionNotExists, insert.staticPartitions)
        .fold(write)(new RecordedFileInsert(insert.copy(), _))
    case insert: InsertIntoHiveTable =>
      val static = insert.partition.collect { case (name, Some(value)) => name -> value }
      PartitionRecorder.of(table, insert, insert.overwrite, insert.ifPartitionNotExists, static)
        .fold(write)(new RecordedHiveInsert(insert.copy(), _))
    case _ => write
  }
}

/** The partitions that a write put files into, as its tasks report them. */
private class WrittenPartitions(write: V1WriteCommand, recorder: PartitionRecorder) {

  // None: it has not written at all.
  private var reported: Option[Seq[InternalRow]] = None

  def note(stats: Seq[WriteTaskStats]): Unit =
    reported = Some(stats.collect { case basic: BasicWriteTaskStats => basic.partitions }.flatten.distinct)

  /** A partition that the statement names in full is written also when there are no rows for it. */
  def all: Seq[TablePartitionSpec] = reported.toSeq.flatMap { rows =>
    if (rows.isEmpty && recorder.static.size == recorder.table.partitionColumnNames.size) Seq(recorder.static)
    else rows.map(row => recorder.static ++ write.partitionColumns.map(_.name).zip(texts.map(_.eval(row)).map {
      case null => null
      case text => text.toString
    }))
  }

  // As Spark itself names the folders.
  private lazy val texts: Seq[Expression] = write.partitionColumns.zipWithIndex.map { case (column, i) =>
    val timeZone =
      CaseInsensitiveMap(write.options).getOrElse(DateTimeUtils.TIMEZONE_OPTION, write.conf.sessionLocalTimeZone)
    Cast(BoundReference(i, column.dataType, nullable = true), StringType, Option(timeZone))
  }
}

/** Spark's own statistics of a write, which name the partitions. */
private class NotingTracker(
    hadoopConf: Configuration, metrics: Map[String, SQLMetric], @transient private val written: WrittenPartitions)
    extends BasicWriteJobStatsTracker(new SerializableConfiguration(hadoopConf), metrics) {

  override def processStats(stats: Seq[WriteTaskStats], jobCommitTime: Long): Unit = {
    super.processStats(stats, jobCommitTime)
    if (written != null) written.note(stats)
  }
}

/** What the two commands have in common: one of Spark's, with records around its run. */
private trait RecordedWrite extends V1WriteCommand {

  /** Spark's own command. */
  protected def of: V1WriteCommand
  protected def recorder: PartitionRecorder

  /** Another of Spark's commands with the same records. */
  protected def recorded(other: LogicalPlan): V1WriteCommand

  @transient private var written: WrittenPartitions = _

  override def basicWriteJobStatsTracker(hadoopConf: Configuration): BasicWriteJobStatsTracker =
    new NotingTracker(hadoopConf, metrics, written)

  abstract override def run(session: SparkSession, child: SparkPlan): Seq[Row] = recorder.around(session, {
    written = new WrittenPartitions(this, recorder)
    val rows = super.run(session, child)
    (rows, written.all)
  })

  override def nodeName: String = of.nodeName
  // Spark changes a node by its constructor's arguments, which here are others.
  override def makeCopy(arguments: Array[AnyRef]): LogicalPlan = recorded(of.makeCopy(arguments))
  override def clone(): LogicalPlan = {
    val cloned = recorded(of.clone())
    cloned.copyTagsFrom(this)
    cloned
  }
  // To Spark, a rule that gives back an equal node has changed nothing.
  override def canEqual(other: Any): Boolean = other.isInstanceOf[RecordedWrite] && other.getClass == getClass
  override def equals(other: Any): Boolean = canEqual(other) && super.equals(other)
  override def hashCode: Int = super.hashCode + 1
}

private class RecordedFileInsert(
    override protected val of: InsertIntoHadoopFsRelationCommand, override protected val recorder: PartitionRecorder)
    extends InsertIntoHadoopFsRelationCommand(
      of.outputPath, of.staticPartitions, of.ifPartitionNotExists, of.partitionColumns, of.bucketSpec, of.fileFormat,
      of.options, of.query, of.mode, of.catalogTable, of.fileIndex, of.outputColumnNames)
    with RecordedWrite {

  override protected def recorded(other: LogicalPlan): RecordedFileInsert =
    new RecordedFileInsert(other.asInstanceOf[InsertIntoHadoopFsRelationCommand], recorder)
  override def withNewChildInternal(changed: LogicalPlan): RecordedFileInsert = recorded(of.copy(query = changed))
}

private class RecordedHiveInsert(
    override protected val of: InsertIntoHiveTable, override protected val recorder: PartitionRecorder)
    extends InsertIntoHiveTable(
      of.table, of.partition, of.query, of.overwrite, of.ifPartitionNotExists, of.outputColumnNames,
      of.partitionColumns, of.bucketSpec, of.options, of.fileFormat, of.hiveTmpPath)
    with RecordedWrite {

  override protected def recorded(other: LogicalPlan): RecordedHiveInsert =
    new RecordedHiveInsert(other.asInstanceOf[InsertIntoHiveTable], recorder)
  override def withNewChildInternal(changed: LogicalPlan): RecordedHiveInsert = recorded(of.copy(query = changed))
}
