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
   * @param early why the files must have been checked before, if they must (EarlyUses)
   */
  def prove(candidate: BucketScan, early: Option[String]): FileSourceScanExec = {
    val (claimed, listing) = listed(candidate)
    // Of files that Hive sorted with NULL last, for one, the buckets are good.
    val inOrder = BucketTrust.distrusted(listing.files, OfOrder).isEmpty
    val scan = if (inOrder) claimed else claimed.copyWith(claimed.read.copy(of = claimed.read.of.unordered))
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

  /** What the claim relies on, if it has listed the files already, is what is proven and read. */
  private def listed(candidate: BucketScan): (BucketScan, BucketListing) = candidate.listing match {
    case found: BucketListing => (candidate, found)
    case _ =>
      val listing = BucketListing.of(candidate)
      (candidate.copyWith(listing = listing), listing)
  }

  private def namesOrTrust(scan: BucketScan, listing: BucketListing): Option[String] = {
    val of = scan.read.of
    BucketFiles.objection(listing.files.iterator.map(_.urlEncodedPath), of.hash, scan.read.counts)
      .orElse(BucketTrust.distrusted(listing.files, OfRows).map(name => s"rows were found out of place before in $name"))
  }

  /**
   * Each file is kept or left out by the number of buckets that it was written for; or, while it was only checked together
   * with files of other numbers, by the one that divides them all.
   */
  private def pruned(scan: BucketScan, listing: BucketListing, want: Map[Int, BucketPruning.Wanted]): Option[BucketScan] = {
    val read = scan.read
    def isChecked(file: FileVersion, buckets: Int): Boolean = want.get(buckets).forall { wanted =>
      BucketTrust.isChecked(file, read.of.unordered.copy(buckets = buckets), wanted.nulls)
    }
    def isWanted(file: String, buckets: Int): Boolean = want.get(buckets).forall { wanted =>
      BucketFiles.bucketOf(BucketFiles.nameOf(file), read.of.hash).forall(bucket => wanted.buckets.contains(bucket % buckets))
    }
    def level(file: PartitionedFile): Option[Int] = {
      val (url, common) = (file.urlEncodedPath, read.of.buckets)
      val own = read.counts.of(url)
      lazy val version = FileVersion(file)
      if (BucketingConf.pruning == "probed" || isWanted(url, own) || isChecked(version, own)) Some(own)
      else Some(common).filter(_ => own != common && (isWanted(url, common) || isChecked(version, common)))
    }
    val levels = listing.files.map(level)
    if (levels.contains(None)) None
    else {
      val others = listing.files.iterator.map(_.urlEncodedPath).zip(levels.iterator.flatten)
        .filter { case (file, level) => level != read.counts.of(file) }.toMap
      def keep(file: String): Boolean = isWanted(file, others.getOrElse(file, read.counts.of(file)))
      val note = levels.flatten.distinct.sorted.flatMap(n => want.get(n).map(wanted => s"${wanted.buckets.size} out of $n"))
      Some(scan.copyWith(listing = listing.prune(keep, note.mkString(", "))))
    }
  }

  /** The buckets that the filters of a scan ask for, by the number of buckets, where these are not all. */
  private def wanted(scan: BucketScan): Option[Map[Int, BucketPruning.Wanted]] =
    if (scan.read.of.hash != BucketHash.Hive || BucketingConf.pruning == "off") None
    else Some(scan.read.counts.distinct.flatMap { buckets =>
      BucketPruning.wanted(scan.dataFilters, scan.keys, scan.read.of.copy(buckets = buckets)).map(buckets -> _)
    }.toMap).filter(_.nonEmpty)
}
