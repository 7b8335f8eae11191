package org.apache.spark.sql.bucketing
package write

import scala.collection.mutable

import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.read.FixedFiles
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTablePartition}
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{Filter, Project}
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
  def check(files: Seq[FileStatus], partitions: Map[TablePartitionSpec, Path]): Unit = {
    def key(file: FileStatus) = (file.getPath, file.getLen, file.getModificationTime)
    val unchecked = files.filterNot(file => checked(key(file)))
    if (unchecked.nonEmpty) checkRows(unchecked, partitions)
    checked ++= unchecked.map(key)
  }

  // The statement may start again after other statements have changed other files.
  private val checked = mutable.HashSet.empty[(Path, Long, Long)]

  private def checkRows(files: Seq[FileStatus], partitions: Map[TablePartitionSpec, Path]): Unit = {
    val root = new Path(table.location)
    val index = new FixedFiles(Seq(root), table.partitionSchema, directories(files, partitions))
    val relation = LogicalRelation(HadoopFsRelation(index, table.partitionSchema, table.dataSchema, None, insert.fileFormat,
      insert.options ++ Seq("ignoreCorruptFiles" -> "false", "ignoreMissingFiles" -> "false"))(
      session.asInstanceOf[compat.SparkVersion.ClassicSession]))
    val partition = relation.output.filter(column => table.partitionColumnNames.exists(_.equalsIgnoreCase(column.name)))
    val rows = Project(Seq(Alias(json(partition), "partition")()), Compat.analyzed(session, Filter(Not(condition), relation)))
    Compat.executed(session, rows).executedPlan.executeTake(1).headOption.foreach { wrong =>
      val where = if (partition.isEmpty) "" else s" in the partition ${wrong.getUTF8String(0)}"
      throw Compat.refusal(s"Cannot overwrite ${table.identifier.quotedString}.", s"an old row$where, for which ${condition.sql} is false",
        "only old rows that meet the condition of the hint REPLACE_ONLY",
        "overwrite only partitions whose old rows all meet the condition, or change the condition; nothing has been replaced")
    }
  }

  private def json(columns: Seq[Attribute]) =
    StructsToJson(Map.empty, CreateNamedStruct(columns.flatMap(column => Seq(Literal(column.name), column))), Some(SQLConf.get.sessionLocalTimeZone))

  private def directories(files: Seq[FileStatus], partitions: Map[TablePartitionSpec, Path]): Seq[PartitionDirectory] = {
    val specs = partitions.map { case (spec, folder) => folder.toUri.getPath -> spec }
    def specOf(file: FileStatus) = Iterator.iterate(file.getPath.getParent)(_.getParent).takeWhile(_ != null).flatMap(folder => specs.get(folder.toUri.getPath)).next()
    def valuesOf(spec: TablePartitionSpec) = CatalogTablePartition(spec, table.storage).toRow(table.partitionSchema, SQLConf.get.sessionLocalTimeZone)
    if (table.partitionColumnNames.isEmpty) Seq(PartitionDirectory(InternalRow.empty, files.toArray))
    else files.groupBy(specOf).map { case (spec, of) => PartitionDirectory(valuesOf(spec), of.toArray) }.toSeq
  }
}
