package org.apache.spark.sql.bucketing
package ddl

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.hash.HiveHashFunctions
import org.apache.spark.sql.bucketing.metadata.SealedFormats
import org.apache.spark.sql.catalyst.catalog.{BucketSpec, CatalogTable}
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec
import org.apache.spark.sql.catalyst.expressions.{Cast, RowOrdering}
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.execution.command.DDLUtils
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{StringType, StructField}
import org.apache.spark.sql.util.PartitioningUtils

/** What statements on the buckets of a table may ask for. Pure. */
object BucketDdl {

  def refused(table: CatalogTable, found: String, expected: String, instead: String): AnalysisException =
    Compat.refusal(s"Cannot change the buckets of ${table.identifier.quotedString}: $found. Expected $expected. " +
      s"Instead: $instead.")

  /** A table that Spark reads and writes by its own name of the format, and that has no buckets: it can be turned. */
  def isPlainOfSpark(table: CatalogTable): Boolean =
    DDLUtils.isDatasourceTable(table) && SealedFormats.has(table) && table.bucketSpec.isEmpty

  def checkTable(table: CatalogTable): Unit = {
    if (DDLUtils.isHiveTable(table)) {
      if (!SealedFormats.has(table)) throw refused(table, s"found files of the format ${SealedFormats.of(table)}",
        "STORED AS PARQUET or ORC", "create the table STORED AS PARQUET")
    } else if (!SealedFormats.has(table)) throw refused(table, s"found a table of the provider ${SealedFormats.of(table)}",
      "a table of the Hive layout, or a plain one USING PARQUET or ORC", "create the table STORED AS PARQUET")
    else if (table.bucketSpec.isDefined) throw refused(table,
      s"found ${table.bucketSpec.get.numBuckets} buckets of the Spark layout, whose readers all rely on one number",
      "a table of the Hive layout, or one without buckets",
      "write it anew with the other buckets, or STORED AS PARQUET in the Hive layout, which can be altered")
    else if (table.partitionColumnNames.nonEmpty && !table.tracksPartitionsInCatalog) throw refused(table,
      "found a table whose partitions the metastore does not know", "partitions in the metastore",
      s"MSCK REPAIR TABLE ${table.identifier.quotedString}, and then this statement again")
    table.properties.get("bucketing_version").map(_.trim).filter(_ != "1").foreach { version =>
      throw refused(table, s"found bucketing_version $version", "version 1, whose hash Spark computes",
        "leave its buckets to the engine that made it, or write the rows into a table of version 1")
    }
  }

  /** The spec that a statement asks for, with the names that the columns have in the table. */
  def spec(table: CatalogTable, asked: BucketSpec): BucketSpec = {
    val keys = asked.bucketColumnNames.map(column(table, _))
    unlikeHive(table, keys.map(_.name)).foreach { key =>
      throw refused(table, s"found the bucket column ${key.name} of type ${key.dataType.sql}",
        "a type that Spark hashes as Hive does: BOOLEAN, TINYINT to BIGINT, FLOAT, DOUBLE, DECIMAL, STRING or DATE",
        "cluster by another column")
    }
    val sorts = asked.sortColumnNames.map(column(table, _))
    sorts.find(sort => !RowOrdering.isOrderable(sort.dataType)).foreach { sort =>
      throw refused(table, s"found the sort column ${sort.name} of type ${sort.dataType.sql}",
        "a type that has an order", "sort by other columns")
    }
    BucketSpec(asked.numBuckets, once(table, keys, "CLUSTERED"), once(table, sorts, "SORTED"))
  }

  /** A bucket column, with its type as declared, whose hash by Spark is not Hive's. */
  def unlikeHive(table: CatalogTable, keys: Seq[String]): Option[StructField] = {
    val schema = CharVarcharUtils.getRawSchema(table.schema)
    keys.flatMap(name => schema.find(_.name.equalsIgnoreCase(name)))
      .find(key => !HiveHashFunctions.isHives(key.dataType))
  }

  private def once(table: CatalogTable, columns: Seq[StructField], clause: String): Seq[String] = {
    val names = columns.map(_.name)
    names.diff(names.distinct).headOption.foreach { name =>
      throw refused(table, s"found the column $name twice", "each column once",
        s"$clause BY (${names.distinct.mkString(", ")})")
    }
    names
  }

  private def column(table: CatalogTable, name: String): StructField = {
    def named(field: StructField) = SQLConf.get.resolver(field.name, name)
    table.dataSchema.find(named).getOrElse {
      val columns = table.dataSchema.fieldNames.mkString(", ")
      if (table.partitionSchema.exists(named)) throw refused(table, s"found the partition column $name",
        "columns whose values are in the files", s"columns among $columns")
      else throw refused(table, s"found no column $name", "columns of the table", s"columns among $columns")
    }
  }

  /** The values of a partition specification as the metastore has them. */
  def partitionValues(table: CatalogTable, given: TablePartitionSpec): Map[String, String] = {
    checkPartitions(table)
    stored(table, PartitioningUtils.normalizePartitionSpec(
      given, table.partitionSchema, table.identifier.quotedString, SQLConf.get.resolver))
  }

  /** A table whose partitions can have buckets of their own. */
  def checkPartitions(table: CatalogTable): Unit = {
    if (table.partitionColumnNames.isEmpty) throw refused(table, "found no partitions",
      "a partitioned table after PARTITION", "ALTER TABLE ... CLUSTERED BY without PARTITION")
    if (!DDLUtils.isHiveTable(table)) throw refused(table,
      "found a plain table of Spark's own, whose partitions have no buckets",
      "a table of the Hive layout after PARTITION", "ALTER TABLE ... CLUSTERED BY without PARTITION first")
  }

  /** Partition values in the text that their types have in the metastore: 1 for '01' of an INT. */
  def stored(table: CatalogTable, values: TablePartitionSpec): TablePartitionSpec = values.map { case (column, value) =>
    val dataType = table.partitionSchema.find(field => SQLConf.get.resolver(field.name, column)).get.dataType
    val typed = PartitioningUtils.castPartitionSpec(value, dataType, SQLConf.get)
    val text = Cast(typed, StringType, Option(SQLConf.get.sessionLocalTimeZone)).eval()
    column -> (if (text == null) null else text.toString)
  }
}
