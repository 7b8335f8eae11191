package org.apache.spark.sql.bucketing
package compat

import org.apache.spark.sql.execution._

/** A base class for scans that copies the constructor arguments of one of Spark's own file scans. */
abstract class StockScan(of: FileSourceScanExec)
    extends FileSourceScanExec(
      of.relation, of.stream, of.output, of.requiredSchema, of.partitionFilters, of.optionalBucketSet,
      of.optionalNumCoalescedBuckets, of.dataFilters, of.tableIdentifier, of.disableBucketedScan)

/** A scan whose partitions must be read by separate tasks. This Spark version never combines them. */
trait NotByOneTask extends FileSourceScanLike
