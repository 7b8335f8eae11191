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
 * @param content another partition whose location, columns and format the partition gets, or None to keep its own
 * @param parameters parameters to set in addition to the seal
 */
case class PartitionChange(
    partition: StoredPartition, seal: Option[Seal], described: Option[BucketDescriptor], content: Option[StoredPartition] = None,
    parameters: Map[String, String] = Map.empty) {

  /** Returns whether the partition already has this seal and this descriptor. */
  def isDone: Boolean = partition.seal == seal.map(Right(_)) && described.forall(wanted => partition.described.forall(_ == wanted))

  /** Returns the new parameters. Statistics do not describe new content. */
  def newParameters: Map[String, String] = {
    val kept = if (content.isEmpty) partition.parameters else partition.parameters.filterNot { case (key, _) => PartitionChange.isStatistic(key) }
    PartitionStore.withSeal(kept, seal) ++ parameters
  }
}

object PartitionChange {
  private val Statistics = Set("COLUMN_STATS_ACCURATE", "numFiles", "numRows", "rawDataSize", "totalSize", "numFilesErasureCoded")

  private def isStatistic(key: String): Boolean = Statistics(key) || key.startsWith("spark.sql.statistics.")
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
   * Changes the seals and the descriptors of partitions. Changes of content are one transaction.
   *
   * @param toHiveLayout whether to convert the partitions of a data source table to the Hive layout
   */
  def change(table: CatalogTable, changes: Seq[PartitionChange], toHiveLayout: Boolean = false): Unit

  /** Adds partitions with the content of changes to a table, in one transaction. */
  def add(table: CatalogTable, added: Seq[PartitionChange]): Unit

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

  /** Returns changes in groups, each of which is one transaction. */
  def transactions(changes: Seq[PartitionChange]): Iterator[Seq[PartitionChange]] =
    if (changes.exists(_.content.isDefined)) Iterator(changes) else changes.grouped(AtATime)

  /** Returns the values in the name of a partition. */
  def valuesOf(table: CatalogTable, name: String): Map[String, String] =
    table.partitionColumnNames.zip(name.split("/").map(part => ExternalCatalogUtils.unescapePathName(part.substring(part.indexOf('=') + 1)))).toMap

  /** Returns properties in which this seal replaces the existing seal. If the seal is None, the existing seal is removed. */
  def withSeal(properties: Map[String, String], seal: Option[Seal]): Map[String, String] =
    properties -- Seal.Keys ++ seal.fold(Map.empty[String, String])(_.parameters)
}

/**
 * Stores seals through Spark's catalog interface, which supports partition parameters but no descriptors. This class is used
 * for the in-memory catalog, and for Hive metastores with a client other than Spark's built-in client.
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
        "found a metastore client other than Spark's built-in client. Hive and Trino read only the descriptors. " +
        "Expected spark.sql.hive.metastore.jars=builtin. Instead: write to the table in a session with this setting.")
    PartitionStore.transactions(changes).foreach { some =>
      catalog.alterPartitions(table.database, table.identifier.table, some.map { change =>
        val found = change.partition.raw.asInstanceOf[CatalogTablePartition]
        val built = change.content.map(_.raw.asInstanceOf[CatalogTablePartition])
        found.copy(parameters = change.newParameters, storage = built.fold(found.storage)(_.storage))
      })
    }
  }

  override def add(table: CatalogTable, added: Seq[PartitionChange]): Unit =
    catalog.createPartitions(table.database, table.identifier.table, added.map { change =>
      change.partition.raw.asInstanceOf[CatalogTablePartition].copy(parameters = change.newParameters)
    }, ignoreIfExists = false)

  override def sealTable(table: CatalogTable, seal: Option[Seal]): Unit = {
    val found = catalog.getTable(table.database, table.identifier.table)
    catalog.alterTable(found.copy(properties = PartitionStore.withSeal(found.properties, seal)))
  }

  override def alterTable(table: CatalogTable, change: TableChange): Unit = check(table, change.toHiveLayout)

  override def check(table: CatalogTable, toHiveLayout: Boolean): Unit =
    throw BucketValidation.refused(table, "a metastore client other than Spark's built-in client",
      "spark.sql.catalogImplementation=hive and spark.sql.hive.metastore.jars=builtin",
      "run the statement in a session with these settings")
}
