package org.apache.spark.sql.bucketing
package compat

import java.util.Arrays
import java.util.stream.Collectors

import scala.jdk.CollectionConverters._
import scala.util.Try

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, FileSystem, Path}
import org.apache.parquet.hadoop.{Footer, ParquetFileReader}
import org.apache.parquet.hadoop.util.HadoopInputFile

import org.apache.spark.{QueryContext, SPARK_VERSION}
import org.apache.spark.paths.SparkPath
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.{AnalysisException, SparkSession}
import org.apache.spark.sql.catalyst.{FileSourceOptions, InternalRow, QualifiedTableName, TableIdentifier}
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException
import org.apache.spark.sql.catalyst.catalog._
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, UnsafeProjection}
import org.apache.spark.sql.catalyst.parser.ParserInterface
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Statistics}
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.command.CommandUtils
import org.apache.spark.sql.execution.datasources._
import org.apache.spark.sql.execution.datasources.parquet.{ParquetFileFormat, ParquetToSparkSchemaConverter}
import org.apache.spark.sql.hive.execution.InsertIntoHiveTable
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.ThreadUtils

/** Provides access to internal APIs of Spark. Version-specific code is in directories named after the oldest Spark version that it supports. */
object Compat {

  import SparkVersion._

  /** Returns the session's planner with all strategies, including strategies of extensions. */
  def planner(session: SparkSession): SparkPlanner = session.asInstanceOf[ClassicSession].sessionState.planner

  /** Returns the rules that replace Spark's operators with columnar operators, in the order of the session's extensions. */
  def columnarRules(session: SparkSession): Seq[ColumnarRule] = session.asInstanceOf[ClassicSession].sessionState.columnarRules

  def isOurs(rule: ColumnarRule): Boolean = rule.getClass.getName.startsWith("org.apache.spark.sql.bucketing.")

  def hadoopConf(session: SparkSession, options: Map[String, String] = Map.empty): Configuration =
    session.asInstanceOf[ClassicSession].sessionState.newHadoopConfWithOptions(options)

  def catalog(session: SparkSession): SessionCatalog = session.asInstanceOf[ClassicSession].sessionState.catalog

  /** Returns the current metadata of a table from the metastore instead of Spark's cache. */
  def current(session: SparkSession, table: CatalogTable): CatalogTable =
    try catalog(session).getTableMetadata(table.identifier) catch { case _: NoSuchTableException => table }

  def externalCatalog(session: SparkSession): ExternalCatalog =
    session.asInstanceOf[ClassicSession].sharedState.externalCatalog

  /** Returns the partitions of a table that a filter selects, with one metastore call. */
  def partitionsBy(session: SparkSession, table: CatalogTable, filters: Seq[Expression]): Seq[CatalogTablePartition] =
    externalCatalog(session).listPartitionsByFilter(table.database, table.identifier.table, filters, SQLConf.get.sessionLocalTimeZone)

  /** Parses the name of a table in the session catalog. */
  def tableNamed(session: SparkSession, name: String): TableIdentifier =
    session.asInstanceOf[ClassicSession].sessionState.sqlParser.parseTableIdentifier(name)

  /** Returns the files of a table if Spark reads them with its own readers. */
  def filesOf(session: SparkSession, table: TableIdentifier): Option[HadoopFsRelation] =
    session.asInstanceOf[ClassicSession].table(table.quotedString).queryExecution.analyzed.collectFirst {
      case relation: LogicalRelation => relation.relation
    }.collect { case files: HadoopFsRelation => files }

  /** Checks that Spark reads a table with its own readers. */
  def requireFiles(session: SparkSession, table: CatalogTable): Unit = filesOf(session, table.identifier).getOrElse(
    throw refusal(s"Cannot list the files of ${table.identifier.quotedString}.", "a table that Spark does not read with its own file readers", "a Parquet or ORC table",
      "set `spark.sql.hive.convertMetastoreParquet` and `spark.sql.hive.convertMetastoreOrc` to true"))

  /**
   * Returns the cache in which Spark keeps listings of directories for an index of the table and for the indexes of its partitions. None if the index has no
   * cache, or if a build of Spark keeps it elsewhere.
   */
  def listingCache(of: FileIndex): Option[FileStatusCache] = Try {
    val field = Seq(classOf[InMemoryFileIndex], classOf[CatalogFileIndex]).find(_.isInstance(of)).get.getDeclaredField("fileStatusCache")
    field.setAccessible(true)
    field.get(of).asInstanceOf[FileStatusCache]
  }.toOption.filter(_ ne NoopCache)

  /** Reads the rows of small Parquet files on the driver, grouped by schema. */
  def rowsOfParquet(session: SparkSession, files: Seq[FileStatus]): Seq[(StructType, Seq[InternalRow])] = {
    val (conf, converter) = (hadoopConf(session), new ParquetToSparkSchemaConverter(session.asInstanceOf[ClassicSession].sessionState.conf))
    val schemas = ThreadUtils.parmap(files, "footers", 16) { file =>
      val reader = ParquetFileReader.open(HadoopInputFile.fromStatus(file, conf))
      try ParquetFileFormat.readSchemaFromFooter(new Footer(file.getPath, reader.getFooter), converter) finally reader.close()
    }
    files.zip(schemas).groupBy(_._2).toSeq.map { case (schema, of) =>
      val rowwise = Map(FileFormat.OPTION_RETURNING_BATCH -> "false")
      val open = new ParquetFileFormat().buildReaderWithPartitionValues(session, schema, new StructType, schema, Nil, rowwise, conf)
      (schema, inParallel(of.map(_._1)) { file =>
        val copy = UnsafeProjection.create(schema)
        open(PartitionedFile(InternalRow.empty, SparkPath.fromFileStatus(file), 0, file.getLen)).map(copy(_).copy()).toIndexedSeq
      }.flatten)
    }
  }

  /** Runs an action on all elements in parallel, because storage calls are slow. Waits for all actions to end, even if one fails. */
  def inParallel[A, B](all: Seq[A])(act: A => B): Seq[B] =
    if (all.size < 2) all.map(act) else ThreadUtils.parmap(all, "bucketing-storage", 16)(one => Try(act(one))).map(_.get)

  /** Runs a computation on all elements in parallel. For 100,000 files, one core would take a second. */
  def onAllCores[A <: AnyRef, B](all: Seq[A])(compute: A => B): Seq[B] =
    Arrays.asList(all: _*).parallelStream().map[B](one => compute(one)).collect(Collectors.toList[B]()).asScala.toIndexedSeq

  def analyzed(session: SparkSession, plan: LogicalPlan): LogicalPlan =
    session.asInstanceOf[ClassicSession].sessionState.executePlan(plan).analyzed

  /** Plans a query whose expressions are resolved. Spark's analyzer would reject some of them, such as IN subqueries in a projection. */
  def executed(session: SparkSession, plan: LogicalPlan): QueryExecution = {
    plan.setAnalyzed()
    session.asInstanceOf[ClassicSession].sessionState.executePlan(plan)
  }

  /** Plans a statement without running it, as EXPLAIN does. */
  def planned(session: SparkSession, plan: LogicalPlan): QueryExecution =
    session.asInstanceOf[ClassicSession].sessionState.executePlan(plan, CommandExecutionMode.SKIP)

  def parsed(session: SparkSession, sql: String): LogicalPlan = session.asInstanceOf[ClassicSession].sessionState.sqlParser.parsePlan(sql)

  def tableSchema(session: SparkSession, sql: String): StructType = session.asInstanceOf[ClassicSession].sessionState.sqlParser.parseTableSchema(sql)

  /** Runs an action in a copy of the session that has more settings. Ignores static settings. Without settings, the action runs in the session itself. */
  def withSettings[A](session: SparkSession, settings: Map[String, String])(act: SparkSession => A): A = if (settings.isEmpty) act(session) else {
    val copy = session.asInstanceOf[ClassicSession].cloneSession()
    settings.foreach { case (key, value) => if (!SQLConf.isStaticConfigKey(key)) copy.sessionState.conf.setConfString(key, value) }
    copy.withActive(act(copy))
  }

  /** Returns the files of a table that Spark reads with its own readers. */
  def filesRelation(
      session: SparkSession, files: FileIndex, partitionSchema: StructType, dataSchema: StructType, spec: Option[BucketSpec], format: String): HadoopFsRelation = {
    val classic = session.asInstanceOf[ClassicSession]
    val reader = DataSource(classic, format).providingClass.getConstructor().newInstance().asInstanceOf[FileFormat]
    HadoopFsRelation(files, partitionSchema, dataSchema, spec, reader, Map.empty)(classic)
  }

  /** Returns a plan for stored rows of this size. */
  def storedRows(session: SparkSession, output: Seq[Attribute], rows: RDD[InternalRow], bytes: Long): LogicalPlan =
    LogicalRDD(output, rows)(session.asInstanceOf[ClassicSession], Some(Statistics(bytes.max(1))))

  /** Invalidates the session's cached metadata and data of a table. Unlike REFRESH TABLE, it reads the metastore only if the session has cached data. */
  def refresh(session: SparkSession, table: TableIdentifier): Unit =
    if (!session.asInstanceOf[ClassicSession].sharedState.cacheManager.isEmpty) session.catalog.refreshTable(table.quotedString)
    else {
      val of = catalog(session).qualifyIdentifier(table)
      Option(catalog(session).getCachedTable(QualifiedTableName(of.catalog.get, of.database.get, of.table))).collect {
        case relation: LogicalRelation => relation.relation
      }.foreach { case files: HadoopFsRelation => files.location.refresh(); case _ => }
      catalog(session).refreshTable(table)
    }

  /** Invalidates the cached data of DataFrames that read a directory by its path. */
  def recache(session: SparkSession, folder: Path, fs: FileSystem): Unit = {
    val classic = session.asInstanceOf[ClassicSession]
    classic.sharedState.cacheManager.recacheByPath(classic, folder, fs)
  }

  /** After a change to the table, updates the statistics that ANALYZE TABLE created, in the same way as Spark's INSERT. */
  def updateStatistics(session: SparkSession, table: CatalogTable): Unit =
    CommandUtils.updateTableStats(session.asInstanceOf[ClassicSession], table)

  /**
   * Returns an error with an arbitrary message. PySpark and spark-sql require that every error has a condition with a message
   * template. The template of the condition used here accepts any message.
   */
  def refusal(message: String): AnalysisException = new Refusal(message)

  def refusal(sentence: String, found: String, expected: String, instead: String): AnalysisException =
    refusal(message(sentence, found, expected, instead))

  /** Returns the message of an error, in the form that CONTRIBUTING.md describes. */
  def message(sentence: String, found: String, expected: String, instead: String): String =
    s"$sentence\n  found:    $found\n  expected: $expected\n  instead:  $instead"

  private class Refusal(message: String) extends AnalysisException(
    message, None, None, None, Some(AnyMessage), Map("errorMessage" -> message), Array.empty[QueryContext])

  def isRefusal(error: AnalysisException): Boolean = conditionOf(error) == AnyMessage

  /** Returns the table that a command writes into, if the table already exists. */
  def writtenTable(write: V1WriteCommand): Option[CatalogTable] = write match {
    case insert: InsertIntoHadoopFsRelationCommand => insert.catalogTable
    case insert: InsertIntoHiveTable => Some(insert.table)
    case _ => None
  }

  /** Returns the listing of the table's files with which a write was planned. */
  def fileIndex(write: V1WriteCommand): Option[FileIndex] = write match {
    case insert: InsertIntoHadoopFsRelationCommand => insert.fileIndex
    case _ => None
  }

  /** Returns a copy of the command with another bucket spec and other write options. */
  def withBuckets(write: V1WriteCommand, spec: BucketSpec, options: Map[String, String]): V1WriteCommand = write match {
    case insert: InsertIntoHadoopFsRelationCommand => insert.copy(bucketSpec = Some(spec), options = options)
    case insert: InsertIntoHiveTable => insert.copy(bucketSpec = Some(spec), options = options)
    case other => other
  }

  /** Returns the dynamic partition columns of a write. Only InsertIntoHadoopFsRelationCommand also lists the static columns. */
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

/** Bugs in stock Spark that make queries over bucketed tables return incorrect rows. */
object KnownBugs {

  private val Affected = Set("4.1.0", "4.1.1", "4.1.2", "4.1.3", "4.2.0")

  /** SPARK-59141: Spark treats a UNION ALL of bucketed tables as grouped, so GROUP BY and DISTINCT over the union return duplicates. */
  def hasWrongUnions(version: String): Boolean = Affected.contains(version.split("[.-]").take(3).mkString("."))

  /** Why the extension does not use buckets in this Spark version, or None. Stock Spark still uses buckets in the Spark layout. */
  lazy val ofUnions: Option[String] = if (!hasWrongUnions(SPARK_VERSION)) None else Some(
    s"Spark $SPARK_VERSION returns duplicate groups over a UNION ALL of bucketed tables (SPARK-59141). Expected a version with the fix. Instead: " +
      "upgrade to a later patch release. Until then, set spark.sql.unionOutputPartitioning=false for tables in the Spark layout (USING parquet).")
}

/** A parser that replaces Spark's parser, but passes every statement to Spark's parser first. */
trait BucketParser extends ParserInterface {

  protected def spark: ParserInterface

  /**
   * Parses a statement with Spark's parser, or as a bucket statement if Spark rejects it.
   *
   * @param named values for `:name` parameters
   * @param positional values for `?` parameters
   * @param stock parses a statement with Spark's parser
   */
  protected def orBuckets(sql: String, named: Map[String, Expression] = Map.empty, positional: Seq[Expression] = Nil)(
      stock: String => LogicalPlan): LogicalPlan
}
