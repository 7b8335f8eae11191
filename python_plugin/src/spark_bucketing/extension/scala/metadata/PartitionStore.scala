package org.apache.spark.sql.bucketing
package metadata

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.ddl.BucketDdl
import org.apache.spark.sql.catalyst.catalog._
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils.DEFAULT_PARTITION_NAME
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.hive.bucketing.HivePartitions

/** The buckets in the StorageDescriptor of a table or partition, which Hive and Trino go by. */
case class BucketDescriptor(numBuckets: Int, columns: Seq[String], sortColumns: Seq[String]) {

  def bucketSpec: Option[BucketSpec] =
    if (numBuckets <= 0 || columns.isEmpty) None else Some(BucketSpec(numBuckets, columns, sortColumns))
}

object BucketDescriptor {

  // What Hive itself puts there for a table without buckets.
  val Unbucketed: BucketDescriptor = BucketDescriptor(-1, Nil, Nil)

  def of(spec: Option[BucketSpec]): BucketDescriptor = spec.fold(Unbucketed) { found =>
    BucketDescriptor(found.numBuckets, SealedSpec.lower(found.bucketColumnNames), SealedSpec.lower(found.sortColumnNames))
  }
}

/**
 * A partition as the metastore has it.
 *
 * @param name in Hive's form, ds=2024-01-01/hour=3
 * @param described None where the metastore cannot be asked for it
 * @param raw the metastore's own object, to be altered
 */
case class StoredPartition(
    name: String, location: String, parameters: Map[String, String], described: Option[BucketDescriptor], raw: AnyRef) {

  def seal: Option[Either[String, Seal]] = Seal.parse(parameters)

  def isSame(other: StoredPartition): Boolean =
    (location, parameters, described) == ((other.location, other.parameters, other.described))
}

/** What shall be the buckets of a partition: its seal, or none; and, None to leave it, its descriptor. */
case class PartitionChange(partition: StoredPartition, seal: Option[Seal], described: Option[BucketDescriptor]) {

  /** Whether there is nothing to do. */
  def isDone: Boolean = partition.seal == seal.map(Right(_)) && described.forall(wanted => partition.described.forall(_ == wanted))
}

/** Where tables and partitions and their seals are kept. Each method is one call to the metastore, or one for each thousand. */
trait PartitionStore {

  /** The partitions with these values, all of them for none. */
  def list(table: CatalogTable, values: Map[String, String] = Map.empty): Seq[StoredPartition]

  /** Those of the partitions with these values for all partition columns that there are. */
  def find(table: CatalogTable, values: Seq[Map[String, String]]): Seq[StoredPartition]

  /** Hive's name of a partition. */
  def nameOf(table: CatalogTable, values: Map[String, String]): String =
    table.partitionColumnNames.map { column =>
      val value = CaseInsensitiveMap(values)(column)
      ExternalCatalogUtils.getPartitionPathString(column.toLowerCase(java.util.Locale.ROOT),
        if (value == null || value.isEmpty) DEFAULT_PARTITION_NAME else value)
    }.mkString("/")

  /**
   * Give partitions their seals, and bring their descriptors into step with these.
   *
   * @param toHiveLayout the partitions are of one of Spark's own tables, and become such of the Hive layout
   */
  def change(table: CatalogTable, changes: Seq[PartitionChange], toHiveLayout: Boolean = false): Unit

  /** Give a table its seal, or take it away. */
  def sealTable(table: CatalogTable, seal: Option[Seal]): Unit

  /** Refuses a table whose spec cannot be changed here, or that cannot be of the Hive layout. */
  def check(table: CatalogTable, toHiveLayout: Boolean): Unit

  /** Change the spec of a table in all places that keep it, with one call. */
  def alterTable(table: CatalogTable, change: TableChange): Unit
}

/**
 * @param spec the table's new spec; None for a table without buckets
 * @param properties what to set among the table's properties
 * @param toHiveLayout the table is one of Spark's own, and becomes one of the Hive layout
 */
case class TableChange(spec: Option[BucketSpec], properties: Map[String, String], toHiveLayout: Boolean = false)

object PartitionStore {

  /** Partitions in one call, which is one transaction of the metastore. */
  val AtATime = 1000

  def of(session: SparkSession): PartitionStore = {
    val catalog = Compat.externalCatalog(session)
    HivePartitions.of(catalog).getOrElse(new CatalogPartitions(catalog))
  }

  /** Properties with another seal in them, or with none. */
  def withSeal(properties: Map[String, String], seal: Option[Seal]): Map[String, String] =
    properties -- Seal.Keys ++ seal.fold(Map.empty[String, String])(_.parameters)
}

/**
 * What can be had of any catalog of Spark's: parameters, and no descriptors. The way to a Hive metastore whose client
 * is not the built-in one, and of the in-memory catalog.
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

  // Spark takes the buckets away from the descriptor of each partition that it alters.
  override def change(table: CatalogTable, changes: Seq[PartitionChange], toHiveLayout: Boolean): Unit = {
    if (changes.exists(_.described.isDefined)) logWarning(
      s"The descriptors of ${changes.length} partitions of ${table.identifier.quotedString} are not in step with " +
        "their seals, which Hive and Trino do not see: the metastore's client is not the one that comes with " +
        "Spark (spark.sql.hive.metastore.jars).")
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
    throw BucketDdl.refused(table, "found a metastore client that is not the one that comes with Spark",
      "spark.sql.catalogImplementation=hive, and spark.sql.hive.metastore.jars=builtin",
      "run the statement in a session that has these")
}
