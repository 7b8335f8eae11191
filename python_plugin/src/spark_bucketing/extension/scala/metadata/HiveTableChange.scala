package org.apache.spark.sql.hive.bucketing

import java.util.HashMap

import scala.jdk.CollectionConverters._

import org.apache.hadoop.hive.metastore.api.{StorageDescriptor, Table}

import org.apache.spark.sql.bucketing.metadata._
import org.apache.spark.sql.catalyst.catalog.{BucketSpec, CatalogTable, CatalogUtils}
import org.apache.spark.sql.hive.HiveExternalCatalog._
import org.apache.spark.sql.internal.HiveSerDe
import org.apache.spark.sql.types.ArrayType

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
