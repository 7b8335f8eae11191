package org.apache.spark.sql.bucketing
package explain

import java.net.URI
import java.util.Locale

import scala.util.Try

import org.apache.hadoop.fs.{FileStatus, Path}
import org.json4s.JsonAST._
import org.json4s.jackson.JsonMethods

import org.apache.spark.sql.{AnalysisException, SparkSession}
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.hash.BucketHash
import org.apache.spark.sql.bucketing.metadata._
import org.apache.spark.sql.bucketing.read.{AssumedFileIndex, CurrentFiles, FixedFiles}
import org.apache.spark.sql.catalyst.{InternalRow, TableIdentifier}
import org.apache.spark.sql.catalyst.analysis.{AnalysisContext, UnresolvedRelation}
import org.apache.spark.sql.catalyst.catalog._
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, SubqueryAlias}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StructType

/**
 * A hypothetical table.
 *
 * @param spec bucket spec and hash, or None for a table without buckets
 * @param bytes size of the files, or None if it is unknown
 * @param isSizeKnown whether Spark knows the size before it lists the files
 * @param filesPerBucket number of sorted files of each bucket
 */
case class AssumedTable(
    name: TableIdentifier, schema: StructType, partitionColumns: Seq[String], spec: Option[(BucketSpec, BucketHash)],
    bytes: Option[Long], rows: Option[Long], isSizeKnown: Boolean, format: String, filesPerBucket: Int)(session: SparkSession) {

  /** The size with which Spark plans. A table of unknown size counts as large. */
  private def size: Long = bytes.filter(_ => isSizeKnown).fold(AssumedTable.Unknown)(_.max(1))

  private def isIn(columns: Seq[String])(name: String) = columns.exists(_.equalsIgnoreCase(name))
  private val (ofPartition, ofData) = schema.fields.partition(field => isIn(partitionColumns)(field.name))
  private val partitionSchema = StructType(partitionColumns.flatMap(name => ofPartition.find(_.name.equalsIgnoreCase(name))))
  val dataSchema: StructType = StructType(ofData)

  private val location = new Path(s"file:/spark-bucketing-assumed/${name.database.get}/${name.table}")

  private lazy val files: Seq[FileStatus] = bytes.toSeq.flatMap { bytes =>
    val (buckets, of) = spec.fold((1, (bytes / AssumedTable.FileBytes).toInt.min(1000) + 1))(spec => (spec._1.numBuckets, filesPerBucket))
    for (bucket <- 0 until buckets; i <- 0 until of) yield {
      val part = f"part-$bucket%05d-$i%08x-0000-0000-0000-000000000000"
      val file = spec.fold(part)(spec => BucketFiles.nameOf(bucket, part, spec._2)) + s".c000.$format"
      new FileStatus((bytes / buckets / of).max(1), false, 1, AssumedTable.FileBytes, AssumedTable.Modified, new Path(location, file))
    }
  }

  /** The entry in the catalog. It has the seal of the files, like that of an unpartitioned table. */
  lazy val table: CatalogTable = {
    val isHive = spec.exists(_._2.inHiveLayout)
    val sealedSpec = spec.flatMap { case (spec, hash) => SealedSpec.ofFiles(spec, hash, dataSchema) }
    val version = spec.flatMap(_._2.asHiveHash).map(hash => BucketHash.VersionProperty -> hash.bucketingVersion)
    CatalogTable(name, CatalogTableType.MANAGED, CatalogStorageFormat.empty.copy(locationUri = Some(location.toUri)),
      StructType(dataSchema ++ partitionSchema), provider = Some(if (isHive) "hive" else format), partitionColumnNames = partitionSchema.map(_.name),
      bucketSpec = spec.map(_._1), stats = Some(CatalogStatistics(size, rows.map(BigInt(_)))),
      properties = sealedSpec.fold(Map.empty[String, String])(Seal(_, PartitionFiles.digest(files)).parameters) ++ version)
  }

  private lazy val index = new AssumedFiles(location, partitionSchema, size,
    if (files.isEmpty) Nil else Seq(PartitionDirectory(InternalRow.fromSeq(partitionSchema.map(_ => null)), files.toArray)))

  // All scans share the files, so that Spark can recognize equal scans.
  private lazy val shared = Compat.filesRelation(session, index, partitionSchema, dataSchema, spec.filterNot(_._2.inHiveLayout).map(_._1), format)

  /** Returns a relation with new ids of its columns. */
  def relation: LogicalRelation = LogicalRelation(shared, table)
}

object AssumedTable {
  /** Spark takes this size and larger ones for unknown. */
  val Unknown: Long = 1L << 60
  private val FileBytes = 128L * 1024 * 1024
  private val Modified = 1600000000000L
}

/** The files of a hypothetical table. Filters on partition columns select all of them. */
class AssumedFiles(location: Path, partitionSchema: StructType, size: Long, directories: => Seq[PartitionDirectory])
    extends FixedFiles(Seq(location), partitionSchema, directories) with AssumedFileIndex {
  override def listFiles(partitionFilters: Seq[Expression], dataFilters: Seq[Expression]): Seq[PartitionDirectory] = super.listFiles(Nil, Nil)
  override def sizeInBytes: Long = size
}

/** Hypothetical settings, tables and views (SQL text) by name in lower case. */
case class Assumptions(settings: Map[String, String], private val definitions: Map[String, JObject], views: Map[String, String]) {

  private var known = Map.empty[String, AssumedTable]

  private def key(name: TableIdentifier) = s"${name.database.getOrElse("")}.${name.table}".toLowerCase(Locale.ROOT)

  /** Plans a statement under these assumptions. */
  def within[A](plan: => A): A = Assumptions.using(this)(plan)

  def tableOf(session: SparkSession, name: TableIdentifier): Option[AssumedTable] = definitions.get(key(name)).map { json =>
    // The definition may refer to the table of the catalog.
    def defined = Assumptions.using(null)(new AssumedTables(session, name.copy(catalog = Some("spark_catalog"))).of(json))
    val table = known.getOrElse(key(name), defined)
    known += key(name) -> table
    table
  }

  /** Returns the plan of a hypothetical table or view, under its name. */
  def plan(session: SparkSession, name: TableIdentifier): Option[LogicalPlan] =
    tableOf(session, name).map(_.relation).orElse(views.get(key(name)).map { sql =>
      Compat.analyzed(session, Compat.parsed(session, sql))
    })
}

object Assumptions {
  val None: Assumptions = Assumptions(Map.empty, Map.empty, Map.empty)
  private val current = new ThreadLocal[Assumptions]

  private def using[A](assumptions: Assumptions)(act: => A): A = {
    val before = current.get
    current.set(assumptions)
    try act finally current.set(before)
  }

  def active: Option[Assumptions] = Option(current.get)

  def parse(text: String): Assumptions = {
    val json = Try(JsonMethods.parse(text)).toOption.collect { case of: JObject => of }.getOrElse(throw refused(text.take(200), "a JSON object"))
    json.obj.collectFirst { case (field, _) if !Set("settings", "tables", "views")(field) => throw refused(s"the field $field", "settings, tables or views") }
    def named(field: String) = (json \ field match {
      case JArray(all) => all
      case JNothing | JNull => Nil
      case other => throw refused(s"$field: ${JsonMethods.compact(other)}", "an array of objects with a name")
    }).map {
      case of: JObject => AssumedTables.text(of, "name").getOrElse(throw refused(JsonMethods.compact(of), "an object with a name")).toLowerCase(Locale.ROOT) -> of
      case other => throw refused(JsonMethods.compact(other), "an object with a name")
    }.toMap
    val settings = json \ "settings" match {
      case JObject(all) => all.map { case (key, value) => key -> AssumedTables.plain(value).getOrElse(throw refused(s"the setting $key", "a string")) }
      case JNothing | JNull => Nil
      case other => throw refused(s"settings: ${JsonMethods.compact(other)}", "an object")
    }
    Assumptions(settings.toMap, named("tables"), named("views").map { case (name, of) =>
      name -> AssumedTables.text(of, "sql").getOrElse(throw refused(s"the view $name", "an object with name and sql"))
    })
  }

  def refused(found: String, expected: String): AnalysisException = Compat.refusal(
    "The ASSUMING clause of EXPLAIN BUCKETS is invalid.", found, expected, "correct the document; docs/reference/explain-buckets.md describes its fields")
}

/** Reads the definition of a hypothetical table. Fields that it omits come from the table with this name, if there is one. */
private class AssumedTables(session: SparkSession, name: TableIdentifier) {

  private lazy val existing: Option[CatalogTable] =
    Try(Compat.catalog(session).getTableMetadata(name.copy(catalog = scala.None))).toOption.filter(_.tableType != CatalogTableType.VIEW)

  def of(json: JObject): AssumedTable = {
    val columns = json \ "columns" match {
      case JArray(all) => Compat.tableSchema(session, all.map { column =>
        val (of, kind) = (AssumedTables.text(column, "name"), AssumedTables.text(column, "type"))
        if (of.isEmpty || kind.isEmpty) throw refused("a column without name or type")
        // `void` is the type of a bare NULL; no table column has it.
        s"`${of.get.replace("`", "``")}` ${if (kind.get.equalsIgnoreCase("void")) "string" else kind.get}"
      }.mkString(", "))
      case _ => existing.map(_.schema).getOrElse(throw refused("no columns, and no table of this name"))
    }
    val isOther = existing.isEmpty || (json \ "columns").isInstanceOf[JArray]
    val partitions = if (isOther) names(json \ "partition_columns") else existing.get.partitionColumnNames
    val spec = json \ "spec" match {
      case JNothing if !isOther => existing.flatMap(table => table.bucketSpec.map(_ -> PartitionFiles.hashesOf(table).head))
      case of: JObject => Some(bucketSpec(of, columns))
      case _ => scala.None
    }
    val bytes = json \ "size_bytes" match {
      case JInt(bytes) => Some(bytes.toLong)
      case JNothing if !isOther => existing.map(CurrentFiles.now(session, _).flatMap(_.files).map(_.getLen).sum)
      case _ => scala.None
    }
    AssumedTable(name, columns, partitions, spec, bytes, number(json \ "rows"), json \ "size_known" != JBool(false),
      AssumedTables.text(json, "format").orElse(existing.filterNot(_ => isOther).map(SealedFormats.of)).getOrElse("parquet").toLowerCase(Locale.ROOT),
      number(json \ "files_per_bucket").fold(1)(_.toInt.max(1)))(session)
  }

  private def bucketSpec(of: JObject, columns: StructType): (BucketSpec, BucketHash) = {
    def spelled(names: Seq[String]) = names.map(name => columns.fieldNames.find(_.equalsIgnoreCase(name)).getOrElse(
      throw refused(s"the bucket or sort column $name, but no such column")))
    val hash = BucketHash.named(AssumedTables.text(of, "hash").getOrElse("hive")).getOrElse(throw refused(JsonMethods.compact(of \ "hash")))
    val buckets = number(of \ "buckets").filter(n => n > 0 && n <= SQLConf.get.bucketingMaxBuckets).getOrElse(throw refused(s"buckets: ${JsonMethods.compact(of)}"))
    val keys = spelled(names(of \ "columns"))
    if (keys.isEmpty) throw refused("a bucket spec without columns")
    BucketSpec(buckets.toInt, keys, spelled(names(of \ "sort_columns"))) -> hash
  }

  private def names(json: JValue): Seq[String] = json match {
    case JArray(all) => all.collect { case JString(name) => name }
    case _ => Nil
  }

  private def number(json: JValue): Option[Long] = Some(json).collect { case JInt(number) => number.toLong }

  private def refused(found: String) = Assumptions.refused(s"table ${name.quotedString}: $found",
    "name, columns with name and type, partition_columns, spec with buckets, columns, sort_columns and hash, size_bytes, format, files_per_bucket")
}

private object AssumedTables {
  def plain(value: JValue): Option[String] = value match {
    case JString(text) => Some(text)
    case JInt(number) => Some(number.toString)
    case JBool(is) => Some(is.toString)
    case _ => scala.None
  }

  def text(json: JValue, field: String): Option[String] = Some(json \ field).collect { case JString(text) => text }
}

/**
 * Replaces tables and views with hypothetical ones. Spark 4 applies this rule before it resolves tables. Spark 3.5 applies it after it has resolved tables, so
 * that a view of the catalog cannot be replaced.
 */
case class AssumeTables(session: SparkSession) extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = Assumptions.active.fold(plan) { assumptions =>
    plan.resolveOperatorsUp {
      case relation: UnresolvedRelation if !relation.isStreaming => named(relation.multipartIdentifier).flatMap { name =>
        assumptions.plan(session, name).map(SubqueryAlias(Seq("spark_catalog", name.database.get, name.table), _))
      }.getOrElse(relation)
      case relation: LogicalRelation => existing(assumptions, relation, relation.catalogTable.filter(_ => !isAssumed(relation)))
      case relation: HiveTableRelation => existing(assumptions, relation, Some(relation.tableMeta))
    }
  }

  private def isAssumed(relation: LogicalRelation) = relation.relation match {
    case files: HadoopFsRelation => files.location.isInstanceOf[AssumedFileIndex]
    case _ => false
  }

  private def existing(assumptions: Assumptions, relation: LogicalPlan, table: Option[CatalogTable]): LogicalPlan =
    table.flatMap(of => assumptions.plan(session, of.identifier)).getOrElse(relation)

  /** Returns the table or view that a name stands for, unless a temporary view hides it. */
  private def named(parts: Seq[String]): Option[TableIdentifier] = parts match {
    case Seq(table) if Compat.catalog(session).isTempView(parts) => scala.None
    case Seq(table) => Some(TableIdentifier(table, AnalysisContext.get.catalogAndNamespace.lastOption.orElse(Some(Compat.catalog(session).getCurrentDatabase))))
    case Seq(database, table) => Some(TableIdentifier(table, Some(database)))
    case Seq(catalog, database, table) if catalog.equalsIgnoreCase("spark_catalog") => Some(TableIdentifier(table, Some(database)))
    case _ => scala.None
  }
}
