package org.apache.spark.sql.bucketing
package metadata

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.catalyst.catalog._
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils.DEFAULT_PARTITION_NAME
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.hive.bucketing.HivePartitions

/** The buckets in the StorageDescriptor of a table or partition, which Hive and Trino read. */
case class BucketDescriptor(numBuckets: Int, columns: Seq[String], sortColumns: Seq[String]) {

  def bucketSpec: Option[BucketSpec] =
    if (numBuckets <= 0 || columns.isEmpty) None else Some(BucketSpec(numBuckets, columns, sortColumns))
}

object BucketDescriptor {

  // Hive's descriptor of a table without buckets has these values.
  val Unbucketed: BucketDescriptor = BucketDescriptor(-1, Nil, Nil)

  def of(spec: Option[BucketSpec]): BucketDescriptor = spec.fold(Unbucketed) { found =>
    BucketDescriptor(found.numBuckets, SealedSpec.lower(found.bucketColumnNames), SealedSpec.lower(found.sortColumnNames))
  }
}

/**
 * A partition in the metastore.
 *
 * @param name the name in Hive's format, for example ds=2024-01-01/hour=3
 * @param described the buckets in the descriptor, or None if the catalog does not return them
 * @param raw the catalog's own object, used to alter the partition
 */
case class StoredPartition(
    name: String, location: String, parameters: Map[String, String], described: Option[BucketDescriptor], raw: AnyRef) {

  def seal: Option[Either[String, Seal]] = Seal.parse(parameters)

  def isSame(other: StoredPartition): Boolean =
    (location, parameters, described) == ((other.location, other.parameters, other.described))
}

/**
 * A change to a partition.
 *
 * @param seal the new seal, or None to remove the seal
 * @param described the new buckets in the descriptor, or None to keep the descriptor
 */
case class PartitionChange(partition: StoredPartition, seal: Option[Seal], described: Option[BucketDescriptor]) {

  /** Returns whether the partition already has this seal and this descriptor. */
  def isDone: Boolean = partition.seal == seal.map(Right(_)) && described.forall(wanted => partition.described.forall(_ == wanted))
}

/** Reads and changes tables, partitions and their seals. Each method makes one metastore call, or one call per 1,000 partitions. */
trait PartitionStore {

  /** Returns the partitions that have these values, or all partitions if no values are given. */
  def list(table: CatalogTable, values: Map[String, String] = Map.empty): Seq[StoredPartition]

  /** Returns the given partitions that exist. Each element of `values` has a value for every partition column. */
  def find(table: CatalogTable, values: Seq[Map[String, String]]): Seq[StoredPartition]

  /** Returns the name of a partition in Hive's format. */
  def nameOf(table: CatalogTable, values: Map[String, String]): String =
    table.partitionColumnNames.map { column =>
      val value = CaseInsensitiveMap(values)(column)
      ExternalCatalogUtils.getPartitionPathString(column.toLowerCase(java.util.Locale.ROOT),
        if (value == null || value.isEmpty) DEFAULT_PARTITION_NAME else value)
    }.mkString("/")

  /**
   * Changes the seals and the descriptors of partitions.
   *
   * @param toHiveLayout whether to convert the partitions of a data source table to the Hive layout
   */
  def change(table: CatalogTable, changes: Seq[PartitionChange], toHiveLayout: Boolean = false): Unit

  /** Sets or removes the seal of a table. */
  def sealTable(table: CatalogTable, seal: Option[Seal]): Unit

  /** Throws an error if the bucket spec of a table cannot be changed, or if the table cannot be converted to the Hive layout. */
  def check(table: CatalogTable, toHiveLayout: Boolean): Unit

  /** Changes all copies of a table's bucket spec in the metastore with one call. */
  def alterTable(table: CatalogTable, change: TableChange): Unit
}

/**
 * A change to the bucket spec of a table.
 *
 * @param spec the new bucket spec, or None to make the table unbucketed
 * @param properties the table properties to set
 * @param toHiveLayout whether to convert a data source table to the Hive layout
 */
case class TableChange(spec: Option[BucketSpec], properties: Map[String, String], toHiveLayout: Boolean = false)

object PartitionStore {

  /** The maximum number of partitions in one call. Each call is one metastore transaction. */
  val AtATime = 1000

  def of(session: SparkSession): PartitionStore = {
    val catalog = Compat.externalCatalog(session)
    HivePartitions.of(catalog).getOrElse(new CatalogPartitions(catalog))
  }

  /** Returns properties in which this seal replaces the existing seal. If the seal is None, the existing seal is removed. */
  def withSeal(properties: Map[String, String], seal: Option[Seal]): Map[String, String] =
    properties -- Seal.Keys ++ seal.fold(Map.empty[String, String])(_.parameters)
}

/**
 * Stores seals through Spark's catalog interface, which supports partition parameters but no descriptors. This class is used
 * for catalogs other than Spark's Hive catalog, such as the in-memory catalog.
 */
class CatalogPartitions(catalog: ExternalCatalog) extends PartitionStore with Logging {

  override def list(table: CatalogTable, values: Map[String, String]): Seq[StoredPartition] =
    catalog.listPartitions(table.database, table.identifier.table, Some(values).filter(_.nonEmpty))
      .map(stored(table, _))

  override def find(table: CatalogTable, values: Seq[Map[String, String]]): Seq[StoredPartition] =
    values.flatMap(catalog.getPartitionOption(table.database, table.identifier.table, _)).map(stored(table, _))

  private def stored(table: CatalogTable, found: CatalogTablePartition): StoredPartition = {
    val location = found.storage.locationUri.fold("")(CatalogUtils.URIToString)
    StoredPartition(nameOf(table, found.spec), location, found.parameters, None, found)
  }

  // Spark removes the buckets from the descriptor of each partition that it alters.
  override def change(table: CatalogTable, changes: Seq[PartitionChange], toHiveLayout: Boolean): Unit = {
    if (changes.exists(_.described.isDefined)) logWarning(
      s"The descriptors of ${changes.length} partitions of ${table.identifier.quotedString} do not match their seals: " +
        "found a catalog other than Spark's Hive catalog. Hive and Trino read only the descriptors. " +
        "Expected spark.sql.catalogImplementation=hive. Instead: write to the table in a session with this setting.")
    changes.grouped(PartitionStore.AtATime).foreach { some =>
      catalog.alterPartitions(table.database, table.identifier.table, some.map { change =>
        val found = change.partition.raw.asInstanceOf[CatalogTablePartition]
        found.copy(parameters = PartitionStore.withSeal(found.parameters, change.seal))
      })
    }
  }

  override def sealTable(table: CatalogTable, seal: Option[Seal]): Unit = {
    val found = catalog.getTable(table.database, table.identifier.table)
    catalog.alterTable(found.copy(properties = PartitionStore.withSeal(found.properties, seal)))
  }

  override def alterTable(table: CatalogTable, change: TableChange): Unit = check(table, change.toHiveLayout)

  override def check(table: CatalogTable, toHiveLayout: Boolean): Unit =
    throw BucketValidation.refused(table, "a catalog other than Spark's Hive catalog", "spark.sql.catalogImplementation=hive",
      "run the statement in a session with this setting")
}
