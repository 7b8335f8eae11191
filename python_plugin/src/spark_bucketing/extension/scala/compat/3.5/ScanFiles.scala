package org.apache.spark.sql.bucketing
package compat

import org.apache.hadoop.fs.FileStatus

import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.execution.PartitionedFileUtil
import org.apache.spark.sql.execution.datasources.{PartitionDirectory, PartitionedFile}

/** Provides access to the files that Spark lists for a scan. */
object ScanFiles {

  type Listing = Array[PartitionDirectory]

  def partitions(listing: Listing): Int = listing.length
  def number(listing: Listing): Long = listing.map(_.files.length.toLong).sum
  def bytes(listing: Listing): Long = listing.map(_.files.map(_.getLen).sum).sum

  /** Returns the files as tasks read them. */
  def of(listing: Listing, urlOf: FileStatus => Option[String]): Array[PartitionedFile] = for {
    partition <- listing
    file <- partition.files
  } yield PartitionedFileUtil.getPartitionedFile(file, file.getPath, partition.values)

  def directories(listing: Listing): Seq[PartitionDirectory] = listing.toSeq

  /** Returns a listing with only the files whose URL meets a condition. */
  def kept(listing: Listing, keep: String => Boolean): Listing = listing.map { partition =>
    partition.copy(files = partition.files.filter(file => keep(SparkPath.fromPath(file.getPath).urlEncoded)))
  }
}
