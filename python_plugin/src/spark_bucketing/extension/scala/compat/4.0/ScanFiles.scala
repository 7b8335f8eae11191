package org.apache.spark.sql.bucketing
package compat

import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.catalyst.expressions.{BasePredicate, Expression}
import org.apache.spark.sql.execution.{ListingPartition, PartitionedFileUtil, ScanFileListing}
import org.apache.spark.sql.execution.datasources.{FileStatusWithMetadata, PartitionDirectory, PartitionedFile}
import org.apache.spark.sql.internal.SQLConf

/** Provides access to the files that Spark lists for a scan. */
object ScanFiles {

  type Listing = ScanFileListing

  def partitions(listing: Listing): Int = listing.partitionCount
  def number(listing: Listing): Long = listing.totalNumberOfFiles
  def bytes(listing: Listing): Long = listing.totalFileSize

  /**
   * Returns the files as tasks read them.
   *
   * @param urlOf the URL of a file that has no path yet; Spark would make the path
   */
  def of(listing: Listing, urlOf: FileStatus => Option[String]): Array[PartitionedFile] = listing.filePartitionIterator.flatMap { directory =>
    def partitioned(file: FileStatusWithMetadata, path: Path) = PartitionedFileUtil.getPartitionedFile(file, path, directory.values, 0, file.getLen)
    directory.files.map { file =>
      urlOf(file.fileStatus).fold(partitioned(file, file.getPath))(url => partitioned(file, Root).copy(filePath = SparkPath.fromUrlString(url)))
    }
  }.toArray

  private val Root = new Path("/")

  def directories(listing: Listing): Seq[PartitionDirectory] =
    listing.filePartitionIterator.map(of => PartitionDirectory(of.values, of.files.toIndexedSeq)).toIndexedSeq

  /** Returns a listing with only the files whose URL meets a condition. */
  def kept(listing: Listing, keep: String => Boolean): Listing = new Kept(listing, keep)

  private class Kept(all: Listing, keep: String => Boolean) extends ScanFileListing {
    override lazy val toPartitionArray: Array[PartitionedFile] = all.toPartitionArray.filter(file => keep(file.urlEncodedPath))
    override def filePartitionIterator: Iterator[ListingPartition] = all.filePartitionIterator.map { partition =>
      val files = partition.files.filter(file => keep(SparkPath.fromPath(file.getPath).urlEncoded)).toIndexedSeq
      partition.copy(numFiles = files.length, files = files.iterator)
    }
    override def partitionCount: Int = all.partitionCount
    override def totalNumberOfFiles: Long = toPartitionArray.length
    override lazy val totalFileSize: Long = toPartitionArray.map(_.fileSize).sum
    override def calculateTotalPartitionBytes: Long = totalFileSize + totalNumberOfFiles * SQLConf.get.filesOpenCostInBytes
    override def filterAndPruneFiles(partitions: BasePredicate, files: Seq[Expression]): ScanFileListing =
      new Kept(all.filterAndPruneFiles(partitions, files), keep)
    override def bucketsContainSingleFile: Boolean = all.bucketsContainSingleFile
  }
}
