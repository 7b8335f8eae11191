package org.apache.spark.sql.bucketing

import org.apache.spark.sql.catalyst.catalog.{BucketSpec, CatalogTable}
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.execution.FileSourceScanExec
import org.apache.spark.sql.execution.datasources.LogicalRelation
import org.apache.spark.sql.types._

/** What a table's metadata says of its buckets, and whether that can be read as bucketed at all. */
object BucketSpecs {

  /** The metastore's table behind a scan. The planner leaves the logical plan of a scan with it, so nothing is asked. */
  def tableOf(scan: FileSourceScanExec): Option[CatalogTable] =
    scan.logicalLink.flatMap(_.collectFirst {
      case relation: LogicalRelation if relation.relation == scan.relation => relation.catalogTable
    }.flatten)

  /** The buckets of a scan's table, or why they cannot be read as such; None for what is left to stock Spark. */
  def of(scan: FileSourceScanExec, files: FilesOnDemand): Option[Either[String, BucketRead]] =
    if (scan.relation.bucketSpec.isDefined) sparkLayout(scan).map(Right(_)) else hiveLayout(scan, files)

  private def hiveLayout(scan: FileSourceScanExec, files: FilesOnDemand): Option[Either[String, BucketRead]] = for {
    table <- tableOf(scan)
    if table.provider.contains("hive")
    found <- SelectedPartitions.of(scan, table, files)
  } yield {
    val version = table.properties.getOrElse("bucketing_version", "1")
    if (version != "1") Left(s"its bucketing_version is $version, only version 1 is read")
    else found.flatMap { case (spec, counts) =>
      buckets(scan, spec, BucketHash.Hive, table.identifier.unquotedString).map(BucketRead(_, counts, spec.numBuckets))
    }
  }

  private def sparkLayout(scan: FileSourceScanExec): Option[BucketRead] = for {
    spec <- scan.relation.bucketSpec
    if BucketingConf.readsSparkLayout && scan.bucketedScan
    if scan.optionalBucketSet.isEmpty && scan.optionalNumCoalescedBuckets.isEmpty
    table <- scan.tableIdentifier
    found <- buckets(scan, spec, BucketHash.Spark, table.unquotedString).toOption
  } yield BucketRead(found, BucketCounts(spec.numBuckets), spec.numBuckets)

  private def buckets(
      scan: FileSourceScanExec, spec: BucketSpec, hash: BucketHash, table: String): Either[String, BucketsOf] = {
    val keys = spec.bucketColumnNames.map(name => keyColumn(scan, name))
    keys.collectFirst { case Left(why) => why }.toLeft {
      val sorts = spec.sortColumnNames.map(named(scan, _)).takeWhile(found => found.size == 1 && sortable(found.head))
      BucketsOf(table, hash, spec.numBuckets, keys.collect { case Right(key) => key.name }, sorts.map(_.head.name),
        scan.relation.dataSchema)
    }
  }

  private def keyColumn(scan: FileSourceScanExec, name: String): Either[String, Attribute] = named(scan, name) match {
    case Seq(column) if BucketHash.spreads(rawType(column)) => Right(column)
    case Seq(column) => Left(s"bucket column $name is of type ${rawType(column).catalogString}")
    case Seq() => Left(s"bucket column $name is not read")
    case _ => Left(s"several columns are named $name")
  }

  /** The metastore's column names may differ in case from the table's. */
  private def named(scan: FileSourceScanExec, name: String): Seq[Attribute] =
    scan.output.filter(_.name.equalsIgnoreCase(name))

  // CHAR and VARCHAR are strings to the planner; their metadata tells them apart.
  private def rawType(column: Attribute): DataType =
    CharVarcharUtils.getRawType(column.metadata).getOrElse(column.dataType)

  // The types whose order the check can keep an eye on.
  private def sortable(column: Attribute): Boolean = rawType(column) match {
    case string: StringType => string == StringType
    case _: NumericType | BooleanType | DateType | TimestampType => true
    case _ => false
  }
}
