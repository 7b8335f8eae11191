package org.apache.spark.sql.bucketing
package read

import scala.collection.concurrent.TrieMap

import org.apache.spark.sql.bucketing.compat.ScanFiles
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.execution.FileSourceScanExec
import org.apache.spark.sql.execution.datasources.{FileIndex, PartitionedFile}

/**
 * The files that Spark listed for a scan. Converts them to an array only once, because a table may have 100,000 files.
 *
 * @param stock Spark's file listing
 * @param pruned number of selected buckets as EXPLAIN shows it, or None without bucket pruning
 */
class BucketListing(val stock: ScanFiles.Listing, val pruned: Option[String] = None) {

  /** The files that are not empty. An empty file has no rows, and no footer that a reader could open. */
  lazy val files: Array[PartitionedFile] = ScanFiles.of(stock, PackedFiles.urlOf).filter(_.length > 0)

  lazy val bytes: Long = BucketListing.bytes(files)

  private val assigned = TrieMap.empty[Any, IndexedSeq[Seq[PartitionedFile]]]

  /** Returns the files that each partition of a scan reads. Planning copies a scan several times. */
  def ofPartitions(read: BucketRead): IndexedSeq[Seq[PartitionedFile]] =
    assigned.getOrElseUpdate((read.of.hash, read.of.buckets, read.partitions, read.ranges, read.slices), BucketScan.spread(files, read))

  /**
   * Returns the listing with fewer files.
   *
   * @param keep whether to keep the file with this URL
   * @param note number of selected buckets, as EXPLAIN shows it
   */
  def prune(keep: String => Boolean, note: String): BucketListing =
    new BucketListing(ScanFiles.kept(stock, keep), Some(note))
}

object BucketListing {

  // Does not box the lengths, as sum would.
  def bytes(files: Iterable[PartitionedFile]): Long = {
    var bytes = 0L
    files.foreach(bytes += _.length)
    bytes
  }

  /** The cache key for the files of a scan. File indexes are compared by reference, because equal indexes may list different files. */
  private class Asked(val index: FileIndex, val filters: Seq[Set[Expression]]) {
    override def equals(other: Any): Boolean = other match {
      case that: Asked => (index eq that.index) && filters == that.filters
      case _ => false
    }
    override def hashCode: Int = 31 * System.identityHashCode(index) + filters.hashCode
  }

  /**
   * Returns the files that Spark lists for a scan. Both sides of a self join share one listing if they select the same
   * partitions. Stock Spark reuses one exchange for both sides, but a bucketed join has no exchange to reuse.
   */
  def of(scan: FileSourceScanExec): BucketListing = {
    val filters = Seq(scan.partitionFilters, scan.dataFilters).map { all =>
      PerQueryCache.comparable(PerQueryCache.known(all))
    }
    PerQueryCache(new Asked(CurrentFiles.stock(scan.relation.location), filters))(new BucketListing(scan.selectedPartitions))
  }
}
