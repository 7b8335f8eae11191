package org.apache.spark.sql.bucketing

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.{FileSourceOptions, InternalRow}
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.{FileSourceScanExec, SparkPlanner}
import org.apache.spark.sql.execution.datasources.{FilePartition, FileScanRDD, PartitionedFile}
import org.apache.spark.sql.types.StructType

/** What differs between versions of Spark: constructors, mostly. Written for 4.3. */
object Compat {

  /** The session's planner with all its strategies, those of extensions among them. */
  def planner(session: SparkSession): SparkPlanner = session.asInstanceOf[ClassicSession].sessionState.planner

  def fileScan(
      scan: FileSourceScanExec,
      read: PartitionedFile => Iterator[InternalRow],
      partitions: Seq[FilePartition]): RDD[InternalRow] = {
    val relation = scan.relation
    new FileScanRDD(
      relation.sparkSession,
      read,
      partitions,
      new StructType(scan.requiredSchema.fields ++ relation.partitionSchema.fields),
      scan.fileConstantMetadataColumns,
      relation.fileFormat.fileConstantMetadataExtractors,
      new FileSourceOptions(CaseInsensitiveMap(relation.options)))
  }
}

/** Spark's file scan with the arguments of another one, to be subclassed. */
abstract class StockScan(of: FileSourceScanExec)
    extends FileSourceScanExec(
      of.relation, of.stream, of.output, of.requiredSchema, of.partitionFilters, of.optionalBucketSet,
      of.optionalNumCoalescedBuckets, of.dataFilters, of.tableIdentifier, of.disableBucketedScan,
      of.markedForSingleTaskExecution)
