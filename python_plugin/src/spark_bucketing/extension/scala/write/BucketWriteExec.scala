package org.apache.spark.sql.bucketing
package write

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.catalyst.catalog.{BucketSpec, CatalogTable}
import org.apache.spark.sql.catalyst.expressions.{Ascending, Attribute, Expression, SortOrder}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.plans.physical.SinglePartition
import org.apache.spark.sql.connector.write.WriterCommitMessage
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.datasources._
import org.apache.spark.sql.execution.exchange.{REPARTITION_BY_NUM, ShuffleExchangeExec}
import org.apache.spark.sql.internal.SQLConf

/**
 * Spark's file writer with another expression for the bucket id. Spark's `V1WritesUtils` knows only its own hash and Hive's hash
 * of version 1, so this operator replaces the expression in the description of the write.
 */
class BucketWriteExec(
    child: SparkPlan, format: FileFormat, partitions: Seq[Attribute], spec: Option[BucketSpec], writeOptions: Map[String, String],
    static: Map[String, String])
    extends WriteFilesExec(child, format, partitions, spec, writeOptions, static) {

  // For concurrent writers, the description sorts rows by Spark's own bucket id, so this operator does not use concurrent writers.
  override def doExecuteWrite(of: WriteFilesSpec): RDD[WriterCommitMessage] =
    super.doExecuteWrite(of.copy(description = described(of.description), concurrentOutputWriterSpecFunc = _ => None))

  private def described(of: WriteJobDescription): WriteJobDescription = new WriteJobDescription(
    of.uuid, of.serializableHadoopConf, of.outputWriterFactory, of.allColumns, of.dataColumns, of.partitionColumns,
    of.bucketSpec.map(_.copy(bucketIdExpression = BucketWriteExec.bucketId(of.dataColumns, spec.get, writeOptions))), of.path,
    of.customPartitionLocations, of.maxRecordsPerFile, of.timeZoneId, of.statsTrackers)

  override def nodeName: String = "WriteFiles"
  override protected def withNewChildInternal(changed: SparkPlan): BucketWriteExec =
    new BucketWriteExec(changed, format, partitions, spec, writeOptions, static)
}

object BucketWriteExec {

  private def column(columns: Seq[Attribute], name: String): Attribute =
    columns.find(column => SQLConf.get.resolver(column.name, name)).get

  private def bucketId(columns: Seq[Attribute], spec: BucketSpec, options: Map[String, String]): Expression =
    SealedWrites.hashOf(options).partitioning(spec.bucketColumnNames.map(column(columns, _)), spec.numBuckets).partitionIdExpression

  /** Returns the ordering that the writer requires, so that it has only one open file at a time. */
  def ordering(
      columns: Seq[Attribute], dynamic: Seq[Attribute], spec: BucketSpec, options: Map[String, String]): Seq[SortOrder] =
    (dynamic ++ Seq(bucketId(columns, spec, options)) ++ spec.sortColumnNames.map(column(columns, _))).map(SortOrder(_, Ascending))

  /** Throws an error if Spark's own writer would assign rows to buckets with another hash than the table's. */
  def check(plan: SparkPlan, options: Map[String, String], table: Option[CatalogTable]): Unit = {
    val hash = SealedWrites.hashOf(options)
    if (!hash.isWrittenByStockSpark && !V1WritesUtils.getWriteFilesOpt(plan).exists(_.isInstanceOf[BucketWriteExec])) throw Compat.refusal(
      s"Cannot write into ${table.fold("a new table")(_.identifier.quotedString)}.", s"a file writer that does not support bucket_hash='${hash.name}'",
      "the writer of the session extension", "remove other extensions that replace Spark's writer")
  }
}

/** Plans the operators of writes. */
object PlanWrites extends SparkStrategy {

  /** The maximum number of rows that a single task writes to all buckets. For so few rows, one task per bucket would be slower. */
  private val Few = 100L

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    // A shuffle like that of an explicit repartition, so that adaptive execution neither coalesces nor splits its partitions.
    case rows: BucketedRows =>
      val partitioning = if (rows.maxRows.exists(_ <= Few)) SinglePartition else rows.partitioning
      val shuffle = ShuffleExchangeExec(partitioning, planLater(rows.child), REPARTITION_BY_NUM)
      BucketedRowsExec(rows.keys, rows.hash, rows.buckets, rows.partitioning, shuffle) :: Nil
    case rows: RowsBySlot => ShuffleExchangeExec(new SlotPartitioning(rows.slot, rows.tasks), planLater(rows.child), REPARTITION_BY_NUM) :: Nil
    case WriteFiles(child, format, partitions, spec @ Some(_), options, static) if !SealedWrites.hashOf(options).isWrittenByStockSpark =>
      new BucketWriteExec(planLater(child), format, partitions, spec, options, static) :: Nil
    case query: HintedQuery => throw OverwriteHints.unused(query)
    case _ => Nil
  }
}
