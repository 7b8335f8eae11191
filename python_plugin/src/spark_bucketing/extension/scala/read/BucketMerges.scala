package org.apache.spark.sql.bucketing
package read

import org.apache.spark.sql.catalyst.expressions.{InputFileBlockLength, InputFileBlockStart, InputFileName, SortOrder}
import org.apache.spark.sql.execution.{SortExec, SparkPlan}
import org.apache.spark.sql.execution.aggregate.SortAggregateExec
import org.apache.spark.sql.types.StringType

/**
 * Replaces a sort with a merge. A scan merges the sorted files of each bucket while it reads them, and a bucket union merges
 * its sorted inputs.
 *
 * {{{
 *   Sort k                            Filter
 *   +- Filter                   =>    +- FileScan, Bucketed: true (8 Hive buckets, merged)
 *      +- FileScan, Bucketed: true
 * }}}
 */
object BucketMerges {

  def apply(plan: SparkPlan): SparkPlan =
    if (BucketingConf.mergeFiles < 2 || asksForFiles(plan)) plan
    else plan.transformDown { case sort: SortExec if !sort.global => merged(sort) }

  private def merged(sort: SortExec): SparkPlan = {
    val scans = sort.child.collect { case scan: BucketScan if !scan.read.ordered && scan.mergeable => scan }
    def merging(chosen: Seq[BucketScan]): SparkPlan = sort.child.transformUp {
      case scan: BucketScan if chosen.exists(_ eq scan) => scan.copyWith(scan.read.copy(ordered = true, merged = true))
      case union: BucketUnionExec => union.copy(merged = true)
    }
    def suffices(chosen: Seq[BucketScan]): Boolean =
      SortOrder.orderingSatisfies(merging(chosen).outputOrdering, sort.sortOrder)
    if (!suffices(scans)) sort
    // Merging is expensive, so skip scans whose order the sort does not require, such as the build side of a hash join.
    else merging(scans.foldLeft(scans) { (chosen, scan) =>
      val others = chosen.filterNot(_ eq scan)
      if (suffices(others)) others else chosen
    })
  }

  // A merge reads several files at the same time, so functions such as input_file_name() could not return the current file.
  private def asksForFiles(plan: SparkPlan): Boolean = plan.exists(_.expressions.exists(_.exists {
    case _: InputFileName | _: InputFileBlockStart | _: InputFileBlockLength => true
    case _ => false
  }))
}

/**
 * Adds a sort below each sort aggregate whose buffer has strings with a collation. Without generated code, Spark does not copy
 * such a string into the buffer, so the string changes when the input reuses its row. A sort does not reuse its rows.
 */
object CollatedAggregates {

  def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
    case aggregate: SortAggregateExec if aggregate.groupingExpressions.nonEmpty && isCollated(aggregate) => aggregate.child match {
      case _: SortExec => aggregate
      case child => aggregate.withNewChildren(Seq(SortExec(aggregate.requiredChildOrdering.head, global = false, child)))
    }
  }

  private def isCollated(aggregate: SortAggregateExec): Boolean =
    aggregate.aggregateExpressions.flatMap(_.aggregateFunction.aggBufferAttributes).exists(_.dataType match {
      case string: StringType => string != StringType
      case _ => false
    })
}
