package org.apache.spark.sql.bucketing
package compat

import org.apache.spark.sql.execution._

/** A base class that copies the constructor arguments of a Spark file scan. */
abstract class StockScan(of: FileSourceScanExec)
    extends FileSourceScanExec(
      of.relation, of.stream, of.output, of.requiredSchema, of.partitionFilters, of.optionalBucketSet,
      of.optionalNumCoalescedBuckets, of.dataFilters, of.tableIdentifier, of.disableBucketedScan,
      of.markedForSingleTaskExecution)

/** A scan whose partitions must stay separate. It prevents Spark from reading a small table in a single task. */
trait NotByOneTask extends FileSourceScanLike {
  override lazy val useSingleTaskExecution: Boolean = false
}
