package org.apache.spark.sql.bucketing
package write

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.{Row, SaveMode}
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.bucketing.compat.SparkVersion.ClassicSession
import org.apache.spark.sql.catalyst.expressions.SortOrder
import org.apache.spark.sql.execution.{SparkPlan, SQLExecution}
import org.apache.spark.sql.execution.datasources.{BasicWriteJobStatsTracker, InsertIntoHadoopFsRelationCommand, V1WriteCommand}
import org.apache.spark.sql.execution.metric.SQLMetrics
import org.apache.spark.sql.hive.execution.InsertIntoHiveTable

/** Wraps Spark's INSERT commands so that they seal the files that they write. */
object SealedCommands {

  /**
   * Returns a command that does the same write, and then seals the written files.
   *
   * @param table the table whose files to seal
   * @param overwrite replaces the files of an INSERT OVERWRITE; None to run it as Spark does
   */
  def apply(write: V1WriteCommand, table: Option[CatalogTable], overwrite: Option[FileOverwrite]): V1WriteCommand = write match {
    case insert: InsertIntoHadoopFsRelationCommand => new SealedFileInsert(insert.copy(), table, modeOf(insert), overwrite)
    case insert: InsertIntoHiveTable =>
      val static = insert.partition.collect { case (name, Some(value)) => name -> value }
      new SealedHiveInsert(insert.copy(), table, WriteMode(insert.overwrite, insert.ifPartitionNotExists, static))
    case _ => write
  }

  def modeOf(insert: InsertIntoHadoopFsRelationCommand): WriteMode =
    WriteMode(insert.mode == SaveMode.Overwrite, insert.ifPartitionNotExists, insert.staticPartitions)
}

private class SealedFileInsert(
    override protected val of: InsertIntoHadoopFsRelationCommand,
    override protected val into: Option[CatalogTable], override protected val how: WriteMode, overwrite: Option[FileOverwrite])
    extends InsertIntoHadoopFsRelationCommand(
      of.outputPath, of.staticPartitions, of.ifPartitionNotExists, of.partitionColumns, of.bucketSpec, of.fileFormat,
      of.options, of.query, of.mode, of.catalogTable, of.fileIndex, of.outputColumnNames)
    with SealedWrite {

  @transient private var named: String => String = identity

  override protected def target: Option[CatalogTable] = into.orElse(overwrite.map(_.table))
  override protected def nameOf(file: String): String = named(file)

  override protected def runOf(session: ClassicSession, child: SparkPlan): Seq[Row] = overwrite match {
    case Some(files) if files.isOrganized =>
      val organized = new OrganizedInsert(session, files.table, this)
      files.run(organized.write(_, child))(organized.record)
      publish(session, organized.written)
      Nil
    case Some(files) =>
      named = files.run { folder =>
        new InsertInto(folder).run(session, child)
        files.written(folder, metrics("numFiles").value, BucketedRowsExec.otherExchange(child))
      }()
      Nil
    case None => super[InsertIntoHadoopFsRelationCommand].run(session, child)
  }

  // The files of an organized table are sorted in other ways.
  override def requiredOrdering: Seq[SortOrder] = if (overwrite.exists(_.isOrganized)) Nil else super[SealedWrite].requiredOrdering

  private def publish(session: ClassicSession, values: Map[String, Long]): Unit = {
    values.foreach { case (name, value) => metrics(name).set(value) }
    SQLMetrics.postDriverMetricUpdates(session.sparkContext, session.sparkContext.getLocalProperty(SQLExecution.EXECUTION_ID_KEY), values.keys.map(metrics).toSeq)
  }

  /** Writes the same files into another directory, with the metrics of this command. */
  private class InsertInto(folder: Path) extends InsertIntoHadoopFsRelationCommand(
    folder, of.staticPartitions, ifPartitionNotExists = false, of.partitionColumns, of.bucketSpec, of.fileFormat, of.options, of.query, SaveMode.Append,
    catalogTable = None, fileIndex = None, of.outputColumnNames) {
    override def basicWriteJobStatsTracker(conf: Configuration): BasicWriteJobStatsTracker = SealedFileInsert.this.basicWriteJobStatsTracker(conf)
  }

  override protected def like(other: LogicalPlan): SealedFileInsert =
    new SealedFileInsert(other.asInstanceOf[InsertIntoHadoopFsRelationCommand], into, how, overwrite)
  override def withNewChildInternal(changed: LogicalPlan): SealedFileInsert = like(of.copy(query = changed))
}

private class SealedHiveInsert(
    override protected val of: InsertIntoHiveTable,
    override protected val into: Option[CatalogTable], override protected val how: WriteMode)
    extends InsertIntoHiveTable(
      of.table, of.partition, of.query, of.overwrite, of.ifPartitionNotExists, of.outputColumnNames,
      of.partitionColumns, of.bucketSpec, of.options, of.fileFormat, of.hiveTmpPath)
    with SealedWrite {

  override protected def runOf(session: ClassicSession, child: SparkPlan): Seq[Row] =
    super[InsertIntoHiveTable].run(session, child)
  override protected def like(other: LogicalPlan): SealedHiveInsert =
    new SealedHiveInsert(other.asInstanceOf[InsertIntoHiveTable], into, how)
  override def withNewChildInternal(changed: LogicalPlan): SealedHiveInsert = like(of.copy(query = changed))
}
