package org.apache.spark.sql.bucketing
package read

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.FallbackReason._
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.hash.{BucketCounts, BucketHash}
import org.apache.spark.sql.bucketing.metadata._
import org.apache.spark.sql.catalyst.catalog.{BucketSpec, CatalogTable, CatalogTablePartition, HiveTableRelation}
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution.FileSourceScanExec
import org.apache.spark.sql.execution.command.DDLUtils
import org.apache.spark.sql.execution.datasources.{FileIndex, HadoopFsRelation, LogicalRelation, PartitioningUtils}
import org.apache.spark.sql.execution.datasources.orc.OrcFileFormat
import org.apache.spark.sql.execution.datasources.parquet.{ParquetFileFormat, ParquetUtils}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

/** The files of a scan, listed on first use. If planning depends on the listing, the scan reads exactly these files. */
class LazyFileListing(scan: FileSourceScanExec) {

  private lazy val all = BucketListing.of(scan)
  private var asked = false

  def listing: BucketListing = { asked = true; all }

  /** Returns the listing if it has been used before, otherwise None. The method never lists files. */
  def listed: Option[BucketListing] = if (asked) Some(all) else None
}

/** A file index whose files have known seals. */
trait SealedFileIndex extends FileIndex {

  /** The table, the bucket spec of all files, and the seals of these files by directory. None if a file has no valid seal. */
  def seals: Option[(CatalogTable, SealedSpec, Map[String, Seal])]
}

/** The files of a table that is not in the metastore. The catalog entry of its relation has the seal of all files. */
trait AssumedFileIndex extends FileIndex

/**
 * An ordinary scan.
 *
 * @param seals the seals of the directories that have one
 */
case class Fallback(why: FallbackReason, seals: Map[String, Seal])

/** Determines the bucket spec of a scan from the seals in the metastore. BucketedReads compares the seals with the files. */
object SealedSpecs {

  /** A partition that the query selects, or an unpartitioned table. The name of an unpartitioned table is empty here. */
  private case class Part(name: String, folder: String, seal: Either[FallbackReason, Seal])

  type Outcome = Either[Fallback, BucketRead]
  private type Found = Either[FallbackReason, (SealedSpec, SealedFolders)]

  /** Returns how to read a table's buckets, or the reason for an ordinary scan. Returns None if stock Spark reads the table. */
  def of(scan: FileSourceScanExec, files: LazyFileListing): Option[Outcome] = scan.relation.location match {
    case known: SealedFileIndex => known.seals.map { case (table, spec, seals) =>
      columns(scan, table, spec, SealedFolders(spec.numBuckets, seals)).left.map(Fallback(_, Map.empty))
    }
    case _ =>
      for {
        relation <- relationOf(scan)
        cached <- relation.catalogTable
        read <- if (DDLUtils.isHiveTable(cached)) hiveLayout(scan, relation, cached, files) else sparkLayout(scan, cached, files)
      } yield read
  }

  /**
   * Returns a reason if a scan may return values that differ from the sealed values. The values depend on the file format and on
   * the session's settings, which a seal does not cover. A supported reader returns the values that were written, and can
   * read several files at the same time. A subclass of such a reader may behave differently, so it is not supported.
   */
  def otherColumns(relation: HadoopFsRelation): Option[FallbackReason] = RetainedReads.stock(relation.fileFormat) match {
    case _ if SQLConf.get.caseSensitiveAnalysis =>
      Some(FallbackReason(AmbiguousColumn, "spark.sql.caseSensitive is true, and column names in files may differ in case"))
    case Parquet if SQLConf.get.parquetFieldIdReadEnabled && ParquetUtils.hasFieldIds(relation.dataSchema) =>
      Some(FallbackReason(FieldIds, s"${SQLConf.PARQUET_FIELD_ID_READ_ENABLED.key} is true, and files may have other field ids, or none"))
    case Parquet => None
    case Orc => ofOrc(relation.sparkSession.sessionState.newHadoopConfWithOptions(relation.options))
    case HivesOrc => Some(FallbackReason(UnsupportedReader, s"${SQLConf.ORC_IMPLEMENTATION.key} is hive, and Hive's reader returns the same row object for several files"))
    case other => Some(FallbackReason(UnsupportedReader, s"its files are read by ${other.getName}"))
  }

  private val Parquet = classOf[ParquetFileFormat]
  private val Orc = classOf[OrcFileFormat]
  private val HivesOrc = classOf[org.apache.spark.sql.hive.orc.OrcFileFormat]

  private val ByPosition = "orc.force.positional.evolution"

  private def ofOrc(conf: Configuration): Option[FallbackReason] =
    if (conf.getBoolean(ByPosition, false))
      Some(FallbackReason(PositionalColumns, s"$ByPosition is true, and files may have columns in another order"))
    else SealedFormats.ofEncryption(conf.get).map(FallbackReason(UnsupportedReader, _))

  /** Returns the logical relation of a scan, from the logical plan that Spark attaches to the scan. */
  def relationOf(scan: FileSourceScanExec): Option[LogicalRelation] = {
    val stock = scan.relation.copy(location = CurrentFiles.stock(scan.relation.location))(scan.relation.sparkSession)
    scan.logicalLink.flatMap(_.collectFirst {
      case relation: LogicalRelation if relation.relation == stock => relation
    })
  }

  private def hiveLayout(
      scan: FileSourceScanExec, relation: LogicalRelation, cached: CatalogTable,
      files: LazyFileListing): Option[Outcome] = {
    def read(table: CatalogTable) = table.bucketSpec.map(buckets(scan, table, _, files))
    relation.getTagValue(CaptureTables.AsAnalyzed) match {
      // If a DataFrame or a cached query was analyzed before the table was sealed, its metadata has no seal yet.
      case Some(noted) => read(noted).map { found =>
        if (isProven(noted, found, files)) found else read(current(scan, cached)).getOrElse(found)
      }
      case None => read(current(scan, cached))
    }
  }

  /**
   * Returns whether the captured metadata is current. It has no seals of partitions. For an unpartitioned table, this method
   * compares the seal with the files.
   */
  private def isProven(table: CatalogTable, read: Outcome, files: LazyFileListing): Boolean =
    read.exists(found => table.partitionColumnNames.nonEmpty || found.folders.objectionTo(files.listing, found.of.hash).isEmpty)

  /** Returns how to read a sealed table in the Spark layout. Stock Spark reads other tables, with the table's bucket spec. */
  private def sparkLayout(
      scan: FileSourceScanExec, cached: CatalogTable, files: LazyFileListing): Option[Outcome] = for {
    spec <- scan.relation.bucketSpec if BucketingConf.readsSparkLayout
  } yield buckets(scan, current(scan, cached), spec, files).flatMap { found =>
    val isAsPlanned = scan.bucketedScan && scan.optionalBucketSet.isEmpty && scan.optionalNumCoalescedBuckets.isEmpty &&
      found.folders.distinct == Seq(spec.numBuckets) && found.of.keys.corresponds(spec.bucketColumnNames)(_ equalsIgnoreCase _)
    if (isAsPlanned) Right(found) else Left(Fallback(NotNeeded, found.folders.seals))
  }

  private def isAssumed(scan: FileSourceScanExec): Boolean = scan.relation.location.isInstanceOf[AssumedFileIndex]

  /** Returns the table from the metastore, because another session may have changed it since this session cached it. */
  def current(scan: FileSourceScanExec, table: CatalogTable): CatalogTable = if (isAssumed(scan)) table else
    PerQueryCache(table.identifier)(Compat.current(scan.relation.sparkSession, table))

  private def buckets(
      scan: FileSourceScanExec, table: CatalogTable, ofTable: BucketSpec,
      files: LazyFileListing): Outcome = {
    val hashes = PartitionFiles.hashesOf(table)
    val found = if (table.partitionColumnNames.isEmpty || isAssumed(scan)) Seq(whole(scan, table, hashes))
      else KeptSeals.in(scan).flatMap(_.partitions(filtersOf(scan))).fold(partitions(scan, table, hashes))(parts(scan, table, hashes, _))
    of(found, scan, table, ofTable, hashes.head, files)
  }

  private def of(parts: Seq[Part], scan: FileSourceScanExec, table: CatalogTable, ofTable: BucketSpec, hash: BucketHash, files: LazyFileListing): Outcome = {
    val cores = BucketTasks.cores(scan.relation.sparkSession)
    // If there are no files, plan with the table's bucket spec, because the next write uses it.
    def empty: Found = SealedSpec.of(ofTable, hash, scan.relation.dataSchema)
      .toRight(FallbackReason(AmbiguousColumn, "its bucket columns do not match the columns of its files"))
      .map(_ -> SealedFolders(ofTable.numBuckets, Map.empty))
    def found = together(parts, cores).fold(_ => {
      val filled = withFiles(parts, files.listing)
      if (filled.isEmpty) empty else together(filled, cores)
    }, Right(_))
    otherColumns(scan.relation).toLeft(()).flatMap(_ => found).flatMap { case (spec, folders) => columns(scan, table, spec, folders) }
      .left.map(Fallback(_, parts.collect { case Part(_, folder, Right(seal)) => folder -> seal }.toMap))
  }

  /** Returns the parts that have files, or should have some, or all parts if some file belongs to none of them. */
  private def withFiles(parts: Seq[Part], listing: BucketListing): Seq[Part] = {
    val folders = listing.files.iterator.map(file => BucketFiles.folderOf(file)).toSet
    if (folders.subsetOf(parts.map(_.folder).toSet)) parts.filter(part => folders.contains(part.folder) || part.seal.exists(_.files.count > 0)) else parts
  }

  private def whole(scan: FileSourceScanExec, table: CatalogTable, hashes: Seq[BucketHash]): Part = {
    val conf = hadoopConf(scan.relation.sparkSession)
    Part("", BucketFiles.folderOf(new Path(table.location), conf), sealOf(table.properties, hashes, _.fits(scan.relation.dataSchema)))
  }

  /** Returns the seals in the metastore of the selected partitions, by directory. */
  def seals(session: SparkSession, table: CatalogTable, filters: Seq[Expression]): Map[String, Seal] = {
    val conf = Compat.hadoopConf(session)
    val stored = if (table.partitionColumnNames.isEmpty) Seq(table.location -> table.properties)
      else Compat.partitionsBy(session, table, filters).map(of => of.location -> of.parameters)
    stored.flatMap { case (location, properties) =>
      Seal.parse(properties).flatMap(_.toOption).map(BucketFiles.folderOf(new Path(location), conf) -> _)
    }.toMap
  }

  private def hadoopConf(session: SparkSession): Configuration = PerQueryCache("hadoop conf")(Compat.hadoopConf(session))

  /** Returns the partitions that the query selects, with their seals in the metastore. Dynamic pruning may exclude some of them later. */
  private def partitions(scan: FileSourceScanExec, table: CatalogTable, hashes: Seq[BucketHash]): Seq[Part] = {
    val filters = filtersOf(scan)
    PerQueryCache((table.identifier, hashes, scan.relation.dataSchema, PerQueryCache.comparable(filters))) {
      parts(scan, table, hashes, Compat.partitionsBy(scan.relation.sparkSession, table, filters))
    }
  }

  private def filtersOf(scan: FileSourceScanExec): Seq[Expression] = PerQueryCache.known(scan.partitionFilters).filter(_.deterministic)

  private def parts(scan: FileSourceScanExec, table: CatalogTable, hashes: Seq[BucketHash], partitions: Seq[CatalogTablePartition]): Seq[Part] = {
    val conf = hadoopConf(scan.relation.sparkSession)
    val known = mutable.Map.empty[SealedSpec, Boolean]
    def fits(spec: SealedSpec) = known.getOrElseUpdate(spec, spec.fits(scan.relation.dataSchema))
    partitions.map { partition =>
      val name = PartitioningUtils.getPathFragment(partition.spec, table.partitionSchema)
      Part(name, BucketFiles.folderOf(new Path(partition.location), conf), sealOf(partition.parameters, hashes, fits))
    }
  }

  private def sealOf(
      properties: Map[String, String], hashes: Seq[BucketHash], fits: SealedSpec => Boolean): Either[FallbackReason, Seal] =
    Seal.parse(properties) match {
      case None => Left(FallbackReason(NotSealed, "its files are not sealed"))
      case Some(Left(why)) => Left(FallbackReason(SealUnreadable, why))
      case Some(Right(seal)) if !hashes.contains(seal.spec.hash) => Left(FallbackReason(SealStale, s"its seal has the ${seal.spec.hash} layout"))
      case Some(Right(seal)) if !fits(seal.spec) =>
        Left(FallbackReason(ColumnsChanged, s"the sealed columns are ${seal.spec.schema.map(c => s"${c.name} ${c.dataType}").mkString(", ")}"))
      case Some(Right(seal)) => Right(seal)
    }

  /**
   * Returns one bucket spec with which several parts can be read together. The number of buckets is the greatest common
   * divisor of all numbers of buckets. The sort columns are the common prefix of all lists of sort columns.
   */
  private def together(parts: Seq[Part], cores: Int): Found =
    if (parts.isEmpty) Left(FallbackReason(NotSealed, "the query selects no partition"))
    else parts.collectFirst { case Part(name, _, Left(why)) =>
      val others = parts.count(_.seal.left.exists(_.code == why.code)) - 1
      if (name.isEmpty) why else why.copy(words = s"partition $name${more(others)}: ${why.words}")
    }.toLeft(()).flatMap { _ =>
      val seals = parts.collect { case Part(name, folder, Right(seal)) => (name, folder, seal) }
      val specs = seals.map { case (name, _, seal) => name -> seal.spec }
      val counts = specs.map(_._2.numBuckets)
      val common = BucketCounts.common(counts)
      if (specs.map(_._2.columns).distinct.length > 1) Left(differing(specs, "by " + _.columns.mkString(", ")))
      else if (specs.map(_._2.hash).distinct.length > 1) Left(differing(specs, "hash " + _.hash.name))
      else if (!BucketAlignment.worthMerging(common, counts.max, cores)) Left(differing(specs, s => s"${s.numBuckets} buckets"))
      else {
        val sorts = specs.map(_._2.sortColumns).reduce((a, b) => a.zip(b).takeWhile { case (x, y) => x == y }.map(_._1))
        val spec = specs.head._2.copy(numBuckets = common, sortColumns = sorts)
        Right(spec -> SealedFolders(common, seals.map { case (_, folder, seal) => folder -> seal }.toMap))
      }
    }

  /** Returns the reason for an ordinary scan. The reason names up to three different specs, each with an example partition. */
  private def differing(specs: Seq[(String, SealedSpec)], kind: SealedSpec => String): FallbackReason = {
    val kinds = specs.map { case (name, spec) => kind(spec) -> name }
    val examples = kinds.map(_._1).distinct.take(3).map { found =>
      val names = kinds.filter(_._1 == found).map(_._2)
      s"$found in ${names.head}${more(names.length - 1)}"
    }
    FallbackReason(MixedBucketSpecs, s"its bucket specs differ: ${examples.mkString(", ")}")
  }

  private def more(others: Int): String = if (others == 0) "" else s" and $others more"

  private def columns(
      scan: FileSourceScanExec, table: CatalogTable, spec: SealedSpec, folders: SealedFolders): Either[FallbackReason, BucketRead] = {
    val keys = spec.columns.map(keyColumn(scan, _))
    keys.collectFirst { case Left(why) => why }.toLeft {
      val sorts = spec.sortColumns.map(named(scan, _)).takeWhile(found => found.size == 1 && sortable(found.head))
      val of = SealedBuckets(table.identifier.unquotedString, spec.hash, spec.numBuckets, keys.collect { case Right(key) => key.name },
        sorts.map(_.head.name))
      BucketRead(of, folders, spec.numBuckets)
    }
  }

  private def keyColumn(scan: FileSourceScanExec, name: String): Either[FallbackReason, Attribute] = named(scan, name) match {
    case Seq(column) if BucketHash.spreads(rawType(column)) => Right(column)
    case Seq(column) =>
      Left(FallbackReason(UnsupportedColumn, s"bucket column $name has the unsupported type ${rawType(column).catalogString}"))
    case Seq() => Left(FallbackReason(ColumnNotRead, s"bucket column $name is not read"))
    case _ => Left(FallbackReason(AmbiguousColumn, s"several columns are named $name"))
  }

  /** Returns the columns with this name. Upper and lower case do not differ, because the metastore may store names in lower case. */
  private def named(scan: FileSourceScanExec, name: String): Seq[Attribute] =
    scan.output.filter(_.name.equalsIgnoreCase(name))

  private def rawType(column: Attribute): DataType = BucketHash.rawType(column.dataType, column.metadata)

  // Values of these types have the same order when they are read as when they were written. This does not hold for timestamps:
  // Parquet may truncate them, and ORC stores the writer's local time.
  private def sortable(column: Attribute): Boolean = rawType(column) match {
    case string: StringType => string == StringType
    case _: NumericType | BooleanType | DateType => true
    case _ => false
  }
}

/**
 * Captures the metadata of tables in the Hive layout during analysis, which avoids a second metastore call. Later, Spark
 * replaces their relations with cached relations. Cached relations may be older than a seal of another session.
 */
object CaptureTables extends Rule[LogicalPlan] {

  val AsAnalyzed: TreeNodeTag[CatalogTable] = TreeNodeTag("bucketing.as_analyzed")

  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan.foreach {
      case relation: HiveTableRelation => relation.setTagValue(AsAnalyzed, relation.tableMeta)
      case _ =>
    }
    plan
  }
}
