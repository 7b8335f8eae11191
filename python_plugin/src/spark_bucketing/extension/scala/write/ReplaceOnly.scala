package org.apache.spark.sql.bucketing
package write

import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.read.FixedFiles
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTablePartition}
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec
import org.apache.spark.sql.catalyst.expressions.{Expression, Not}
import org.apache.spark.sql.catalyst.plans.logical.Filter
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, InsertIntoHadoopFsRelationCommand, LogicalRelation, PartitionDirectory}
import org.apache.spark.sql.internal.SQLConf

/** Checks the rows that an INSERT OVERWRITE replaces. */
class ReplaceOnly(session: SparkSession, table: CatalogTable, insert: InsertIntoHadoopFsRelationCommand, condition: Expression) {

  /**
   * Throws an error if the condition is false for a row.
   *
   * @param files the files to replace
   * @param partitions the directories of all partitions
   */
  def check(files: Seq[FileStatus], partitions: Map[TablePartitionSpec, Path]): Unit = if (files.nonEmpty) {
    val root = new Path(table.location)
    val index = new FixedFiles(Seq(root), table.partitionSchema, directories(files, partitions))
    val relation = LogicalRelation(HadoopFsRelation(index, table.partitionSchema, table.dataSchema, None, insert.fileFormat, insert.options)(
      session.asInstanceOf[compat.SparkVersion.ClassicSession]))
    val wrong = Compat.executed(session, Compat.analyzed(session, Filter(Not(condition), relation))).executedPlan.executeTake(1)
    if (wrong.nonEmpty) throw Compat.refusal(s"Cannot overwrite ${table.identifier.quotedString}.",
      s"a row to replace for which ${condition.sql} is false", "only rows that meet the condition of the hint REPLACE_ONLY",
      "select all rows of the partition, or change the condition; nothing has been replaced")
  }

  private def directories(files: Seq[FileStatus], partitions: Map[TablePartitionSpec, Path]): Seq[PartitionDirectory] = {
    val specs = partitions.map { case (spec, folder) => folder.toUri.getPath -> spec }
    def specOf(file: FileStatus) = Iterator.iterate(file.getPath.getParent)(_.getParent).takeWhile(_ != null).flatMap(folder => specs.get(folder.toUri.getPath)).next()
    def valuesOf(spec: TablePartitionSpec) = CatalogTablePartition(spec, table.storage).toRow(table.partitionSchema, SQLConf.get.sessionLocalTimeZone)
    if (table.partitionColumnNames.isEmpty) Seq(PartitionDirectory(InternalRow.empty, files.toArray))
    else files.groupBy(specOf).map { case (spec, of) => PartitionDirectory(valuesOf(spec), of.toArray) }.toSeq
  }
}
