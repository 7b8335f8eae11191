package org.apache.spark.sql.bucketing
package read

import scala.annotation.tailrec

import org.apache.spark.internal.Logging
import org.apache.spark.sql.bucketing.metadata.{BucketFiles, Seal}
import org.apache.spark.sql.bucketing.read.BucketAwareScan.like
import org.apache.spark.sql.catalyst.expressions.{Expression, ExprId, SortOrder}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution.{FileSourceScanExec, FilterExec, SortExec, SparkPlan}
import org.apache.spark.sql.execution.joins.SortMergeJoinExec

/**
 * Plans a bucketed scan where an operator above requires the buckets, before Spark adds exchanges and sorts.
 *
 * First, every scan of a sealed table becomes a bucketed scan. Next, this rule lists the files of the scans whose buckets are
 * required, and compares the files with the seals. Finally, all other scans revert to ordinary scans, or to stock Spark's bucketed scans.
 */
object BucketedReads extends Logging {

  private val Stock = TreeNodeTag[FileSourceScanExec]("bucketing.stock_scan")

  @tailrec
  def apply(plan: SparkPlan): SparkPlan = {
    val read = withBuckets(plan)
    // Another session may have sealed files since Spark selected the partitions. Then, read their seals again.
    val outdated = read.collect { case scan: FallbackScan if FallbackReason.OfSeals(scan.why.code) => KeptSeals.in(scan) }.flatten
    if (outdated.map(_.forget()).contains(true)) apply(plan) else read
  }

  private def withBuckets(plan: SparkPlan): SparkPlan = {
    val claimed = plan.transformUp { case scan: FileSourceScanExec => claim(scan) }
    if (!claimed.exists(_.isInstanceOf[BucketAwareScan])) plan
    else {
      // Comet does not run bucket unions.
      val unites = BucketingConf.unitesBuckets && !claimed.exists { case scan: BucketScan => NativeReads.isIn(scan.session); case _ => false }
      val united = if (unites) BucketUnions(claimed) else claimed
      planned(BucketRequirements.withoutNeedlessShuffles(united), Map.empty)
    }
  }

  /**
   * Returns the plan with bucketed scans. If buckets are too few or too large even if they are divided into ranges, plans again with ordinary scans.
   *
   * @param refused the columns of scans that are too slow with buckets
   */
  @tailrec
  private def planned(claimed: SparkPlan, refused: Map[Seq[ExprId], FallbackReason]): SparkPlan = {
    val found = BucketAlignment(BucketUnions.takeBack(SmallBucketCoalescing(compare(claimed, refused))))
    val divided = DividedBuckets(found)
    val reasons = BucketTasks.tooFewForOthers(divided) ++ NativeReads.oneSided(divided).map(_ -> NativeReads.OneSided)
    val more = divided.collect { case scan: BucketScan => BucketTasks.objection(scan).orElse(reasons.get(scan)).map(scan.output.map(_.exprId) -> _) }.flatten
    if (more.isEmpty) OrderJoinKeys(SlicedJoins(divided)) else planned(claimed, refused ++ more)
  }

  /** Returns stock Spark's scan of a table in the Spark layout, or None for a table in the Hive layout. */
  private def stockScan(scan: BucketScan): Option[FileSourceScanExec] = scan.getTagValue(Stock)

  private def stepBack(scan: BucketScan, why: FallbackReason): FileSourceScanExec =
    if (why.code == FallbackReason.FilesMissing) NativeReads.refuse(scan.plain(why)) else stockScan(scan).getOrElse(scan.plain(why))

  private def claim(scan: FileSourceScanExec): FileSourceScanExec = scan match {
    case _: BucketAwareScan => scan
    case _ =>
      val files = new LazyFileListing(scan)
      SealedSpecs.of(scan, files) match {
        case Some(Right(read)) => bucketed(scan, read, files.listed.orNull)
        // Stock Spark reads the Spark layout without seals.
        case Some(Left(Fallback(_, seals))) if scan.relation.bucketSpec.isDefined => missing(scan, seals).fold(scan)(failing(scan, _, seals))
        case Some(Left(Fallback(why, seals))) => like(scan, new FallbackScan(scan.copy(), why, seals, null))
        case None => scan
      }
  }

  private def bucketed(scan: FileSourceScanExec, read: BucketRead, listing: BucketListing): BucketScan = {
    // Remove the bucket spec from the relation, so that Spark's rules do not treat this scan as one of Spark's own bucketed scans.
    val relation = scan.relation.copy(bucketSpec = None)(scan.relation.sparkSession)
    val claimed = NativeReads.refuse(like(scan, new BucketScan(scan.copy(relation = relation), read, listing)))
    if (!read.of.hash.inHiveLayout) claimed.setTagValue(Stock, scan)
    claimed
  }

  private def compare(claimed: SparkPlan, refused: Map[Seq[ExprId], FallbackReason]): SparkPlan = {
    val needed = BucketRequirements.of(claimed)
    claimed.transformUp {
      case scan: BucketScan if needed.contains(scan) => listed(scan).flatMap(NativeReads.adapted) match {
        case Right(found) =>
          val some = pruned(found).getOrElse(found).as(found.read.of.buckets)
          refused.get(scan.output.map(_.exprId)).fold[FileSourceScanExec](some)(stepBack(some, _))
        case Left(why) => stepBack(scan, why)
      }
      case scan: BucketScan if stockScan(scan).isDefined && !RuntimeFilters.areIn(scan) => missing(scan, scan.read.folders.seals).fold(stockScan(scan).get)(stepBack(scan, _))
      // An ordinary scan can still skip the buckets that its filters exclude.
      case scan: BucketScan =>
        val some = if (wanted(scan).isEmpty) None else listed(scan).toOption.flatMap(pruned)
        some.getOrElse(scan).plain(FallbackReason.NotNeeded)
    }
  }

  /**
   * Returns the scan with its listed files, or the reason why the files do not match the seals. A bucketed scan and the pruned
   * ordinary scan that may replace it share one listing.
   */
  private def listed(candidate: BucketScan): Either[FallbackReason, BucketScan] = {
    val listing = Option(candidate.listing).getOrElse(BucketListing.of(candidate))
    candidate.read.folders.objectionTo(listing, candidate.read.of.hash).map { stale =>
      val why = missing(candidate, candidate.read.folders.seals).getOrElse(stale)
      logInfo(s"Using an ordinary scan for table ${candidate.read.of.table}: $why")
      why
    }.toLeft(candidate.copyWith(listing = listing))
  }

  private def missing(scan: FileSourceScanExec, seals: Map[String, Seal]): Option[FallbackReason] =
    if (seals.isEmpty) None else PerQueryCache(("missing files", BucketListing.of(scan), seals))(BucketAwareScan.missingFiles(scan, BucketListing.of(scan).stock, seals))

  /** Returns a scan that fails when it runs, unless the session ignores missing files. */
  private def failing(scan: FileSourceScanExec, why: FallbackReason, seals: Map[String, Seal]): FileSourceScanExec =
    NativeReads.refuse(like(scan, new FallbackScan(scan.copy(relation = scan.relation.copy(bucketSpec = None)(scan.relation.sparkSession)), why, seals, null)))

  /** Returns the scan without the buckets that its filters exclude, or None if they exclude none. */
  private def pruned(scan: BucketScan): Option[BucketScan] = wanted(scan).map { some =>
    scan.copyWith(listing = scan.listing.prune(some.contains, some.note))
  }

  // Stock Spark prunes the buckets of the Spark layout itself.
  private def wanted(scan: BucketScan): Option[WantedBuckets] =
    if (!scan.read.of.hash.inHiveLayout) None else WantedBuckets(PerQueryCache.known(scan.dataFilters), scan.output, scan.read)
}

/** Replaces bucketed scans with ordinary scans if Spark added an exchange above them. */
object RemoveUnneededBucketScans {

  def apply(plan: SparkPlan): SparkPlan = {
    val needed = BucketRequirements.of(plan)
    // If one of the inputs of a union is an ordinary scan now, the union is no longer bucketed.
    sorted(BucketUnions.takeBack(plan.transformUp { case scan: BucketScan if !needed.contains(scan) => scan.plain(FallbackReason.NotNeeded) }))
  }

  /** Adds a sort if an operator requires the ordering of a scan that is no longer sorted. */
  private def sorted(plan: SparkPlan): SparkPlan = plan.transformUp {
    case operator if operator.requiredChildOrdering.exists(_.nonEmpty) =>
      val children = operator.children.zip(operator.requiredChildOrdering).map { case (child, required) =>
        if (SortOrder.orderingSatisfies(child.outputOrdering, required)) child else SortExec(required, global = false, child)
      }
      if (children.corresponds(operator.children)(_ eq _)) operator else operator.withNewChildren(children)
  }
}

/**
 * Adds a filter to each scan in which several partitions read the same bucket, so that each partition keeps only its own rows.
 *
 * {{{
 *   SortMergeJoin
 *   :- Filter hive_bucket(16, k) = SPARK_PARTITION_ID()
 *   :  +- FileScan ... Bucketed: true (8 Hive buckets read as 16, sorted)
 *   +- FileScan ... Bucketed: true (16 Hive buckets, sorted)
 * }}}
 */
object SplitBuckets {

  def apply(plan: SparkPlan): SparkPlan = plan match {
    case done @ FilterExec(condition, scan: BucketScan) if scan.read.splits && condition.canonicalized == scan.isOfTask.canonicalized => done
    case scan: BucketScan if scan.read.splits => FilterExec(scan.isOfTask, scan)
    case other => other.mapChildren(apply)
  }
}

/** Puts the keys of a join into the order in which the rows of a side are sorted. Spark does so only for rows that are partitioned by its own hash. */
object OrderJoinKeys extends Rule[SparkPlan] {

  override def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
    case join: SortMergeJoinExec if join.leftKeys.size > 1 && join.leftKeys.forall(_.deterministic) && join.rightKeys.forall(_.deterministic) =>
      positionsOf(join.leftKeys, join.left).orElse(positionsOf(join.rightKeys, join.right)).fold(join) { positions =>
        join.copy(leftKeys = positions.map(join.leftKeys), rightKeys = positions.map(join.rightKeys))
      }
  }

  /** Returns the positions of the keys in the order of the rows, if they are sorted by all keys. */
  private def positionsOf(keys: Seq[Expression], side: SparkPlan): Option[Seq[Int]] = if (!side.exists(_.isInstanceOf[BucketScan])) None else {
    val sorted = side.outputOrdering.map(order => keys.indexWhere(_.semanticEquals(order.child))).takeWhile(_ >= 0).distinct
    if (sorted.size < keys.size) None else Some(sorted)
  }
}
