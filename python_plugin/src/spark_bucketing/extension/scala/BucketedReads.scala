package org.apache.spark.sql.bucketing

import org.apache.spark.sql.bucketing.ScanOfBuckets.like
import org.apache.spark.sql.execution.{FileSourceScanExec, SparkPlan}

/**
 * Puts bucketed scans where an operator above can use them, before Spark decides on exchanges and sorts.
 *
 * First every scan of a bucketed table claims its buckets untested, which costs nothing; then the claims that something
 * above needs are proven, which lists and probes files; the others are taken back.
 */
object BucketedReads {

  def apply(plan: SparkPlan): SparkPlan = {
    val claimed = plan.transformUp { case scan: FileSourceScanExec => claim(scan) }
    if (claimed eq plan) plan else prove(claimed)
  }

  private def claim(scan: FileSourceScanExec): FileSourceScanExec = scan match {
    case _: ScanOfBuckets => scan
    case _ => BucketSpecs.hiveLayout(scan) match {
      case Some(Right(of)) => like(scan, new BucketScan(scan.copy(), BucketRead(of, of.buckets), null))
      case Some(Left(why)) => like(scan, new PlainScan(scan.copy(), why, null))
      case None => scan
    }
  }

  private def prove(claimed: SparkPlan): SparkPlan = {
    val needed = BucketNeeds.of(claimed)
    claimed.transformUp {
      case scan: BucketScan if needed.contains(scan) => BucketProof.prove(scan)
      case scan: BucketScan => scan.plain(DropUnneeded.Why)
    }
  }
}

/** Takes back the bucketed scans below an exchange that Spark decided on after all. */
object DropUnneeded {

  val Why = "no operator needs its buckets"

  def apply(plan: SparkPlan): SparkPlan = {
    val needed = BucketNeeds.of(plan)
    plan.transformUp { case scan: BucketScan if !needed.contains(scan) => scan.plain(Why) }
  }
}
