package org.apache.spark.sql.bucketing
package write

import org.apache.spark.sql.Row
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.bucketing.compat.SparkVersion.ClassicSession
import org.apache.spark.sql.catalyst.expressions.SortOrder
import org.apache.spark.sql.execution.{SparkPlan, SQLExecution}
import org.apache.spark.sql.execution.datasources.{InsertIntoHadoopFsRelationCommand, V1WriteCommand}
import org.apache.spark.sql.execution.metric.SQLMetrics
import org.apache.spark.sql.hive.execution.InsertIntoHiveTable

/** Wraps Spark's INSERT commands. */
object SealedCommands {

  /**
   * Returns a command that does the same write.
   *
   * @param table the target table; None for a CTAS
   * @param insert commits the files of the statement; None to run the statement as Spark does
   */
  def apply(write: V1WriteCommand, table: Option[CatalogTable], insert: Option[AtomicInsert]): V1WriteCommand = write match {
    case of: InsertIntoHadoopFsRelationCommand => new SealedFileInsert(of.copy(), table, insert)
    case of: InsertIntoHiveTable => new SealedHiveInsert(of.copy(), table, insert)
    case _ => write
  }
}

private class SealedFileInsert(
    override protected val of: InsertIntoHadoopFsRelationCommand, override protected val target: Option[CatalogTable], insert: Option[AtomicInsert])
    extends InsertIntoHadoopFsRelationCommand(
      of.outputPath, of.staticPartitions, of.ifPartitionNotExists, of.partitionColumns, of.bucketSpec, of.fileFormat,
      of.options, of.query, of.mode, of.catalogTable, of.fileIndex, of.outputColumnNames)
    with SealedWrite {

  override protected def write(session: ClassicSession, child: SparkPlan): Seq[Row] = insert match {
    case Some(files) if files.isOrganized =>
      val organized = new OrganizedInsert(session, files.table, this)
      files.run(folder => WrittenFiles(organized.write(folder, child)))(organized.record)
      publish(session, organized.written)
      Nil
    case Some(files) => insertInto(session, files, child)
    case None =>
      val rows = super[InsertIntoHadoopFsRelationCommand].run(session, child)
      val other = BucketedRowsExec.otherExchange(child)
      if (target.isEmpty) other.foreach(SealedWrites.warnScattered(target, _))
      if (target.isEmpty) SealWriter.ofCreated(session, bucketSpec.isDefined && asRead && other.isEmpty)
      rows
  }

  // The files of an organized table are sorted in other ways.
  override def requiredOrdering: Seq[SortOrder] = if (insert.exists(_.isOrganized)) Nil else super[SealedWrite].requiredOrdering

  private def publish(session: ClassicSession, values: Map[String, Long]): Unit = {
    values.foreach { case (name, value) => metrics(name).set(value) }
    SQLMetrics.postDriverMetricUpdates(session.sparkContext, session.sparkContext.getLocalProperty(SQLExecution.EXECUTION_ID_KEY), values.keys.map(metrics).toSeq)
  }

  override protected def like(other: LogicalPlan): SealedFileInsert =
    new SealedFileInsert(other.asInstanceOf[InsertIntoHadoopFsRelationCommand], target, insert)
  override def withNewChildInternal(changed: LogicalPlan): SealedFileInsert = like(of.copy(query = changed))
}

/** An INSERT with Hive's SerDe. */
private class SealedHiveInsert(
    override protected val of: InsertIntoHiveTable, override protected val target: Option[CatalogTable], insert: Option[AtomicInsert])
    extends InsertIntoHiveTable(
      of.table, of.partition, of.query, of.overwrite, of.ifPartitionNotExists, of.outputColumnNames,
      of.partitionColumns, of.bucketSpec, of.options, of.fileFormat, of.hiveTmpPath)
    with SealedWrite {

  override protected def write(session: ClassicSession, child: SparkPlan): Seq[Row] =
    insert.fold(super[InsertIntoHiveTable].run(session, child))(insertInto(session, _, child))
  override protected def like(other: LogicalPlan): SealedHiveInsert = new SealedHiveInsert(other.asInstanceOf[InsertIntoHiveTable], target, insert)
  override def withNewChildInternal(changed: LogicalPlan): SealedHiveInsert = like(of.copy(query = changed))
}
