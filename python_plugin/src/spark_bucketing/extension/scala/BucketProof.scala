package org.apache.spark.sql.bucketing

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.FileSourceScanExec
import org.apache.spark.sql.execution.datasources.PartitionedFile

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
   * @param stopped the query may stop reading before the end (EarlyStops)
   */
  def prove(candidate: BucketScan, stopped: Boolean): FileSourceScanExec = {
    val listing = new BucketListing(candidate.selectedPartitions)
    val listed = candidate.copyWith(listing = listing)
    val outcome = objection(listed, listing.files).toLeft(listed)
      .flatMap(scan => if (stopped) EarlyStops.proven(scan, listing.files) else Right(scan))
    outcome match {
      case Left(why) =>
        logInfo(s"Table ${candidate.read.of.table} is read plainly: $why")
        BucketedReads.stockScan(candidate).getOrElse(listed.plain(why))
      case Right(scan) => scan.as(scan.read.of.buckets)
    }
  }

  private def objection(scan: BucketScan, files: Array[PartitionedFile]): Option[String] = {
    val of = scan.read.of
    BucketFiles.objection(files.iterator.map(BucketFiles.nameOf), of.hash, of.buckets)
      .orElse(BucketTrust.distrusted(files).map(name => s"rows were found out of place before in $name"))
      .orElse(BucketProbe.objection(scan, files))
  }

  /**
   * A proven scan without the files that its filters rule out. A row in the wrong bucket would go missing without a
   * trace there, so that by default the files left out must have been read and checked before, as they are now.
   */
  def prune(scan: BucketScan): BucketScan = (wanted(scan), scan.listing) match {
    case (Some(want), listing: BucketListing) =>
      val of = scan.read.of
      def keep(name: String): Boolean = BucketFiles.bucketOf(name, of.hash).forall(want.buckets.contains)
      lazy val checked = listing.files.forall { file =>
        keep(BucketFiles.nameOf(file)) || BucketTrust.isChecked(FileVersion(file), of, want.nulls)
      }
      if (BucketingConf.pruning != "probed" && !checked) scan
      else scan.copyWith(listing = listing.prune(keep, s"${want.buckets.size} out of ${of.buckets}"))
    case _ => scan
  }

  /** The buckets that the filters of a scan ask for, where these are not all. */
  def wanted(scan: BucketScan): Option[BucketPruning.Wanted] =
    if (scan.read.of.hash != BucketHash.Hive || BucketingConf.pruning == "off") None
    else BucketPruning.wanted(scan.dataFilters, scan.keys, scan.read.of)
}
