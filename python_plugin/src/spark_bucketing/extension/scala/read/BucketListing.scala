package org.apache.spark.sql.bucketing
package read

import org.apache.spark.sql.bucketing.compat.ScanFiles
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.execution.FileSourceScanExec
import org.apache.spark.sql.execution.datasources.{FileIndex, PartitionedFile}

/**
 * The files that Spark listed for a scan, turned into an array once: a table may have a hundred thousand.
 *
 * @param stock as Spark has them
 * @param pruned says in EXPLAIN how many buckets were kept
 */
class BucketListing(val stock: ScanFiles.Listing, val pruned: Option[String] = None) {

  /** Files with at least one byte; others hold no rows, and no footer that a reader could open. */
  lazy val files: Array[PartitionedFile] = ScanFiles.of(stock).filter(_.length > 0)

  lazy val bytes: Long = files.map(_.fileSize).sum

  /** @param keep files that are left out have a URL that fails this test */
  def prune(keep: String => Boolean, note: String): BucketListing =
    new BucketListing(ScanFiles.kept(stock, keep), Some(note))
}

object BucketListing {

  /** What the files of a scan depend on: this very index, since another one of the same table may list otherwise. */
  private class Asked(val index: FileIndex, val filters: Seq[Set[Expression]]) {
    override def equals(other: Any): Boolean = other match {
      case that: Asked => (index eq that.index) && filters == that.filters
      case _ => false
    }
    override def hashCode: Int = 31 * System.identityHashCode(index) + filters.hashCode
  }

  /**
   * The files that Spark lists for a scan. Both sides of a self join that select the same partitions share one listing:
   * Spark's own plan has an exchange for both, and this one has none that could be reused.
   */
  def of(scan: FileSourceScanExec): BucketListing = {
    val filters = Seq(scan.partitionFilters, scan.dataFilters).map { all =>
      PerQueryCache.comparable(PerQueryCache.known(all))
    }
    PerQueryCache(new Asked(scan.relation.location, filters))(new BucketListing(scan.selectedPartitions))
  }
}
