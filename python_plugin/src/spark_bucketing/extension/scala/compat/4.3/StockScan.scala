package org.apache.spark.sql.bucketing
package compat

import org.apache.spark.sql.execution._

/** Spark's file scan with the arguments of another one, to be subclassed. */
abstract class StockScan(of: FileSourceScanExec)
    extends FileSourceScanExec(
      of.relation, of.stream, of.output, of.requiredSchema, of.partitionFilters, of.optionalBucketSet,
      of.optionalNumCoalescedBuckets, of.dataFilters, of.tableIdentifier, of.disableBucketedScan,
      of.markedForSingleTaskExecution)

/** A scan whose partitions mean something: it is never read by a single task, as Spark may read a small plain table. */
trait NotByOneTask extends FileSourceScanLike {
  override lazy val useSingleTaskExecution: Boolean = false
}
