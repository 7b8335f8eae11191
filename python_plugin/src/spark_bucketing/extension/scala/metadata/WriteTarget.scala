package org.apache.spark.sql.bucketing
package metadata

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.execution.datasources.{CatalogFileIndex, FileIndex, InMemoryFileIndex}

/**
 * Refuses tables whose rows are not exactly the rows of the files in their directories: readers of such a table would ignore new files, or read files that a
 * statement does not know of.
 */
object WriteTarget {

  /** The directory in which a streaming query lists the files that it has written. Readers then list no directory. */
  private val StreamLog = "_spark_metadata"

  private val Transactional = "transactional"
  private val Expected = "a table whose directory contains exactly its files"

  /** Returns whether a table has buckets or properties of the extension. Spark alone decides about writes into other tables. */
  def isOurs(table: CatalogTable): Boolean = table.bucketSpec.isDefined || table.properties.keys.exists(_.startsWith("bucketing."))

  /**
   * Throws an error if the extension cannot write files into a table.
   *
   * @param statement what the statement does with the table, such as `write into`
   * @param index the listing of the table's files with which the statement was planned
   */
  def check(session: SparkSession, table: CatalogTable, statement: String, index: Option[FileIndex] = None): Unit = {
    def refused(found: String, expected: String, instead: String) =
      throw BucketValidation.refused(table, found, expected, s"$instead; nothing has been changed", statement)
    if (CaseInsensitiveMap(table.properties).get(Transactional).exists(_.trim.equalsIgnoreCase("true")))
      refused(s"a transactional table of Hive, ${describe(table)}", "a table without transactions, because Spark does not support Hive's delta files",
        s"change it in Hive, or copy its rows with Hive into a table with '$Transactional' = 'false'")
    if (table.unsupportedFeatures.nonEmpty)
      refused(table.unsupportedFeatures.mkString(", "), "a table without Hive features that Spark does not support", "change it in Hive")
    val log = new Path(new Path(table.location), StreamLog)
    if (log.getFileSystem(Compat.hadoopConf(session)).exists(log))
      refused(s"the directory $StreamLog: a streaming query wrote the table, and readers see only the files that this directory lists", Expected,
        "stop the query, copy the rows into a new table, and write streams into it with foreachBatch")
    index.filterNot(isListing).foreach(other => refused(s"files that ${other.getClass.getName} lists", Expected, "copy its rows into a new table"))
  }

  private def describe(table: CatalogTable): String =
    CaseInsensitiveMap(table.properties).get("transactional_properties").fold("full ACID")(kind => s"'transactional_properties' = '$kind'")

  // A subclass may list other files, such as those of a streaming query.
  private def isListing(index: FileIndex): Boolean =
    index.getClass == classOf[InMemoryFileIndex] || index.isInstanceOf[CatalogFileIndex] || index.getClass.getName.startsWith("org.apache.spark.sql.bucketing.")
}
