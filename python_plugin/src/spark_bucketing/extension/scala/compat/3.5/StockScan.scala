package org.apache.spark.sql.bucketing
package compat

import org.apache.spark.sql.execution._

/** Spark's file scan with the arguments of another one, to be subclassed. */
abstract class StockScan(of: FileSourceScanExec)
    extends FileSourceScanExec(
      of.relation, of.output, of.requiredSchema, of.partitionFilters, of.optionalBucketSet,
      of.optionalNumCoalescedBuckets, of.dataFilters, of.tableIdentifier, of.disableBucketedScan)

/** A scan whose partitions mean something. This Spark joins none of them by itself. */
trait NotByOneTask extends FileSourceScanLike
