package org.apache.spark.sql.bucketing

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.{AnalysisException, SaveMode, SparkSession}
import org.apache.spark.sql.catalyst.{FileSourceOptions, InternalRow, TableIdentifier}
import org.apache.spark.sql.catalyst.analysis.{NamedRelation, NoSuchTableException, ResolvedIdentifier}
import org.apache.spark.sql.catalyst.catalog._
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{AppendData, LogicalPlan, OverwriteByExpression, ReplaceTableAsSelect}
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.connector.catalog.{StagingTableCatalog, TableCapability}
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.command.DataWritingCommand
import org.apache.spark.sql.execution.datasources._
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation
import org.apache.spark.sql.execution.python.MapInBatchExec
import org.apache.spark.sql.hive.execution.InsertIntoHiveTable
import org.apache.spark.sql.types.StructType

/** What differs between versions of Spark: constructors, mostly. Written for 4.3. */
object Compat {

  /** The session's planner with all its strategies, those of extensions among them. */
  def planner(session: SparkSession): SparkPlanner = session.asInstanceOf[ClassicSession].sessionState.planner

  def hadoopConf(session: SparkSession): Configuration =
    session.asInstanceOf[ClassicSession].sessionState.newHadoopConf()

  def catalog(session: SparkSession): SessionCatalog = session.asInstanceOf[ClassicSession].sessionState.catalog

  /** A table as the metastore has it now, and not Spark's cache. */
  def current(session: SparkSession, table: CatalogTable): CatalogTable =
    try catalog(session).getTableMetadata(table.identifier) catch { case _: NoSuchTableException => table }

  def externalCatalog(session: SparkSession): ExternalCatalog =
    session.asInstanceOf[ClassicSession].sharedState.externalCatalog

  /** A table by its name, in the session catalog. */
  def tableNamed(session: SparkSession, name: String): TableIdentifier =
    session.asInstanceOf[ClassicSession].sessionState.sqlParser.parseTableIdentifier(name)

  /** Forget what the session remembers of a table, and read anew what it has cached of it. */
  def refresh(session: SparkSession, table: TableIdentifier): Unit = session.catalog.refreshTable(table.quotedString)

  /** Rows that are known when a query is planned. */
  def knownRows(output: Seq[Attribute], rows: Seq[InternalRow]): SparkPlan = LocalTableScanExec(output, rows, None)

  /**
   * The error for what cannot be had, in words of our own. Spark's clients ask every error for its condition and for the
   * text of that: this condition's text is any message, and without one PySpark and spark-sql fail over the error.
   */
  def refusal(message: String): AnalysisException = new AnalysisException(
    message, None, None, None, Some("USER_RAISED_EXCEPTION"), Map("errorMessage" -> message), Array.empty)

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
   * A write that cannot be taken back when a row turns out to be out of place.
   *
   * @param query as it will be planned
   * @param why it cannot (EarlyUses)
   */
  case class Irreversible(query: LogicalPlan, why: String)

  def irreversible(statement: LogicalPlan): Option[Irreversible] = statement match {
    case write: V1WriteCommand if deletesFirst(write) => Some(Irreversible(write.query, EarlyUses.Overwrite))
    case write: V1WriteCommand if publishesByTask => Some(Irreversible(write.query, EarlyUses.Publish))
    case save: SaveIntoDataSourceCommand if save.mode == SaveMode.Overwrite => Some(Irreversible(save.query, EarlyUses.Overwrite))
    case save: SaveIntoDataSourceCommand => Some(Irreversible(save.query, EarlyUses.Publish))
    case replace: ReplaceTableAsSelect if !isStaged(replace.name) => Some(Irreversible(replace.query, EarlyUses.Overwrite))
    case overwrite: OverwriteByExpression if isV1(overwrite.table) =>
      Some(Irreversible(overwrite.analyzedQuery.getOrElse(overwrite.query), EarlyUses.Overwrite))
    case append: AppendData if isV1(append.table) =>
      Some(Irreversible(append.analyzedQuery.getOrElse(append.query), EarlyUses.Publish))
    case _ => None
  }

  /** Hadoop's second algorithm moves the files of each task to their place when the task is done. */
  private def publishesByTask: Boolean =
    hadoopConf(SparkSession.active).get("mapreduce.fileoutputcommitter.algorithm.version", "1").trim == "2"

  /** Whether a program of the user's reads the rows, which may end before they do. */
  def mayStopReading(plan: SparkPlan): Boolean = plan match {
    case _: MapPartitionsExec | _: MapInBatchExec | _: BaseScriptTransformationExec => true
    case _ => false
  }

  /** A query with what is cached of it in its place. */
  def withCaches(session: SparkSession, query: LogicalPlan): LogicalPlan =
    session.asInstanceOf[ClassicSession].sharedState.cacheManager.useCachedData(query)

  private def isStaged(name: LogicalPlan): Boolean = name match {
    case ResolvedIdentifier(catalog, _) => catalog.isInstanceOf[StagingTableCatalog]
    case _ => false
  }

  private def isV1(table: NamedRelation): Boolean = table match {
    case relation: DataSourceV2Relation => relation.table.capabilities.contains(TableCapability.V1_BATCH_WRITE)
    case _ => false
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
