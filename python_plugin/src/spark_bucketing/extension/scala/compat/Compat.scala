package org.apache.spark.sql.bucketing
package compat

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.parquet.hadoop.{Footer, ParquetFileReader}
import org.apache.parquet.hadoop.util.HadoopInputFile

import org.apache.spark.QueryContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.{AnalysisException, SparkSession}
import org.apache.spark.sql.catalyst.{FileSourceOptions, InternalRow, TableIdentifier}
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException
import org.apache.spark.sql.catalyst.catalog._
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.command.CommandUtils
import org.apache.spark.sql.execution.datasources._
import org.apache.spark.sql.execution.datasources.parquet.{ParquetFileFormat, ParquetToSparkSchemaConverter}
import org.apache.spark.sql.hive.execution.InsertIntoHiveTable
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.ThreadUtils

/** Parts of Spark that are not for its users. What differs between its versions is in folders by the version from which it holds. */
object Compat {

  import SparkVersion._

  /** The session's planner with all its strategies, those of extensions among them. */
  def planner(session: SparkSession): SparkPlanner = session.asInstanceOf[ClassicSession].sessionState.planner

  /** The rules of other extensions that put columnar operators in the place of Spark's. */
  def otherColumnarRules(session: SparkSession): Seq[String] =
    session.asInstanceOf[ClassicSession].sessionState.columnarRules.map(_.getClass.getName)
      .filterNot(_.startsWith("org.apache.spark.sql.bucketing."))

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

  /** The files behind a table's name, where Spark reads them itself. */
  def filesOf(session: SparkSession, table: TableIdentifier): Option[HadoopFsRelation] =
    session.asInstanceOf[ClassicSession].table(table.quotedString).queryExecution.analyzed.collectFirst {
      case relation: LogicalRelation => relation.relation
    }.collect { case files: HadoopFsRelation => files }

  /** The files of a table, which are listed anew, once for all that the session plans from now on. */
  def filesAnew(session: SparkSession, table: CatalogTable): FileIndex = {
    catalog(session).refreshTable(table.identifier)
    filesOf(session, table.identifier).getOrElse(throw refusal(s"${table.identifier.quotedString} is not of files that Spark lists itself.")).location
  }

  /** The rows of files in Parquet by their schema: one scan for all that have the same. */
  def rowsOfParquet(session: SparkSession, files: Seq[FileStatus]): Seq[(StructType, Seq[InternalRow])] = {
    val (conf, converter) = (hadoopConf(session), new ParquetToSparkSchemaConverter(session.asInstanceOf[ClassicSession].sessionState.conf))
    val schemas = ThreadUtils.parmap(files, "footers", 16) { file =>
      val reader = ParquetFileReader.open(HadoopInputFile.fromStatus(file, conf))
      try ParquetFileFormat.readSchemaFromFooter(new Footer(file.getPath, reader.getFooter), converter) finally reader.close()
    }
    files.zip(schemas).groupBy(_._2).toSeq.map { case (schema, of) =>
      val paths = of.map(_._1.getPath.toString)
      val frame = session.asInstanceOf[ClassicSession].read.option(DataSource.GLOB_PATHS_KEY, "false").schema(schema).parquet(paths: _*)
      (schema, frame.queryExecution.toRdd.map(_.copy()).collect().toSeq)
    }
  }

  def analyzed(session: SparkSession, plan: LogicalPlan): LogicalPlan =
    session.asInstanceOf[ClassicSession].sessionState.executePlan(plan).analyzed

  /** Forget what the session remembers of a table, and read anew what it has cached of it. */
  def refresh(session: SparkSession, table: TableIdentifier): Unit = session.catalog.refreshTable(table.quotedString)

  /** What ANALYZE TABLE has said of a table is true no more, as after any INSERT of Spark's. */
  def updateStatistics(session: SparkSession, table: CatalogTable): Unit =
    CommandUtils.updateTableStats(session.asInstanceOf[ClassicSession], table)

  /**
   * The error for what cannot be had, in words of our own. Spark's clients ask every error for its condition and for the
   * text of that: this condition's text is any message, and without one PySpark and spark-sql fail over the error.
   */
  def refusal(message: String): AnalysisException = new Refusal(message)

  private class Refusal(message: String) extends AnalysisException(
    message, None, None, None, Some(AnyMessage), Map("errorMessage" -> message), Array.empty[QueryContext])

  def isRefusal(error: AnalysisException): Boolean = conditionOf(error) == AnyMessage

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
