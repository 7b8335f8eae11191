package org.apache.spark.sql.hive.bucketing

import java.lang.reflect.Constructor
import java.util.{ArrayList, HashMap, List => JList}

import scala.collection.concurrent.TrieMap
import scala.jdk.CollectionConverters._

import org.apache.commons.io.IOUtils
import org.apache.hadoop.hive.common.StatsSetupConst
import org.apache.hadoop.hive.metastore.{IMetaStoreClient, Warehouse}
import org.apache.hadoop.hive.metastore.api.{EnvironmentContext, FieldSchema, Order, Partition, StorageDescriptor, Table}
import org.apache.hadoop.hive.ql.metadata.Hive

import org.apache.spark.sql.bucketing.metadata._
import org.apache.spark.sql.catalyst.catalog.{BucketSpec, CatalogTable, CatalogUtils, ExternalCatalog, ExternalCatalogWithListener}
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils.DEFAULT_PARTITION_NAME
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.hive.HiveExternalCatalog
import org.apache.spark.sql.hive.HiveExternalCatalog._
import org.apache.spark.sql.hive.client.{HiveClient, HiveClientImpl}
import org.apache.spark.sql.internal.HiveSerDe
import org.apache.spark.sql.types.ArrayType

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
    changes.grouped(PartitionStore.AtATime).foreach { some =>
      val altered = some.map(changed)
      if (toHiveLayout) altered.foreach(partition => HiveTableChange.toHiveStorage(partition.getSd, table))
      call(_.alter_partitions(table.database, table.identifier.table, new ArrayList(altered.asJava), KeepStatistics))
    }

  override def sealTable(table: CatalogTable, seal: Option[Seal]): Unit = call { metastore =>
    val found = metastore.getTable(table.database, table.identifier.table)
    val parameters = PartitionStore.withSeal(found.getParameters.asScala.toMap, seal)
    if (parameters != found.getParameters.asScala) {
      found.setParameters(new HashMap(parameters.asJava))
      // The first INSERT into a table gets a size, as a CTAS does. Spark then removes the size after each INSERT, so that the metastore measures it again.
      val hasSize = parameters.get(StatsSetupConst.TOTAL_SIZE).exists(_ != "0")
      metastore.alter_table_with_environmentContext(table.database, table.identifier.table, found, if (hasSize) KeepStatistics else new EnvironmentContext)
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

  /** Returns None unless the catalog is a Hive catalog with a client of Hive 2.0 or later. */
  def of(catalog: ExternalCatalog): Option[PartitionStore] = catalog match {
    case listened: ExternalCatalogWithListener => of(listened.unwrapped)
    case hive: HiveExternalCatalog => hive.client match {
      case client: HiveClientImpl => Some(new HivePartitions(client))
      case client if client.version.fullVersion.matches("[01][.].*") => None
      case client =>
        val constructor = ofOtherClasses.getOrElseUpdate(client.getClass.getClassLoader, HiveClassLoader.constructor(client))
        Some(constructor.newInstance(client).asInstanceOf[PartitionStore])
    }
    case _ => None
  }

  // Constructors of this class, as loaded for the client that spark.sql.hive.metastore.jars configures.
  private val ofOtherClasses = TrieMap.empty[ClassLoader, Constructor[_]]

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
    partition.setParameters(new HashMap(PartitionStore.withSeal(partition.getParameters.asScala.toMap, change.seal).asJava))
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

/**
 * Loads the classes of this package once more, so that they call the Hive classes of a metastore client. Spark loads the Hive
 * classes of a client that is not built in, and its own wrapper of the client, with a class loader of their own.
 */
private class HiveClassLoader(client: ClassLoader) extends ClassLoader(client) {

  override protected def loadClass(name: String, resolve: Boolean): Class[_] =
    if (!name.startsWith(classOf[HivePartitions].getPackage.getName)) super.loadClass(name, resolve)
    else getClassLoadingLock(name).synchronized {
      Option[Class[_]](findLoadedClass(name)).getOrElse {
        val file = getClass.getClassLoader.getResourceAsStream(name.replace('.', '/') + ".class")
        if (file == null) throw new ClassNotFoundException(name)
        try {
          val bytes = IOUtils.toByteArray(file)
          defineClass(name, bytes, 0, bytes.length)
        } finally file.close()
      }
    }
}

private object HiveClassLoader {

  def constructor(client: HiveClient): Constructor[_] =
    new HiveClassLoader(client.getClass.getClassLoader).loadClass(classOf[HivePartitions].getName).getConstructors.head
}

/**
 * Changes the buckets of a table in the Hive metastore: both the StorageDescriptor and the table properties that Spark
 * reads. Spark itself never changes these properties of an existing table.
 */
object HiveTableChange {

  private val BucketProperties =
    Seq(DATASOURCE_SCHEMA_NUMBUCKETS, DATASOURCE_SCHEMA_NUMBUCKETCOLS, DATASOURCE_SCHEMA_NUMSORTCOLS)
  private val BucketColumnPrefixes = Seq(DATASOURCE_SCHEMA_BUCKETCOL_PREFIX, DATASOURCE_SCHEMA_SORTCOL_PREFIX)
  private val SparkTableProperties = Seq(DATASOURCE_PROVIDER, TABLE_PARTITION_PROVIDER)

  def apply(found: Table, table: CatalogTable, change: TableChange): Table = {
    val altered = new Table(found)
    val parameters = new HashMap[String, String](found.getParameters)
    parameters.keySet.removeIf(isBucketProperty(_))
    change.spec.foreach(spec => parameters.putAll(properties(spec).asJava))
    parameters.putAll(change.properties.asJava)
    HivePartitions.describe(altered.getSd, BucketDescriptor.of(change.spec))
    if (change.toHiveLayout) {
      parameters.keySet.removeIf(SparkTableProperties.contains(_))
      altered.getSd.setLocation(CatalogUtils.URIToString(table.location))
      toHiveStorage(altered.getSd, table)
    }
    altered.setParameters(parameters)
    altered
  }

  private def isBucketProperty(key: String): Boolean = BucketProperties.contains(key) || BucketColumnPrefixes.exists(key.startsWith)

  /** Changes the descriptor of a data source table, or of its partition, to a descriptor for the Hive layout. */
  def toHiveStorage(descriptor: StorageDescriptor, table: CatalogTable): Unit = {
    val formats = HiveSerDe.sourceToSerDe(table.provider.get).get
    formats.inputFormat.foreach(descriptor.setInputFormat)
    formats.outputFormat.foreach(descriptor.setOutputFormat)
    val serde = descriptor.getSerdeInfo
    formats.serde.foreach(serde.setSerializationLib)
    // Spark stores the directory of a data source table in this option. With the option, it would read the directory of a Hive table twice.
    val options = new HashMap[String, String](serde.getParameters)
    options.remove("path")
    serde.setParameters(options)
  }

  private def properties(spec: BucketSpec): Map[String, String] = {
    def numbered(prefix: String, names: Seq[String]) = names.zipWithIndex.map { case (name, i) => s"$prefix$i" -> name }
    Map(
      DATASOURCE_SCHEMA_NUMBUCKETS -> spec.numBuckets.toString,
      DATASOURCE_SCHEMA_NUMBUCKETCOLS -> spec.bucketColumnNames.length.toString) ++
      numbered(DATASOURCE_SCHEMA_BUCKETCOL_PREFIX, spec.bucketColumnNames) ++
      spec.sortColumnNames.headOption.map(_ => DATASOURCE_SCHEMA_NUMSORTCOLS -> spec.sortColumnNames.length.toString) ++
      numbered(DATASOURCE_SCHEMA_SORTCOL_PREFIX, spec.sortColumnNames)
  }

  /**
   * Throws an error for a table that Hive cannot represent. If Hive does not support some column type, Spark stores a single
   * placeholder column in the metastore. Hive's SerDe treats a comma in a column name as a separator.
   */
  def checkHiveLayout(found: Table, table: CatalogTable): Unit = {
    val (stored, own) = (found.getSd.getCols.asScala, table.dataSchema.fieldNames)
    val types = table.dataSchema.map(_.dataType)
    def alike = stored.map(_.getName).corresponds(own)(_ equalsIgnoreCase _) &&
      !(stored.map(_.getType).toSeq == Seq("array<string>") && !types.head.isInstanceOf[ArrayType])
    if (!alike) throw BucketValidation.refused(table,
      s"columns that Spark could not store with Hive types: ${own.mkString(", ")}",
      "columns with types that Hive supports", "insert the rows into a bucketed table without such columns")
    own.find(_.contains(",")).foreach { name =>
      throw BucketValidation.refused(table, s"the column name $name with a comma, which Hive's SerDe reads as two names",
        "names without commas", "insert the rows into a bucketed table with other names")
    }
  }
}
