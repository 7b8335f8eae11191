package org.apache.spark.sql.hive.bucketing

import java.util.{ArrayList, HashMap, List => JList}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.hive.common.StatsSetupConst
import org.apache.hadoop.hive.metastore.{IMetaStoreClient, Warehouse}
import org.apache.hadoop.hive.metastore.api.{EnvironmentContext, FieldSchema, Order, Partition, StorageDescriptor}
import org.apache.hadoop.hive.ql.metadata.Hive

import org.apache.spark.sql.bucketing.metadata._
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, ExternalCatalog, ExternalCatalogWithListener}
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils.DEFAULT_PARTITION_NAME
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.hive.HiveExternalCatalog
import org.apache.spark.sql.hive.client.HiveClientImpl

/**
 * Stores partitions in the Hive metastore with Hive's client. Spark's metastore interface does not support buckets of
 * partitions, and removes them from every partition that it alters. This file is in a package of Spark, because Spark's
 * wrapper of the client is private.
 */
class HivePartitions(client: HiveClientImpl) extends PartitionStore {
  import HivePartitions._

  // Hive's client takes the maximum number of partitions as a short, and -1 means no limit.
  private val All: Short = -1

  private def call[T](body: IMetaStoreClient => T): T = client.withHiveState(body(Hive.get(client.conf).getMSC))

  override def list(table: CatalogTable, values: Map[String, String]): Seq[StoredPartition] = {
    val (database, name) = (table.database, table.identifier.table)
    val found = call { metastore =>
      if (values.isEmpty) metastore.listPartitions(database, name, All)
      else metastore.listPartitions(database, name, pattern(table, values), All)
    }
    found.asScala.map(partition(table, _)).toSeq
  }

  override def find(table: CatalogTable, values: Seq[Map[String, String]]): Seq[StoredPartition] =
    values.map(nameOf(table, _)).distinct.grouped(PartitionStore.AtATime).flatMap { names =>
      call(_.getPartitionsByNames(table.database, table.identifier.table, names.asJava)).asScala
    }.map(partition(table, _)).toSeq

  private def partition(table: CatalogTable, found: Partition): StoredPartition = StoredPartition(
    Warehouse.makePartName(columnsOf(table), found.getValues), found.getSd.getLocation,
    found.getParameters.asScala.toMap, Some(described(found.getSd)), found)

  override def change(table: CatalogTable, changes: Seq[PartitionChange], toHiveLayout: Boolean): Unit =
    PartitionStore.transactions(changes).foreach { some =>
      val altered = some.map(changed)
      if (toHiveLayout) altered.foreach(partition => HiveTableChange.toHiveStorage(partition.getSd, table))
      call(_.alter_partitions(table.database, table.identifier.table, new ArrayList(altered.asJava), KeepStatistics))
    }

  override def add(table: CatalogTable, added: Seq[PartitionChange]): Unit = {
    val partitions = added.map { change =>
      val partition = changed(change)
      partition.setDbName(table.database)
      partition.setTableName(table.identifier.table)
      partition
    }
    call(_.add_partitions(new ArrayList(partitions.asJava)))
  }

  override def sealTable(table: CatalogTable, seal: Option[Seal]): Unit = call { metastore =>
    val found = metastore.getTable(table.database, table.identifier.table)
    val parameters = PartitionStore.withSeal(found.getParameters.asScala.toMap, seal)
    if (parameters != found.getParameters.asScala) {
      found.setParameters(new HashMap(parameters.asJava))
      metastore.alter_table_with_environmentContext(table.database, table.identifier.table, found, KeepStatistics)
    }
  }

  override def check(table: CatalogTable, toHiveLayout: Boolean): Unit = if (toHiveLayout)
    HiveTableChange.checkHiveLayout(call(_.getTable(table.database, table.identifier.table)), table)

  override def alterTable(table: CatalogTable, change: TableChange): Unit = call { metastore =>
    val altered = HiveTableChange(metastore.getTable(table.database, table.identifier.table), table, change)
    metastore.alter_table_with_environmentContext(table.database, table.identifier.table, altered, KeepStatistics)
  }
}

object HivePartitions {

  // Without this property, the metastore lists the files of every partition that is altered.
  private def KeepStatistics: EnvironmentContext =
    new EnvironmentContext(new HashMap[String, String](Map(StatsSetupConst.DO_NOT_UPDATE_STATS -> StatsSetupConst.TRUE).asJava))

  /** Returns None unless the catalog is a Hive catalog with Spark's built-in client, loaded by the class loader of this class. */
  def of(catalog: ExternalCatalog): Option[PartitionStore] = catalog match {
    case listened: ExternalCatalogWithListener => of(listened.unwrapped)
    case hive: HiveExternalCatalog => hive.client match {
      case client: HiveClientImpl => Some(new HivePartitions(client))
      case _ => None
    }
    case _ => None
  }

  private def stored(value: String): String = if (value == null || value.isEmpty) DEFAULT_PARTITION_NAME else value

  /** Returns partition values in column order. An empty string matches any value. */
  private def pattern(table: CatalogTable, values: Map[String, String]): JList[String] = {
    val given = CaseInsensitiveMap(values)
    table.partitionColumnNames.map(column => given.get(column).fold("")(stored)).asJava
  }

  private def columnsOf(table: CatalogTable): JList[FieldSchema] =
    table.partitionColumnNames.map(new FieldSchema(_, "string", null)).asJava

  private def changed(change: PartitionChange): Partition = {
    val partition = change.partition.raw.asInstanceOf[Partition]
    partition.setParameters(new HashMap(change.newParameters.asJava))
    change.content.foreach(built => partition.setSd(built.raw.asInstanceOf[Partition].getSd.deepCopy))
    change.described.foreach(describe(partition.getSd, _))
    partition
  }

  def described(descriptor: StorageDescriptor): BucketDescriptor = {
    val sorts = Option(descriptor.getSortCols).fold(Seq.empty[Order])(_.asScala.toSeq)
    BucketDescriptor(descriptor.getNumBuckets, names(descriptor.getBucketCols),
      sorts.takeWhile(_.getOrder == Ascending).map(_.getCol))
  }

  /** Sets the buckets in a descriptor. */
  def describe(descriptor: StorageDescriptor, buckets: BucketDescriptor): Unit = {
    descriptor.setNumBuckets(buckets.numBuckets)
    descriptor.setBucketCols(new ArrayList(buckets.columns.asJava))
    descriptor.setSortCols(new ArrayList(buckets.sortColumns.map(new Order(_, Ascending)).asJava))
  }

  private def names(columns: JList[String]): Seq[String] = Option(columns).fold(Seq.empty[String])(_.asScala.toSeq)

  private val Ascending = 1
}
