package org.apache.spark.sql.bucketing

import org.apache.hadoop.fs.Path

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.{AnalysisException, SaveMode, SparkSession}
import org.apache.spark.sql.catalyst.{FileSourceOptions, InternalRow, TableIdentifier}
import org.apache.spark.sql.catalyst.catalog._
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.command.DataWritingCommand
import org.apache.spark.sql.execution.datasources._
import org.apache.spark.sql.hive.execution.InsertIntoHiveTable
import org.apache.spark.sql.types.StructType

/** What differs between versions of Spark: constructors, mostly. Written for 4.3. */
object Compat {

  /** The session's planner with all its strategies, those of extensions among them. */
  def planner(session: SparkSession): SparkPlanner = session.asInstanceOf[ClassicSession].sessionState.planner

  def catalog(session: SparkSession): SessionCatalog = session.asInstanceOf[ClassicSession].sessionState.catalog

  def externalCatalog(session: SparkSession): ExternalCatalog =
    session.asInstanceOf[ClassicSession].sharedState.externalCatalog

  /** A table by its name, in the session catalog. */
  def tableNamed(session: SparkSession, name: String): TableIdentifier =
    session.asInstanceOf[ClassicSession].sessionState.sqlParser.parseTableIdentifier(name)

  /** Forget what the session remembers of a table, and read anew what it has cached of it. */
  def refresh(session: SparkSession, table: TableIdentifier): Unit = session.catalog.refreshTable(table.quotedString)

  /** Rows that are known when a query is planned. */
  def knownRows(output: Seq[Attribute], rows: Seq[InternalRow]): SparkPlan = LocalTableScanExec(output, rows, None)

  /** The error for a statement that cannot be had, in words of our own. */
  def refusal(message: String): AnalysisException =
    new AnalysisException(message, None, None, None, None, Map.empty, Array.empty)

  /** The error for arguments of a function: one of Spark's, since its callers put the place in the statement to it. */
  def wrongArguments(message: String): AnalysisException =
    new AnalysisException("USER_RAISED_EXCEPTION", Map("errorMessage" -> message))

  /** The table that a command writes into, where it exists already. */
  def writtenTable(write: V1WriteCommand): Option[CatalogTable] = write match {
    case insert: InsertIntoHadoopFsRelationCommand => insert.catalogTable
    case insert: InsertIntoHiveTable => Some(insert.table)
    case _ => None
  }

  /** The command with other buckets and other options for its files. */
  def withBuckets(write: V1WriteCommand, spec: BucketSpec, options: Map[String, String]): V1WriteCommand = write match {
    case insert: InsertIntoHadoopFsRelationCommand => insert.copy(bucketSpec = Some(spec), options = options)
    case insert: InsertIntoHiveTable => insert.copy(bucketSpec = Some(spec), options = options)
    case other => other
  }

  /**
   * Whether a command deletes what it is to replace before it reads the first row. Spark does so unless it overwrites
   * partitions dynamically, or stages files as for tables that only Hive's classes can write; and `saveAsTable` drops the
   * table that it replaces.
   */
  def deletesFirst(command: DataWritingCommand): Boolean = command match {
    case insert: InsertIntoHadoopFsRelationCommand =>
      insert.getTagValue(InsertIntoHadoopFsRelationCommand.BEFORE_WRITE_JOB).isDefined ||
        insert.mode == SaveMode.Overwrite && !insert.dynamicPartitionOverwrite && hasRows(insert)
    case _ => false
  }

  private def hasRows(insert: InsertIntoHadoopFsRelationCommand): Boolean = {
    val session = SparkSession.active
    val static = insert.partitionColumns.takeWhile(column => insert.staticPartitions.contains(column.name))
      .map(column => ExternalCatalogUtils.getPartitionPathString(column.name, insert.staticPartitions(column.name)))
    val folder = static.foldLeft(insert.outputPath)(new Path(_, _))
    val files = folder.getFileSystem(session.asInstanceOf[ClassicSession].sessionState.newHadoopConf())
    // A partition may lie elsewhere.
    def registered = insert.partitionColumns.nonEmpty && insert.catalogTable.exists(table =>
      catalog(session).listPartitionNames(table.identifier, Some(insert.staticPartitions)).nonEmpty)
    files.exists(folder) && files.listStatusIterator(folder).hasNext || registered
  }

  /** The dynamic partition columns of a write. One of these commands lists the static ones as well, the other does not. */
  def dynamicPartitions(write: V1WriteCommand): Seq[Attribute] = write match {
    case insert: InsertIntoHadoopFsRelationCommand => insert.partitionColumns.drop(insert.staticPartitions.size)
    case other => other.partitionColumns
  }

  def fileScan(
      scan: FileSourceScanExec,
      read: PartitionedFile => Iterator[InternalRow],
      partitions: Seq[FilePartition]): RDD[InternalRow] = {
    val relation = scan.relation
    new FileScanRDD(
      relation.sparkSession,
      read,
      partitions,
      new StructType(scan.requiredSchema.fields ++ relation.partitionSchema.fields),
      scan.fileConstantMetadataColumns,
      relation.fileFormat.fileConstantMetadataExtractors,
      new FileSourceOptions(CaseInsensitiveMap(relation.options)))
  }
}

/** Spark's file scan with the arguments of another one, to be subclassed. */
abstract class StockScan(of: FileSourceScanExec)
    extends FileSourceScanExec(
      of.relation, of.stream, of.output, of.requiredSchema, of.partitionFilters, of.optionalBucketSet,
      of.optionalNumCoalescedBuckets, of.dataFilters, of.tableIdentifier, of.disableBucketedScan,
      of.markedForSingleTaskExecution)

/** A scan whose partitions mean something: it is never read by a single task, as Spark may read a small plain table. */
trait NotByOneTask extends FileSourceScanLike {
  override lazy val useSingleTaskExecution: Boolean = false
}
