package org.apache.spark.sql.bucketing
package explain

import scala.collection.mutable
import scala.util.Try

import org.json4s.JsonAST.{JObject, JValue}
import org.json4s.JsonDSL._

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.{Compat, ScanFiles}
import org.apache.spark.sql.bucketing.hash.BucketHash
import org.apache.spark.sql.bucketing.metadata.{BucketFiles, FileStatistics, PartitionFiles, SealedFormats}
import org.apache.spark.sql.bucketing.read._
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, HiveTableRelation}
import org.apache.spark.sql.catalyst.expressions.PlanExpression
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LogicalPlan, Project}
import org.apache.spark.sql.execution.{FileSourceScanExec, LeafExecNode, SparkPlan}
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec
import org.apache.spark.sql.execution.datasources._
import org.apache.spark.sql.execution.datasources.v2.BatchScanExec
import org.apache.spark.sql.sources.DataSourceRegister

/** Describes the tables of a plan, and how its scans read them. */
class TableFacts(session: SparkSession, assumptions: Assumptions) {

  private val named = mutable.LinkedHashMap.empty[String, JObject]

  /** The tables that scans read, by name. */
  def all: Seq[(String, JValue)] = named.toSeq

  /** Returns the name of the table that an operator scans. */
  def scanned(plan: SparkPlan): Option[String] = plan match {
    case scan: BatchScanExec => Some(TableFacts.text(scan.table.name)).filter(_.contains("."))
    case _: InMemoryTableScanExec => None
    case leaf: LeafExecNode => TableFacts.metadata(leaf).map(table => TableFacts.text(table.identifier.unquotedString))
    case _ => None
  }

  /** Describes how a scan has read a table, without asking the catalog and without listing files. */
  def read(plan: SparkPlan, name: String): JObject = ("table" -> name) ~ (plan match {
    case files: FileSourceScanExec => TableFacts.buckets(files)
    case _ => JObject()
  })

  /** Describes how a scan reads a table. */
  def scan(plan: SparkPlan, name: String): JObject = {
    val table = TableFacts.metadata(plan)
    table.foreach(of => if (!named.contains(name)) described(of, plan).foreach(named(name) = _))
    val common = ("table" -> name) ~ ("table_bytes" -> TableFacts.bytes(plan, isAbove = false)) ~ ("read_bytes" -> TableFacts.bytes(plan, isAbove = true))
    plan match {
      case files: FileSourceScanExec => common merge ofFiles(files, table.get)
      case _: BatchScanExec => common ~ ("format" -> "")
      case _ if plan.nodeName.startsWith("Scan hive ") || plan.nodeName.startsWith("HiveTableScan") => common ~ ("format" -> "hive")
      case _ => common ~ ("format" -> table.flatMap(_.provider))
    }
  }

  private def ofFiles(scan: FileSourceScanExec, table: CatalogTable): JObject = {
    val format = scan.relation.fileFormat match {
      case registered: DataSourceRegister => registered.shortName()
      case other => other.toString
    }
    val isPartitioned = table.partitionColumnNames.nonEmpty
    val isAssumed = scan.relation.location.isInstanceOf[AssumedFileIndex]
    // If sealed files are missing, the scan fails when it lists its files.
    val listing = Try(TableFacts.listing(scan)).toOption.filter(_ => !isAssumed || isSizeKnown(table))
    val files = listing.map(_.files).getOrElse(Array.empty)
    val fallback = TableFacts.fallback(scan)
    val folders = if (fallback.isDefined && isPartitioned && !isAssumed) files.map(_.toPath.getParent.toString).distinct.toSeq else Nil
    val hash = TableFacts.hashOf(table)
    ("format" -> format) ~ TableFacts.buckets(scan) ~ ("fallback" -> fallback.map(why => ("code" -> why.code) ~ ("words" -> why.words))) ~
      ("seal" -> table.bucketSpec.map(_ => TableFacts.seal(scan))) ~
      ("partitions" -> (if (!isPartitioned) Some(1) else if (isAssumed) None else listing.map(of => ScanFiles.partitions(of.stock)))) ~
      ("all_partitions" -> TableFacts.readsAllPartitions(scan, table)) ~
      ("folders" -> folders) ~
      ("files_per_bucket" -> table.bucketSpec.flatMap(_ => TableFacts.filesPerBucket(files.map(file => BucketFiles.nameOf(file)), hash))) ~
      ("files" -> listing.map(_.files.length)) ~ ("bytes" -> listing.map(_.bytes)) ~
      ("dynamic_pruning" -> scan.partitionFilters.exists(_.exists(_.isInstanceOf[PlanExpression[_]])))
  }

  /** Returns the files of a table by directory. Lists the files only if the scan does not read all of them. */
  private def directories(table: CatalogTable, scan: SparkPlan): Seq[Seq[(String, Long)]] = scan match {
    case files: FileSourceScanExec if table.bucketSpec.isDefined && TableFacts.readsAll(files, table) =>
      TableFacts.listing(files).files.toSeq.groupBy(BucketFiles.folderOf(_)).values.toSeq.map(_.map(file => BucketFiles.nameOf(file) -> file.length))
    case _ if table.bucketSpec.isDefined =>
      CurrentFiles.now(session, table).map(_.files.filter(_.getLen > 0).map(file => file.getPath.getName -> file.getLen))
    case _ => Nil
  }

  private def isSizeKnown(table: CatalogTable): Boolean = assumptions.tableOf(session, table.identifier).forall(_.bytes.isDefined)

  private def described(table: CatalogTable, scan: SparkPlan): Option[JObject] = Try {
    val assumed = assumptions.tableOf(session, table.identifier)
    val current = assumed.fold(Compat.catalog(session).getTableMetadata(table.identifier))(_.table)
    // If Hive's own reader reads the table, Spark has no index of its files.
    val known = if (assumed.isDefined) None else Try(directories(current, scan)).toOption
    val listed = known.getOrElse(Nil)
    val hash = TableFacts.hashOf(current)
    val files = listed.flatten
    val statistics = current.stats.map(_.sizeInBytes)
    val size = assumed.fold(statistics.orElse(current.bucketSpec.filter(_ => known.isDefined).map(_ => BigInt(files.map(_._2).sum))))(_.bytes.map(BigInt(_)))
    val perBucket = listed.flatMap(of => TableFacts.filesPerBucket(of.map(_._1), hash))
    val columns: Seq[JObject] = current.schema.map { field =>
      ("name" -> field.name) ~ ("type" -> BucketHash.rawType(field.dataType, field.metadata).catalogString)
    }
    ("columns" -> columns) ~ ("partition_columns" -> current.partitionColumnNames) ~
      ("spec" -> current.bucketSpec.map { spec =>
        ("buckets" -> spec.numBuckets) ~ ("columns" -> spec.bucketColumnNames) ~ ("sort_columns" -> spec.sortColumnNames) ~ ("hash" -> hash.name)
      }) ~ ("format" -> assumed.fold(SealedFormats.of(current))(_.format).toLowerCase(java.util.Locale.ROOT)) ~ ("size_bytes" -> size) ~
      ("files_per_bucket" -> current.bucketSpec.map(_ => assumed.fold((1 +: perBucket).max)(_.filesPerBucket))) ~
      ("empty_buckets" -> current.bucketSpec.flatMap(spec => TableFacts.emptyBuckets(files.map(_._1), spec.numBuckets, hash))) ~
      ("empty" -> (known.isDefined && current.bucketSpec.isDefined && files.isEmpty)) ~ ("assumed" -> assumed.isDefined)
  }.toOption
}

object TableFacts {

  /** Names of scans other than file scans whose table is that of their logical relation. */
  private val Readers = Set("Scan", "HiveTableScan")

  /** Returns the catalog entry of the table that an operator scans. */
  def metadata(scan: SparkPlan): Option[CatalogTable] = {
    def relation(isTable: CatalogTable => Boolean) = scan.logicalLink.flatMap(_.collectFirst {
      case relation: LogicalRelation if relation.catalogTable.exists(isTable) => relation.catalogTable.get
      case relation: HiveTableRelation if isTable(relation.tableMeta) => relation.tableMeta
    })
    scan match {
      case files: FileSourceScanExec => files.tableIdentifier.flatMap(name => relation(_.identifier == name))
      case _ if Readers(scan.nodeName.takeWhile(_ != ' ')) => relation(_ => true)
      case _ => None
    }
  }

  def text(name: String): String = name.stripPrefix("spark_catalog.")

  def hashOf(table: CatalogTable): BucketHash = PartitionFiles.hashesOf(table).head

  /** Returns the files that a scan reads. */
  private def listing(scan: FileSourceScanExec): BucketListing = scan match {
    case of: BucketAwareScan if of.listing != null => of.listing
    case _ => BucketListing.of(scan)
  }

  /** Returns whether no filter removed a partition. */
  private def readsAllPartitions(scan: FileSourceScanExec, table: CatalogTable): Boolean = CurrentFiles.stock(scan.relation.location) match {
    case _: AssumedFileIndex | _: CatalogFileIndex => true
    case _ => table.partitionColumnNames.isEmpty
  }

  private def readsAll(scan: FileSourceScanExec, table: CatalogTable): Boolean = readsAllPartitions(scan, table) && scan.partitionFilters.isEmpty &&
    !FileStatistics.isKept(table.properties) && !Try(listing(scan)).toOption.exists(_.pruned.isDefined)

  /** Returns how a scan reads buckets. */
  private def buckets(scan: FileSourceScanExec): JObject = scan match {
    case of: BucketScan => ("bucketed" -> true) ~ ("by_extension" -> true) ~ ("buckets" -> of.read.partitions) ~ ("sorted" -> of.read.ordered) ~
      ("merged" -> of.read.merged) ~ ("read" -> of.read.toString)
    case _ =>
      val number = if (!scan.bucketedScan) None else scan.optionalNumCoalescedBuckets.orElse(scan.relation.bucketSpec.map(_.numBuckets))
      val isBucketed = if (number.isDefined) Some(true) else if (fallback(scan).isDefined || scan.relation.bucketSpec.isDefined) Some(false) else None
      ("bucketed" -> isBucketed) ~ ("by_extension" -> false) ~ ("buckets" -> number) ~ ("sorted" -> (number.isDefined && scan.outputOrdering.nonEmpty))
  }

  private def fallback(scan: FileSourceScanExec): Option[FallbackReason] = scan match {
    case of: FallbackScan => Some(of.why)
    case _ => None
  }

  /** Returns the state of the seals of the files that a scan reads: `sealed` or an ordinary-scan code. */
  private def seal(scan: FileSourceScanExec): String = scan match {
    case _: BucketScan => PartitionFiles.Sealed
    case of: FallbackScan if of.why != FallbackReason.NotNeeded => of.why.code
    case _ => SealedSpecs.of(scan, new LazyFileListing(scan)).fold(FallbackReason.NotSealed) {
      case Right(found) => found.folders.objectionTo(BucketListing.of(scan), found.of.hash).fold(PartitionFiles.Sealed)(_.code)
      case Left(Fallback(why, _)) => if (why == FallbackReason.NotNeeded) PartitionFiles.Sealed else why.code
    }
  }

  /** Returns the largest number of files of one bucket. None if the name of a file has no bucket id. */
  private def filesPerBucket(names: Seq[String], hash: BucketHash): Option[Int] = {
    val ids = names.map(BucketFiles.bucketOf(_, hash))
    if (ids.contains(None)) None else Some((1 +: ids.groupBy(identity).values.map(_.size).toSeq).max)
  }

  /** Returns the number of buckets without a file, or None if there are no files or some have no bucket id. */
  private def emptyBuckets(names: Seq[String], buckets: Int, hash: BucketHash): Option[Int] = {
    val ids = names.map(BucketFiles.bucketOf(_, hash)).distinct
    if (ids.isEmpty || ids.contains(None)) None else Some(math.max(buckets - ids.size, 0))
  }

  /** Returns the size that Spark expects of a scan's relation, or of the rows that projections and filters above it leave. */
  private def bytes(scan: SparkPlan, isAbove: Boolean): Option[BigInt] = scan.logicalLink.flatMap { link =>
    def chain(plan: LogicalPlan): Seq[LogicalPlan] = plan match {
      case _: Project | _: Filter => plan +: chain(plan.children.head)
      case other => Seq(other)
    }
    val sizes = chain(link).map(_.stats.sizeInBytes)
    if (sizes.last >= AssumedTable.Unknown) None else Some(if (isAbove) sizes.min else sizes.last)
  }
}
