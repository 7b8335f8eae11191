package org.apache.spark.sql.bucketing

import org.apache.spark.sql.execution.SparkPlan

/** Puts a check over every bucketed scan that is to be held to its word. */
object BucketChecks {

  def apply(plan: SparkPlan): SparkPlan = if (BucketingConf.checksReads) checked(plan) else plan

  private def checked(plan: SparkPlan): SparkPlan = plan match {
    case done: BucketCheckExec => done
    case scan: BucketScan => check(scan)
    case other => other.mapChildren(checked)
  }

  private def check(scan: BucketScan): SparkPlan = {
    val alarm = BucketAlarm(
      scan.read.of.table, Distrust.of(scan.relation.location.rootPaths.map(_.toString), scan.session.sparkContext))
    val bucket = scan.read.of.hash.partitioning(scan.keys, scan.read.partitions).partitionIdExpression
    val order = scan.outputOrdering.map(_.child)
    val guards = InBucket(bucket, alarm) +: (if (order.isEmpty) Nil else Seq(InOrder(order, alarm)))
    BucketCheckExec(guards, scan)
  }
}
