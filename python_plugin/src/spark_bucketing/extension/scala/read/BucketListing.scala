package org.apache.spark.sql.bucketing
package read

import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.catalyst.expressions.{BasePredicate, Expression}
import org.apache.spark.sql.execution.{FileSourceScanExec, ListingPartition, ScanFileListing}
import org.apache.spark.sql.execution.datasources.{FileIndex, PartitionedFile}
import org.apache.spark.sql.internal.SQLConf

/**
 * The files that Spark listed for a scan, turned into an array once: a table may have a hundred thousand.
 *
 * @param keep files that are left out have a URL that fails this test
 * @param pruned says in EXPLAIN how many buckets were kept
 */
class BucketListing(all: ScanFileListing, keep: String => Boolean = _ => true, val pruned: Option[String] = None)
    extends ScanFileListing {

  /** Files with at least one byte; others hold no rows, and no footer that a reader could open. */
  lazy val files: Array[PartitionedFile] =
    all.toPartitionArray.filter(file => file.length > 0 && keep(file.urlEncodedPath))

  def prune(keep: String => Boolean, note: String): BucketListing = new BucketListing(all, keep, Some(note))

  override def partitionCount: Int = all.partitionCount
  override def toPartitionArray: Array[PartitionedFile] = files
  override lazy val totalFileSize: Long = files.map(_.fileSize).sum
  override def totalNumberOfFiles: Long = files.length
  override def calculateTotalPartitionBytes: Long = totalFileSize + files.length * SQLConf.get.filesOpenCostInBytes

  override def filterAndPruneFiles(partitions: BasePredicate, files: Seq[Expression]): ScanFileListing =
    new BucketListing(all.filterAndPruneFiles(partitions, files), keep, pruned)

  override def filePartitionIterator: Iterator[ListingPartition] = all.filePartitionIterator.map { partition =>
    val files = partition.files.filter(file => keep(SparkPath.fromPath(file.getPath).urlEncoded)).toIndexedSeq
    partition.copy(numFiles = files.length, files = files.iterator)
  }

  override def bucketsContainSingleFile: Boolean = all.bucketsContainSingleFile
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
      OncePerQuery.comparable(OncePerQuery.known(all))
    }
    OncePerQuery(new Asked(scan.relation.location, filters))(new BucketListing(scan.selectedPartitions))
  }
}
