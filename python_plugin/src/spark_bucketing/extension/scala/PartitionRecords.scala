package org.apache.spark.sql.bucketing

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.json.JsonMapper

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.catalog.CatalogTable

/** Records that are corrected, with the table's other ones. */
object PartitionRecords {

  private val Json = new JsonMapper()

  /**
   * Corrects the records of many partitions at once, for the command line, as ALTER TABLE ... PARTITION does it for one.
   *
   * @param name of the table, qualified
   * @param changes a JSON array with an object for each partition: its `partition` in Hive's form, and of its new
   *   record the number of `buckets`, the `columns` and the `sort` columns; without these for files without buckets
   */
  def correct(session: SparkSession, name: String, changes: String): Unit = {
    val table = Compat.catalog(session).getTableMetadata(session.sessionState.sqlParser.parseTableIdentifier(name))
    BucketDdl.checkTable(table)
    BucketDdl.checkPartitions(table)
    val store = PartitionStore.of(session)
    store.check(table, toHiveLayout = false)
    val found = store.list(table).map(partition => partition.name -> partition).toMap
    val records = Json.readTree(changes).elements.asScala.map { change =>
      val partition = change.get("partition").textValue
      found.getOrElse(partition, throw BucketDdl.refused(table, s"found no partition $partition",
        "the partitions that there were a moment ago", "run the command again")) -> record(table, change)
    }.toSeq
    correct(store, table, records)
    Compat.refresh(session, table.identifier)
  }

  private def record(table: CatalogTable, change: JsonNode): PartitionRecord = {
    def names(key: String) = change.get(key).elements.asScala.map(_.textValue).toSeq
    val asked = Option(change.get("buckets"))
      .map(number => AskedBuckets(number.bigIntegerValue, names("columns"), names("sort")))
    PartitionRecord.of(asked.map(BucketDdl.spec(table, _)))
  }

  /** The first records of a table make it an evolved one, of which readers ask for the records of all partitions. */
  def correct(store: PartitionStore, table: CatalogTable, records: Seq[(StoredPartition, PartitionRecord)]): Unit = {
    val asked = records.filterNot { case (partition, record) => partition.has(record) }
    if (PartitionRecord.isEvolved(table)) store.record(table, asked)
    else {
      val names = records.map { case (partition, _) => partition.name }.toSet
      val others = store.list(table).filterNot(other => names.contains(other.name))
      store.record(table, asked)
      store.recordMissing(table, unrecorded(table, others))
      store.alterTable(table, TableChange(table.bucketSpec, properties(table)))
    }
  }

  /** Partitions without a record, with that of the spec by which they are read so far: their own, or the table's. */
  def unrecorded(table: CatalogTable, all: Seq[StoredPartition]): Seq[(StoredPartition, PartitionRecord)] =
    all.filter(_.record.isEmpty).map { partition =>
      partition -> partition.described.flatMap(_.record).getOrElse(PartitionRecord.of(table.bucketSpec))
    }

  /** What is set among the properties of a table that becomes evolved. */
  def properties(table: CatalogTable): Map[String, String] =
    Map("bucketing_version" -> table.properties.getOrElse("bucketing_version", "1"), PartitionRecord.Evolved -> "true")
}
