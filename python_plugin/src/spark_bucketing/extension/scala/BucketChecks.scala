package org.apache.spark.sql.bucketing

import org.apache.spark.sql.execution.SparkPlan

/**
 * Puts a check over every bucketed scan that is to be held to its word. Where partitions share a bucket, the same node
 * leaves each of them its own rows, checked or not.
 */
object BucketChecks {

  def apply(plan: SparkPlan): SparkPlan = plan match {
    case done: BucketCheckExec => done
    case scan: BucketScan if scan.read.splits || BucketingConf.checksReads => check(scan)
    case other => other.mapChildren(apply)
  }

  private def check(scan: BucketScan): SparkPlan = {
    val read = scan.read
    val roots = scan.relation.location.rootPaths.map(_.toString)
    val distrust = Findings.distrusted(scan.selectedPartitions.toPartitionArray, scan.session.sparkContext)
    val alarm = BucketAlarm(read.of.table, roots, distrust, oneFileAtATime = !read.merged)
    val bucket = read.of.hash.partitioning(scan.keys, read.partitions).partitionIdExpression
    val order = scan.outputOrdering.map(_.child)
    val guards = InBucket(bucket, math.min(read.of.buckets, read.partitions), alarm) +:
      (if (order.isEmpty || !BucketingConf.checksReads) Nil else Seq(InOrder(order, alarm)))
    BucketCheckExec(guards, scan.copyWith(read.copy(checked = BucketingConf.checksReads)))
  }
}
