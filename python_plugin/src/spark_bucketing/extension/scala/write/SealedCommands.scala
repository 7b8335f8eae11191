package org.apache.spark.sql.bucketing
package write

import org.apache.spark.sql.{Row, SaveMode}
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.bucketing.compat.SparkVersion.ClassicSession
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.datasources.{InsertIntoHadoopFsRelationCommand, V1WriteCommand}
import org.apache.spark.sql.hive.execution.InsertIntoHiveTable

/** Wraps Spark's INSERT commands so that they seal the files that they write. */
object SealedCommands {

  /** Returns a command that does the same write, and then seals the written files. */
  def apply(write: V1WriteCommand, table: Option[CatalogTable]): V1WriteCommand = write match {
    case insert: InsertIntoHadoopFsRelationCommand =>
      val mode = WriteMode(insert.mode == SaveMode.Overwrite, insert.ifPartitionNotExists, insert.staticPartitions)
      new SealedFileInsert(insert.copy(), table, mode)
    case insert: InsertIntoHiveTable =>
      val static = insert.partition.collect { case (name, Some(value)) => name -> value }
      new SealedHiveInsert(insert.copy(), table, WriteMode(insert.overwrite, insert.ifPartitionNotExists, static))
    case _ => write
  }
}

private class SealedFileInsert(
    override protected val of: InsertIntoHadoopFsRelationCommand,
    override protected val into: Option[CatalogTable], override protected val how: WriteMode)
    extends InsertIntoHadoopFsRelationCommand(
      of.outputPath, of.staticPartitions, of.ifPartitionNotExists, of.partitionColumns, of.bucketSpec, of.fileFormat,
      of.options, of.query, of.mode, of.catalogTable, of.fileIndex, of.outputColumnNames)
    with SealedWrite {

  override protected def runOf(session: ClassicSession, child: SparkPlan): Seq[Row] =
    super[InsertIntoHadoopFsRelationCommand].run(session, child)
  override protected def like(other: LogicalPlan): SealedFileInsert =
    new SealedFileInsert(other.asInstanceOf[InsertIntoHadoopFsRelationCommand], into, how)
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
