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

private class RecordedFileInsert(of: InsertIntoHadoopFsRelationCommand, recorder: PartitionRecorder)
    extends InsertIntoHadoopFsRelationCommand(
      of.outputPath, of.staticPartitions, of.ifPartitionNotExists, of.partitionColumns, of.bucketSpec, of.fileFormat,
      of.options, of.query, of.mode, of.catalogTable, of.fileIndex, of.outputColumnNames) {

  @transient private var written: WrittenPartitions = _

  override def basicWriteJobStatsTracker(hadoopConf: Configuration): BasicWriteJobStatsTracker =
    new NotingTracker(hadoopConf, metrics, written)

  override def run(session: SparkSession, child: SparkPlan): Seq[Row] = recorder.around(session, {
    written = new WrittenPartitions(this, recorder)
    val rows = super.run(session, child)
    (rows, written.all)
  })

  override def nodeName: String = of.nodeName
  // Spark changes a node by its constructor's arguments, which here are others.
  override def withNewChildInternal(changed: LogicalPlan): InsertIntoHadoopFsRelationCommand =
    new RecordedFileInsert(of.copy(query = changed), recorder)
  override def makeCopy(arguments: Array[AnyRef]): LogicalPlan =
    new RecordedFileInsert(of.makeCopy(arguments).asInstanceOf[InsertIntoHadoopFsRelationCommand], recorder)
  override def clone(): LogicalPlan = {
    val cloned = new RecordedFileInsert(of.clone().asInstanceOf[InsertIntoHadoopFsRelationCommand], recorder)
    cloned.copyTagsFrom(this)
    cloned
  }
  // To Spark, a rule that gives back an equal node has changed nothing.
  override def canEqual(other: Any): Boolean = other.isInstanceOf[RecordedFileInsert]
  override def equals(other: Any): Boolean = canEqual(other) && super.equals(other)
  override def hashCode: Int = super.hashCode + 1
}

private class RecordedHiveInsert(of: InsertIntoHiveTable, recorder: PartitionRecorder)
    extends InsertIntoHiveTable(
      of.table, of.partition, of.query, of.overwrite, of.ifPartitionNotExists, of.outputColumnNames,
      of.partitionColumns, of.bucketSpec, of.options, of.fileFormat, of.hiveTmpPath) {

  @transient private var written: WrittenPartitions = _

  override def basicWriteJobStatsTracker(hadoopConf: Configuration): BasicWriteJobStatsTracker =
    new NotingTracker(hadoopConf, metrics, written)

  override def run(session: SparkSession, child: SparkPlan): Seq[Row] = recorder.around(session, {
    written = new WrittenPartitions(this, recorder)
    val rows = super.run(session, child)
    (rows, written.all)
  })

  override def nodeName: String = of.nodeName
  override def withNewChildInternal(changed: LogicalPlan): InsertIntoHiveTable =
    new RecordedHiveInsert(of.copy(query = changed), recorder)
  override def makeCopy(arguments: Array[AnyRef]): LogicalPlan =
    new RecordedHiveInsert(of.makeCopy(arguments).asInstanceOf[InsertIntoHiveTable], recorder)
  override def clone(): LogicalPlan = {
    val cloned = new RecordedHiveInsert(of.clone().asInstanceOf[InsertIntoHiveTable], recorder)
    cloned.copyTagsFrom(this)
    cloned
  }
  override def canEqual(other: Any): Boolean = other.isInstanceOf[RecordedHiveInsert]
  override def equals(other: Any): Boolean = canEqual(other) && super.equals(other)
  override def hashCode: Int = super.hashCode + 1
}
