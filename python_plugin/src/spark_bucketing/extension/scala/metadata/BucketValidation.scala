package org.apache.spark.sql.bucketing
package metadata

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.hash.{BucketHash, HiveBucketHash}
import org.apache.spark.sql.catalyst.catalog.{BucketSpec, CatalogTable}
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec
import org.apache.spark.sql.catalyst.expressions.{Cast, RowOrdering}
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.execution.command.DDLUtils
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{StringType, StructField}
import org.apache.spark.sql.util.PartitioningUtils

/** Validates changes to the buckets of a table. */
object BucketValidation {

  def refused(
      table: CatalogTable, found: String, expected: String, instead: String,
      statement: String = "change the buckets of"): AnalysisException =
    Compat.refusal(s"Cannot $statement ${table.identifier.quotedString}.", found, expected, instead)

  /** Returns whether a table is an unbucketed data source table, which can be converted to the Hive layout. */
  def isPlainOfSpark(table: CatalogTable): Boolean =
    DDLUtils.isDatasourceTable(table) && SealedFormats.has(table) && table.bucketSpec.isEmpty

  def checkTable(table: CatalogTable): Unit = {
    if (DDLUtils.isHiveTable(table)) {
      if (!SealedFormats.has(table)) throw refused(table, s"files in the format ${SealedFormats.of(table)}",
        "STORED AS PARQUET or ORC", "create the table STORED AS PARQUET")
    } else if (!SealedFormats.has(table)) throw refused(table, s"the provider ${SealedFormats.of(table)}",
      "a table in the Hive layout, or an unbucketed table USING PARQUET or ORC", "create the table STORED AS PARQUET")
    else if (table.bucketSpec.isDefined) throw refused(table,
      s"${table.bucketSpec.get.numBuckets} buckets in the Spark layout, which requires one bucket spec for all files",
      "a table in the Hive layout, or an unbucketed table",
      "rewrite the table with the new buckets, or create it STORED AS PARQUET in the Hive layout, which allows this statement")
    else if (table.partitionColumnNames.nonEmpty && !table.tracksPartitionsInCatalog) throw refused(table,
      "partitions that are not in the metastore", "partitions in the metastore",
      s"run MSCK REPAIR TABLE ${table.identifier.quotedString}, and then this statement again")
    statedHash(table, "change the buckets of")
  }

  /**
   * Returns the hash that a table states, or throws an error if its bucketing version is unknown. An unbucketed table gets version 1.
   *
   * @param statement the beginning of the error message: what the statement would do with the table
   */
  def statedHash(table: CatalogTable, statement: String): HiveBucketHash = BucketHash.stated(table.properties).getOrElse {
    val property = BucketHash.VersionProperty
    val version = if (table.bucketSpec.isEmpty) "one of these values"
      else s"the version of the rows, which ALTER TABLE ${table.identifier.quotedString} SEAL BUCKETS DRY RUN finds"
    throw refused(table, s"the table property '$property' = '${table.properties(property)}'", s"exactly ${BucketHash.versions}",
      s"set the property to $version", statement)
  }

  /** Returns the bucket spec in a statement, with column names as the table spells them. */
  def spec(table: CatalogTable, asked: BucketSpec): BucketSpec = {
    val keys = asked.bucketColumnNames.map(column(table, _))
    val hash = statedHash(table, "change the buckets of")
    unlikeHive(table, hash, keys.map(_.name)).foreach { key =>
      throw refused(table, s"the bucket column ${key.name} of type ${key.dataType.sql}",
        s"a type that Spark hashes as Hive does: ${hash.types}",
        "bucket the table by another column")
    }
    val sorts = asked.sortColumnNames.map(column(table, _))
    sorts.find(sort => !RowOrdering.isOrderable(sort.dataType)).foreach { sort =>
      throw refused(table, s"the sort column ${sort.name} of type ${sort.dataType.sql}",
        "a sortable type", "sort by another column")
    }
    BucketSpec(asked.numBuckets, once(table, keys, "CLUSTERED"), once(table, sorts, "SORTED"))
  }

  /** Returns the first bucket column whose values Spark hashes differently from Hive. The result has the declared type. */
  def unlikeHive(table: CatalogTable, hash: HiveBucketHash, keys: Seq[String]): Option[StructField] = {
    val schema = CharVarcharUtils.getRawSchema(table.schema)
    keys.flatMap(name => schema.find(_.name.equalsIgnoreCase(name)))
      .find(key => !hash.supports(key.dataType))
  }

  private def once(table: CatalogTable, columns: Seq[StructField], clause: String): Seq[String] = {
    val names = columns.map(_.name)
    names.diff(names.distinct).headOption.foreach { name =>
      throw refused(table, s"the column $name twice", "each column once",
        s"write $clause BY (${names.distinct.mkString(", ")})")
    }
    names
  }

  private def column(table: CatalogTable, name: String): StructField = {
    def named(field: StructField) = SQLConf.get.resolver(field.name, name)
    table.dataSchema.find(named).getOrElse {
      val columns = table.dataSchema.fieldNames.mkString(", ")
      if (table.partitionSchema.exists(named)) throw refused(table, s"the partition column $name",
        "columns that the files contain", s"use columns among $columns")
      else throw refused(table, s"no column $name", "columns of the table", s"use columns among $columns")
    }
  }

  /** Returns the values in a PARTITION clause in the format of the metastore. */
  def partitionValues(table: CatalogTable, given: TablePartitionSpec): Map[String, String] = {
    checkPartitions(table)
    stored(table, PartitioningUtils.normalizePartitionSpec(
      given, table.partitionSchema, table.identifier.quotedString, SQLConf.get.resolver))
  }

  /** Throws an error unless the partitions of a table can have different bucket specs. */
  def checkPartitions(table: CatalogTable): Unit = {
    if (table.partitionColumnNames.isEmpty) throw refused(table, "no partitions",
      "a partitioned table for the PARTITION clause", "use ALTER TABLE ... CLUSTERED BY without PARTITION")
    if (!DDLUtils.isHiveTable(table)) throw refused(table,
      "a plain table USING PARQUET or ORC, whose partitions cannot have buckets",
      "a table in the Hive layout for the PARTITION clause", "run ALTER TABLE ... CLUSTERED BY without PARTITION first")
  }

  /** Returns partition values in the metastore's format for their types, for example 1 for '01' in an INT column. */
  def stored(table: CatalogTable, values: TablePartitionSpec): TablePartitionSpec = values.map { case (column, value) =>
    val field = table.partitionSchema.find(field => SQLConf.get.resolver(field.name, column)).getOrElse(throw refused(table, s"$column in the PARTITION clause",
      s"the partition columns ${table.partitionColumnNames.mkString(", ")}", "use values of these columns"))
    val typed = PartitioningUtils.castPartitionSpec(value, field.dataType, SQLConf.get)
    val text = Cast(typed, StringType, Option(SQLConf.get.sessionLocalTimeZone)).eval()
    column -> (if (text == null) null else text.toString)
  }
}
