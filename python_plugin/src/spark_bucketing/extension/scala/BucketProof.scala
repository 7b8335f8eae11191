package org.apache.spark.sql.bucketing

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.FileSourceScanExec

/**
 * Whether the files of a scan are the buckets that the table's metadata promises.
 *
 * Names come first: every one must name a bucket below the table's number of buckets. They prove too little (the files
 * of 8 buckets look right for 16), so a few rows of a few files are hashed as well (BucketProbe), and the rows that are
 * read are checked all (BucketCheckExec).
 */
object BucketProof extends Logging {

  /**
   * The scan as a proven bucketed one, or a plain one that says why. The files are listed once, for both.
   *
   * @param early why the files must have been checked before, if they must (EarlyUses)
   */
  def prove(candidate: BucketScan, early: Option[String]): FileSourceScanExec = {
    val (scan, listing) = listed(candidate)
    val outcome = namesOrTrust(scan, listing).orElse(BucketProbe.objection(scan, listing.files)).toLeft(scan)
      .flatMap(found => early.fold(Right(found): Either[String, BucketScan])(EarlyUses.proven(found, listing.files).toRight(_)))
    outcome match {
      case Left(why) =>
        logInfo(s"Table ${scan.read.of.table} is read plainly: $why")
        BucketedReads.stockScan(candidate).getOrElse(scan.plain(why))
      case Right(found) => found.as(found.read.of.buckets)
    }
  }

  /**
   * A proven scan without the files that its filters rule out. A row in the wrong bucket would go missing without a
   * trace there, so that by default the files left out must have been read and checked before, as they are now.
   */
  def prune(scan: BucketScan): BucketScan = (wanted(scan), scan.listing) match {
    case (Some(want), listing: BucketListing) => pruned(scan, listing, want).getOrElse(scan)
    case _ => scan
  }

  /** A scan whose buckets are of no use but for leaving some out. Nothing is read for it unless that may be done. */
  def pruneOnly(candidate: BucketScan): BucketScan = wanted(candidate).flatMap { want =>
    val (scan, listing) = listed(candidate)
    def probed = BucketingConf.pruning != "probed" || BucketProbe.objection(scan, listing.files).isEmpty
    if (namesOrTrust(scan, listing).isEmpty && probed) pruned(scan, listing, want) else None
  }.getOrElse(candidate)

  private def listed(candidate: BucketScan): (BucketScan, BucketListing) = {
    val listing = new BucketListing(candidate.selectedPartitions)
    (candidate.copyWith(listing = listing), listing)
  }

  private def namesOrTrust(scan: BucketScan, listing: BucketListing): Option[String] = {
    val of = scan.read.of
    BucketFiles.objection(listing.files.iterator.map(BucketFiles.nameOf), of.hash, of.buckets)
      .orElse(BucketTrust.distrusted(listing.files).map(name => s"rows were found out of place before in $name"))
  }

  private def pruned(scan: BucketScan, listing: BucketListing, want: BucketPruning.Wanted): Option[BucketScan] = {
    val of = scan.read.of
    def keep(name: String): Boolean = BucketFiles.bucketOf(name, of.hash).forall(want.buckets.contains)
    lazy val checked = listing.files.forall { file =>
      keep(BucketFiles.nameOf(file)) || BucketTrust.isChecked(FileVersion(file), of.unordered, want.nulls)
    }
    if (BucketingConf.pruning == "probed" || checked)
      Some(scan.copyWith(listing = listing.prune(keep, s"${want.buckets.size} out of ${of.buckets}")))
    else None
  }

  /** The buckets that the filters of a scan ask for, where these are not all. */
  private def wanted(scan: BucketScan): Option[BucketPruning.Wanted] =
    if (scan.read.of.hash != BucketHash.Hive || BucketingConf.pruning == "off") None
    else BucketPruning.wanted(scan.dataFilters, scan.keys, scan.read.of)
}
