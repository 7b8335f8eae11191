package org.apache.spark.sql.bucketing
package read

import scala.collection.mutable

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.hash.BucketHash
import org.apache.spark.sql.bucketing.FallbackReason._
import org.apache.spark.sql.bucketing.metadata._
import org.apache.spark.sql.catalyst.catalog.{BucketSpec, CatalogTable}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.execution.FileSourceScanExec
import org.apache.spark.sql.execution.command.DDLUtils
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation, PartitioningUtils}
import org.apache.spark.sql.execution.datasources.orc.OrcFileFormat
import org.apache.spark.sql.execution.datasources.parquet.{ParquetFileFormat, ParquetUtils}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

/** The files of a scan, listed when they are asked for. Who relies on what they are reads them, and no others. */
class LazyFileListing(scan: FileSourceScanExec) {

  private lazy val all = BucketListing.of(scan)
  private var asked = false

  def listing: BucketListing = { asked = true; all }

  /** The listing if somebody relies on it; nothing is listed for this. */
  def listed: Option[BucketListing] = if (asked) Some(all) else None
}

/** By which spec a scan can be read, as the seals in the metastore have it. That they fit the files is seen later. */
object SealedSpecs {

  /** A partition that the query selects, or the whole of a table without partitions (its name is empty then). */
  private case class Part(name: String, folder: String, seal: Either[FallbackReason, Seal])

  private type Found = Either[FallbackReason, (SealedSpec, SealedFolders)]

  /** How a scan's table can be read, or why plainly; None for what is left to stock Spark. */
  def of(scan: FileSourceScanExec, files: LazyFileListing): Option[Either[FallbackReason, BucketRead]] =
    for {
      relation <- relationOf(scan)
      cached <- relation.catalogTable
      read <- if (DDLUtils.isHiveTable(cached)) hiveLayout(scan, relation, cached, files) else sparkLayout(scan, cached, files)
    } yield read

  /**
   * Why what is read of a table may be something else than it was when its files were sealed: that is by their format and by
   * the session's settings, and a seal does not know them. Only readers that are known to return what was written, and rows
   * of several files at the same time, have no objection. A subclass of one of them may do anything else.
   */
  def otherColumns(relation: HadoopFsRelation): Option[FallbackReason] = relation.fileFormat.getClass match {
    case _ if SQLConf.get.caseSensitiveAnalysis =>
      Some(FallbackReason(AmbiguousColumn, "spark.sql.caseSensitive is true, and files may name columns in another case"))
    case Parquet if SQLConf.get.parquetFieldIdReadEnabled && ParquetUtils.hasFieldIds(relation.dataSchema) =>
      Some(FallbackReason(FieldIds, s"${SQLConf.PARQUET_FIELD_ID_READ_ENABLED.key} is true, and files may have other field ids, or none"))
    case Parquet => None
    case Orc => ofOrc(relation.sparkSession.sessionState.newHadoopConfWithOptions(relation.options))
    case HivesOrc => Some(FallbackReason(UnsupportedReader, s"${SQLConf.ORC_IMPLEMENTATION.key} is hive, whose reader returns the same row for several files"))
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

  /** The relation behind a scan: the planner leaves the logical plan of a scan with it. */
  def relationOf(scan: FileSourceScanExec): Option[LogicalRelation] =
    scan.logicalLink.flatMap(_.collectFirst {
      case relation: LogicalRelation if relation.relation == scan.relation => relation
    })

  private def hiveLayout(
      scan: FileSourceScanExec, relation: LogicalRelation, cached: CatalogTable,
      files: LazyFileListing): Option[Either[FallbackReason, BucketRead]] =
    relation.getTagValue(CaptureTables.AsAnalyzed) match {
      // A frame or a cached query may be older than the seal.
      case Some(noted) => hiveLayout(scan, noted, files).map { read =>
        if (isProven(noted, read, files)) read else hiveLayout(scan, current(scan, cached), files).getOrElse(read)
      }
      case None => hiveLayout(scan, current(scan, cached), files)
    }

  /** Seals of partitions are asked for anew in any case; the files of a table without partitions are listed already. */
  private def isProven(table: CatalogTable, read: Either[FallbackReason, BucketRead], files: LazyFileListing): Boolean =
    read.exists(found => table.partitionColumnNames.nonEmpty || found.folders.objectionTo(files.listing, found.of.hash).isEmpty)

  private def hiveLayout(
      scan: FileSourceScanExec, table: CatalogTable, files: LazyFileListing): Option[Either[FallbackReason, BucketRead]] = for {
    spec <- table.bucketSpec
  } yield table.properties.getOrElse("bucketing_version", "1").trim match {
    case "1" => buckets(scan, table, spec, BucketHash.Hive, files)
    case version => Left(FallbackReason(BucketingVersion, s"its bucketing_version is $version, only version 1 is read"))
  }

  /** What is not sealed, Spark reads its own way, by the table's spec alone. */
  private def sparkLayout(
      scan: FileSourceScanExec, cached: CatalogTable, files: LazyFileListing): Option[Either[FallbackReason, BucketRead]] = for {
    spec <- scan.relation.bucketSpec
    if BucketingConf.readsSparkLayout && scan.bucketedScan
    if scan.optionalBucketSet.isEmpty && scan.optionalNumCoalescedBuckets.isEmpty
    found <- buckets(scan, current(scan, cached), spec, BucketHash.Spark, files).toOption
    if found.folders.distinct == Seq(spec.numBuckets) && found.of.keys.corresponds(spec.bucketColumnNames)(_ equalsIgnoreCase _)
  } yield Right(found)

  /** As another session may have altered or sealed it since this one put it into its cache. */
  private def current(scan: FileSourceScanExec, table: CatalogTable): CatalogTable =
    PerQueryCache(table.identifier)(Compat.current(scan.relation.sparkSession, table))

  private def buckets(
      scan: FileSourceScanExec, table: CatalogTable, ofTable: BucketSpec, hash: BucketHash,
      files: LazyFileListing): Either[FallbackReason, BucketRead] = otherColumns(scan.relation).toLeft(()).flatMap { _ =>
    val parts = if (table.partitionColumnNames.isEmpty) Seq(whole(scan, table, hash)) else partitions(scan, table, hash)
    val cores = BucketTasks.cores(scan.relation.sparkSession)
    // Nothing is written yet: what will be, by the table's spec, is what the plan is made for.
    def empty: Found = SealedSpec.of(ofTable, hash, scan.relation.dataSchema)
      .toRight(FallbackReason(AmbiguousColumn, "its bucket columns are not those of its files"))
      .map(_ -> SealedFolders(ofTable.numBuckets, Map.empty))
    val found = together(parts, cores).fold(_ => {
      val filled = withFiles(parts, files.listing)
      if (filled.isEmpty) empty else together(filled, cores)
    }, Right(_))
    found.flatMap { case (spec, folders) => columns(scan, table, spec, folders) }
  }

  /** The parts that have files; all, where there are files of which it cannot be told whose they are. */
  private def withFiles(parts: Seq[Part], listing: BucketListing): Seq[Part] = {
    val folders = listing.files.iterator.map(file => BucketFiles.folderOf(file)).toSet
    if (folders.subsetOf(parts.map(_.folder).toSet)) parts.filter(part => folders.contains(part.folder)) else parts
  }

  private def whole(scan: FileSourceScanExec, table: CatalogTable, hash: BucketHash): Part = {
    val conf = hadoopConf(scan.relation.sparkSession)
    Part("", BucketFiles.folderOf(new Path(table.location), conf), sealOf(table.properties, hash, _.fits(scan.relation.dataSchema)))
  }

  private def hadoopConf(session: SparkSession): Configuration = PerQueryCache("hadoop conf")(Compat.hadoopConf(session))

  /** The selected partitions, by one call to the metastore. Those left out while the query runs are among them. */
  private def partitions(scan: FileSourceScanExec, table: CatalogTable, hash: BucketHash): Seq[Part] = {
    val session = scan.relation.sparkSession
    val filters = PerQueryCache.known(scan.partitionFilters).filter(_.deterministic)
    PerQueryCache((table.identifier, hash, scan.relation.dataSchema, PerQueryCache.comparable(filters))) {
      val conf = hadoopConf(session)
      val known = mutable.Map.empty[SealedSpec, Boolean]
      def fits(spec: SealedSpec) = known.getOrElseUpdate(spec, spec.fits(scan.relation.dataSchema))
      Compat.externalCatalog(session)
        .listPartitionsByFilter(table.database, table.identifier.table, filters, SQLConf.get.sessionLocalTimeZone)
        .map { partition =>
          val name = PartitioningUtils.getPathFragment(partition.spec, table.partitionSchema)
          Part(name, BucketFiles.folderOf(new Path(partition.location), conf), sealOf(partition.parameters, hash, fits))
        }
    }
  }

  private def sealOf(
      properties: Map[String, String], hash: BucketHash, fits: SealedSpec => Boolean): Either[FallbackReason, Seal] =
    Seal.parse(properties) match {
      case None => Left(FallbackReason(NotSealed, "its files are not sealed"))
      case Some(Left(why)) => Left(FallbackReason(SealUnreadable, why))
      case Some(Right(seal)) if seal.spec.hash != hash => Left(FallbackReason(SealBroken, s"sealed by the hash ${seal.spec.hash.name}"))
      case Some(Right(seal)) if !fits(seal.spec) =>
        Left(FallbackReason(ColumnsChanged, s"sealed were ${seal.spec.schema.map(c => s"${c.name} ${c.dataType}").mkString(", ")}"))
      case Some(Right(seal)) => Right(seal)
    }

  /** One spec for several parts: as many buckets as divide the number of each, sorted as far as all of them are. */
  private def together(parts: Seq[Part], cores: Int): Found =
    if (parts.isEmpty) Left(FallbackReason(NotSealed, "no partition is selected"))
    else parts.collectFirst { case Part(name, _, Left(why)) =>
      val others = parts.count(_.seal.left.exists(_.code == why.code)) - 1
      if (name.isEmpty) why else why.copy(words = s"partition $name${more(others)}: ${why.words}")
    }.toLeft(()).flatMap { _ =>
      val seals = parts.collect { case Part(name, folder, Right(seal)) => (name, folder, seal) }
      val specs = seals.map { case (name, _, seal) => name -> seal.spec }
      val counts = specs.map(_._2.numBuckets)
      val common = counts.map(BigInt(_)).reduce(_ gcd _).toInt
      if (specs.map(_._2.columns).distinct.length > 1) Left(differing(specs, "by " + _.columns.mkString(", ")))
      else if (!BucketAlignment.worthMerging(common, counts.max, cores)) Left(differing(specs, s => s"${s.numBuckets} buckets"))
      else {
        val sorts = specs.map(_._2.sortColumns).reduce((a, b) => a.zip(b).takeWhile { case (x, y) => x == y }.map(_._1))
        val spec = specs.head._2.copy(numBuckets = common, sortColumns = sorts)
        Right(spec -> SealedFolders(common, seals.map { case (_, folder, seal) => folder -> seal }.toMap))
      }
    }

  /** Names a partition of each kind, as an example. */
  private def differing(specs: Seq[(String, SealedSpec)], kind: SealedSpec => String): FallbackReason = {
    val kinds = specs.map { case (name, spec) => kind(spec) -> name }
    val examples = kinds.map(_._1).distinct.take(3).map { found =>
      val names = kinds.filter(_._1 == found).map(_._2)
      s"$found in ${names.head}${more(names.length - 1)}"
    }
    FallbackReason(MixedSpecs, s"its bucket specs differ: ${examples.mkString(", ")}")
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
      Left(FallbackReason(UnsupportedColumn, s"bucket column $name is of type ${rawType(column).catalogString}"))
    case Seq() => Left(FallbackReason(ColumnNotRead, s"bucket column $name is not read"))
    case _ => Left(FallbackReason(AmbiguousColumn, s"several columns are named $name"))
  }

  /** The metastore's column names may differ in case from the table's. */
  private def named(scan: FileSourceScanExec, name: String): Seq[Attribute] =
    scan.output.filter(_.name.equalsIgnoreCase(name))

  private def rawType(column: Attribute): DataType = BucketHash.rawType(column.dataType, column.metadata)

  // The types that are read in the order in which they were sorted when they were written. Timestamps are not: Parquet may
  // keep fewer digits of them, and ORC the wall clock of the writer.
  private def sortable(column: Attribute): Boolean = rawType(column) match {
    case string: StringType => string == StringType
    case _: NumericType | BooleanType | DateType => true
    case _ => false
  }
}
