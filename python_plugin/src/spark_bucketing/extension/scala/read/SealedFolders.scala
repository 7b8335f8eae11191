package org.apache.spark.sql.bucketing
package read

import java.util.Arrays
import java.util.function.Predicate
import java.util.stream.Collectors

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.bucketing.hash.BucketHash
import org.apache.spark.sql.bucketing.metadata._
import org.apache.spark.sql.execution.datasources.PartitionedFile

/**
 * The folders of a scan and their seals.
 *
 * @param common divides the numbers of buckets of all folders
 * @param seals by the folder (BucketFiles.folderOf); folders that had no files when they were looked at may be missing
 */
case class SealedFolders(common: Int, seals: Map[String, Seal]) {

  private val counts: Map[String, Int] =
    if (seals.values.forall(_.spec.numBuckets == common)) Map.empty
    else seals.map { case (folder, seal) => folder -> seal.spec.numBuckets }

  /** For how many buckets a file was written, by its URL. */
  def bucketsOf(file: String): Int = if (counts.isEmpty) common else counts.getOrElse(BucketFiles.folderOf(file), common)

  lazy val distinct: Seq[Int] = (counts.values.toSeq :+ common).distinct.sorted

  def objectionTo(listing: BucketListing, hash: BucketHash): Option[FallbackReason] =
    PerQueryCache((listing, this))(objection(listing.files, hash))

  /** Why these files are not those that were sealed, if they are not. Folders without files fit every seal. */
  private def objection(files: Array[PartitionedFile], hash: BucketHash): Option[FallbackReason] = {
    val byFolder = files.groupBy(BucketFiles.folderOf).toArray
    // A hundred thousand files take a second on one core.
    val isBroken: Predicate[(String, Array[PartitionedFile])] = { case (folder, found) =>
      !seals.get(folder).exists(seal => SealedFolders.areSealed(found, seal, hash))
    }
    val broken = Arrays.stream(byFolder).parallel().filter(isBroken).collect(Collectors.toList()).asScala.toSeq
    if (broken.isEmpty) None else Some(FallbackReason(FallbackReason.SealBroken, SealedFolders.difference(broken, seals)))
  }

  override def toString: String =
    if (counts.isEmpty) "" else s" of partitions with ${counts.values.toSeq.distinct.sorted.mkString(", ")}"
}

object SealedFolders {

  private def digest(files: Array[PartitionedFile]): FilesDigest =
    FilesDigest.sum(files.iterator.map(file => FilesDigest.of(BucketFiles.nameOf(file), file.fileSize, file.modificationTime)))

  private def areSealed(files: Array[PartitionedFile], seal: Seal, hash: BucketHash): Boolean =
    files.length == seal.files.count && files.iterator.map(_.fileSize).sum == seal.files.bytes && digest(files) == seal.files &&
      files.forall(file => BucketFiles.bucketOf(BucketFiles.nameOf(file), hash).exists(_ < seal.spec.numBuckets))

  private def difference(broken: Seq[(String, Array[PartitionedFile])], seals: Map[String, Seal]): String = {
    val (folder, found) = broken.head
    val place = s"${BucketFiles.nameOf(folder)}${if (broken.length > 1) s" and ${broken.length - 1} more folders" else ""}"
    val expected = seals.get(folder).map(_.files)
    expected match {
      case None => s"files in $place, which is no folder of the table's"
      case Some(sealedFiles) if sealedFiles.count != found.length =>
        s"${found.length} files, sealed were ${sealedFiles.count}, in $place"
      case Some(_) => s"some of the ${found.length} files are not those that were sealed, in $place"
    }
  }
}
