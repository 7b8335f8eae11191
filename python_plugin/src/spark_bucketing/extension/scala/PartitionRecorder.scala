package org.apache.spark.sql.bucketing

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec
import org.apache.spark.sql.execution.datasources.V1WriteCommand

/**
 * What a write into a partitioned table of the Hive layout leaves in the metastore: the record of every partition that
 * it wrote, once the files are there.
 *
 * @param record what the files of this write are
 * @param overwrites the files that were there are gone
 * @param onlyNew a partition that there is already is left alone (IF NOT EXISTS)
 * @param static values of partition columns that the statement names
 */
case class PartitionRecorder(
    table: CatalogTable, record: PartitionRecord, overwrites: Boolean, onlyNew: Boolean, static: TablePartitionSpec)
    extends Logging {

  /**
   * Runs the write. The rows are in the table when it has ended: whatever goes wrong with the records is a warning.
   *
   * @param write gives the partitions that it wrote
   */
  def around[T](session: SparkSession, write: => (T, Seq[TablePartitionSpec])): T = {
    val store = PartitionStore.of(session)
    val before = if (onlyNew || !overwrites && record.isBucketed) existing(store) else None
    val (result, written) = write
    try recordAll(store, written, before)
    catch { case NonFatal(error) => logWarning(failure(store, written), error) }
    result
  }

  /** Names of the partitions that there are; None if they cannot be had. */
  private def existing(store: PartitionStore): Option[Set[String]] =
    try Some(Seq(static, BucketDdl.stored(table, static)).distinct.flatMap(store.names(table, _)).toSet) catch {
      case NonFatal(error) =>
        logWarning(s"Partitions of ${table.identifier.quotedString} cannot be listed: new ones get no record.", error)
        None
    }

  private def recordAll(store: PartitionStore, written: Seq[TablePartitionSpec], before: Option[Set[String]]): Unit = {
    val records = store.find(table, written).flatMap { partition =>
      val isNew = before.exists(!_.contains(partition.name))
      recordOf(partition, isNew).filterNot(partition.has).map(partition -> _)
    }
    store.record(table, records)
  }

  /** None leaves a partition as it is: of the files that were there before, nothing is known. */
  private def recordOf(partition: StoredPartition, isNew: Boolean): Option[PartitionRecord] =
    if (onlyNew) Some(record).filter(_ => isNew)
    else if (overwrites || !record.isBucketed) Some(record)
    else partition.record match {
      case Some(Right(`record`)) => Some(record)
      case Some(Right(_)) => Some(PartitionRecord.Unbucketed)
      case Some(Left(_)) => None
      case None => Some(record).filter(_ => isNew)
    }

  private def failure(store: PartitionStore, written: Seq[TablePartitionSpec]): String = {
    val (named, others) = written.splitAt(PartitionRecorder.Named)
    val names = named.map(store.nameOf(table, _)).mkString(", ")
    val more = if (others.nonEmpty) s" and ${others.length} more" else ""
    val name = table.identifier.copy(catalog = None).unquotedString
    s"The rows are written into ${table.identifier.quotedString}, but not the bucket records of these partitions: " +
      s"$names$more. Queries read what the records do not fit plainly. Run: spark-bucketing evolution repair $name"
  }
}

object PartitionRecorder {

  /** Partitions that a warning names. */
  private val Named = 20

  /**
   * Of a write that leaves records: into partitions of buckets, or into a table that has none any more, whose
   * partitions may have records of theirs. Of buckets whose hash is not Hive's nothing is recorded.
   */
  def of(
      table: CatalogTable, write: V1WriteCommand, overwrites: Boolean, onlyNew: Boolean,
      static: TablePartitionSpec): Option[PartitionRecorder] = {
    val records = write.bucketSpec.fold(PartitionRecord.isEvolved(table)) { spec =>
      BucketDdl.unlikeHive(table, spec.bucketColumnNames).isEmpty
    }
    if (table.partitionColumnNames.isEmpty || !records) None
    else Some(PartitionRecorder(table, PartitionRecord.of(write.bucketSpec), overwrites, onlyNew, static))
  }
}
