package org.apache.spark.sql.bucketing
package compat

import org.apache.spark.sql.catalyst.expressions.{DynamicPruningSubquery, Expression}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution._

/** A base class for scans that copies the constructor arguments of one of Spark's own file scans. */
abstract class StockScan(of: FileSourceScanExec)
    extends FileSourceScanExec(
      of.relation, of.stream, of.output, of.requiredSchema, of.partitionFilters, of.optionalBucketSet,
      of.optionalNumCoalescedBuckets, of.dataFilters, of.tableIdentifier, of.disableBucketedScan)

/** A scan whose partitions must be read by separate tasks. This Spark version never combines them. */
trait NotByOneTask extends FileSourceScanLike

object RuntimeFilter {

  /** Returns a filter of a column by a key of a broadcast table. It does nothing if Spark cannot reuse the broadcast. */
  def apply(column: Expression, build: LogicalPlan, buildKeys: Seq[Expression], place: Int): Expression =
    DynamicPruningSubquery(column, build, buildKeys, broadcastKeyIndices = Seq(place), onlyInBroadcast = true)
}
