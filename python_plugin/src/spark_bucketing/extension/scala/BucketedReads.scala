package org.apache.spark.sql.bucketing

import org.apache.spark.sql.bucketing.ScanOfBuckets.like
import org.apache.spark.sql.catalyst.expressions.SortOrder
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution.{FileSourceScanExec, SortExec, SparkPlan}

/**
 * Puts bucketed scans where an operator above can use them, before Spark decides on exchanges and sorts.
 *
 * First every scan of a bucketed table claims its buckets untested, which costs nothing; then the claims that something
 * above needs are proven, which lists and probes files; the others are taken back.
 */
object BucketedReads {

  private val Stock = TreeNodeTag[FileSourceScanExec]("bucketing.stock_scan")

  /** @param ofWrite why all rows must have been checked before, if they must (EarlyUses) */
  def apply(plan: SparkPlan, ofWrite: Option[String]): SparkPlan = {
    val claimed = plan.transformUp { case scan: FileSourceScanExec => claim(scan) }
    if (!claimed.exists(_.isInstanceOf[ScanOfBuckets])) plan
    else {
      val united = if (BucketingConf.unitesBuckets) BucketUnions(claimed) else claimed
      BucketAlignment(BucketUnions.takeBack(prove(EnsureBucketedRows.dropNeedless(united), ofWrite)))
    }
  }

  /** Spark's own bucketed scan, where there was one: what it makes of its layout is its own affair. */
  def stockScan(candidate: BucketScan): Option[FileSourceScanExec] = candidate.getTagValue(Stock)

  private def claim(scan: FileSourceScanExec): FileSourceScanExec = scan match {
    case _: ScanOfBuckets => scan
    case _ =>
      val files = new FilesOnDemand(scan)
      BucketSpecs.of(scan, files) match {
        case Some(Right(read)) => bucketed(scan, read, files.listed.orNull)
        case Some(Left(why)) => like(scan, new PlainScan(scan.copy(), why, files.listed.orNull))
        case None => scan
      }
  }

  private def bucketed(scan: FileSourceScanExec, read: BucketRead, listing: BucketListing): BucketScan = {
    // Without Spark's bucket spec, so that no rule of Spark's takes the scan for one of its own.
    val relation = scan.relation.copy(bucketSpec = None)(scan.relation.sparkSession)
    val claimed = like(scan, new BucketScan(scan.copy(relation = relation), read, listing))
    if (read.of.hash == BucketHash.Spark) claimed.setTagValue(Stock, scan)
    claimed
  }

  private def prove(claimed: SparkPlan, ofWrite: Option[String]): SparkPlan = {
    val needed = BucketNeeds.of(claimed)
    lazy val early = EarlyUses.of(claimed, ofWrite)
    claimed.transformUp {
      case scan: BucketScan if needed.contains(scan) => BucketProof.prove(scan, Option(early.get(scan))) match {
        case bucketed: BucketScan => BucketProof.prune(bucketed)
        case plain => plain
      }
      // Without use for its partitions, a scan may still leave out the buckets that its filters rule out.
      case scan: BucketScan => stockScan(scan).getOrElse(BucketProof.pruneOnly(scan).plain(DropUnneeded.Why))
    }
  }
}

/** Takes back the bucketed scans below an exchange that Spark decided on after all. */
object DropUnneeded {

  val Why = "no operator needs its buckets"

  def apply(plan: SparkPlan): SparkPlan = {
    val needed = BucketNeeds.of(plan)
    // A union of inputs of which some are plain now has no buckets of its own.
    sorted(BucketUnions.takeBack(plan.transformUp { case scan: BucketScan if !needed.contains(scan) => scan.plain(Why) }))
  }

  /** Sorts where an operator was planned upon the order of a scan that has none any more. */
  private def sorted(plan: SparkPlan): SparkPlan = plan.transformUp {
    case operator if operator.requiredChildOrdering.exists(_.nonEmpty) =>
      val children = operator.children.zip(operator.requiredChildOrdering).map { case (child, required) =>
        if (SortOrder.orderingSatisfies(child.outputOrdering, required)) child else SortExec(required, global = false, child)
      }
      if (children.corresponds(operator.children)(_ eq _)) operator else operator.withNewChildren(children)
  }
}
