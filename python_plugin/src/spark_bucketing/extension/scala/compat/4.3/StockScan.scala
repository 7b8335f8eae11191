package org.apache.spark.sql.bucketing
package compat

import org.apache.spark.sql.execution._

/** A base class for scans that copies the constructor arguments of one of Spark's own file scans. */
abstract class StockScan(of: FileSourceScanExec)
    extends FileSourceScanExec(
      of.relation, of.stream, of.output, of.requiredSchema, of.partitionFilters, of.optionalBucketSet,
      of.optionalNumCoalescedBuckets, of.dataFilters, of.tableIdentifier, of.disableBucketedScan,
      of.markedForSingleTaskExecution)

/** A scan whose partitions must be read by separate tasks. Otherwise, Spark would read a small table in a single task. */
trait NotByOneTask extends FileSourceScanLike {
  override lazy val useSingleTaskExecution: Boolean = false
}
