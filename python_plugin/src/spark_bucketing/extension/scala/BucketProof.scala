package org.apache.spark.sql.bucketing

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.{FileSourceScanExec, ScanFileListing}

/**
 * Whether the files of a scan are the buckets that the table's metadata promises.
 *
 * Names come first: every one must name a bucket below the table's number of buckets. They prove too little (the files
 * of 8 buckets look right for 16), so a few rows of a few files are hashed as well (BucketProbe), and the rows that are
 * read are checked all (BucketCheckExec).
 */
object BucketProof extends Logging {

  /** The scan as a proven bucketed one, or a plain one that says why. The files are listed once, for both. */
  def prove(candidate: BucketScan): FileSourceScanExec = {
    val of = candidate.read.of
    val listing = candidate.selectedPartitions
    objection(candidate, listing) match {
      case Some(why) =>
        logInfo(s"Table ${of.table} is read plainly: $why")
        BucketedReads.stockScan(candidate).getOrElse(candidate.copyWith(listing = listing).plain(why))
      case None => candidate.copyWith(listing = listing).as(of.buckets)
    }
  }

  private def objection(candidate: BucketScan, listing: ScanFileListing): Option[String] = {
    val of = candidate.read.of
    val files = filesOf(listing)
    BucketFiles.objection(files.iterator.map(name), of.hash, of.buckets)
      .orElse(files.find(BucketTrust.distrusts).map(file => s"file ${name(file)} was found out of place before"))
      .orElse(BucketProbe.objection(candidate, listing))
  }

  /** Files with rows in them. */
  private def filesOf(listing: ScanFileListing): IndexedSeq[FileVersion] =
    listing.filePartitionIterator.flatMap(_.files).filter(_.getLen > 0)
      .map(file => FileVersion(file.getPath.toString, file.getLen, file.getModificationTime)).toIndexedSeq

  private def name(file: FileVersion): String = file.path.substring(file.path.lastIndexOf('/') + 1)
}
