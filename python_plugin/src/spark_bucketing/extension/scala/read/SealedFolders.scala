package org.apache.spark.sql.bucketing
package read

import java.nio.charset.StandardCharsets.UTF_8

import com.google.common.cache.{Cache, CacheBuilder}
import com.google.common.hash.{HashCode, Hashing}

import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.hash.BucketHash
import org.apache.spark.sql.bucketing.metadata._
import org.apache.spark.sql.execution.datasources.PartitionedFile

/**
 * The directories of a scan and their seals.
 *
 * @param common greatest common divisor of the numbers of buckets in all directories
 * @param seals seals by directory (BucketFiles.folderOf), which may lack directories without files
 */
case class SealedFolders(common: Int, seals: Map[String, Seal]) {

  private val counts: Map[String, Int] =
    if (seals.values.forall(_.spec.numBuckets == common)) Map.empty
    else seals.map { case (folder, seal) => folder -> seal.spec.numBuckets }

  /** Returns the number of buckets with which the file at this URL was written. */
  def bucketsOf(file: String): Int = if (counts.isEmpty) common else counts.getOrElse(BucketFiles.folderOf(file), common)

  lazy val distinct: Seq[Int] = (counts.values.toSeq :+ common).distinct.sorted

  def objectionTo(listing: BucketListing, hash: BucketHash): Option[FallbackReason] =
    PerQueryCache((listing, this))(objection(listing.files, hash))

  /** Returns a reason if the files differ from the sealed files, otherwise None. */
  private def objection(files: Array[PartitionedFile], hash: BucketHash): Option[FallbackReason] = {
    val stale = Compat.onAllCores(SealedFolders.byFolder(files, seals).toSeq) { case (folder, found) =>
      if (seals.get(folder).exists(seal => SealedFolders.matches(found, seal, hash))) None else Some(folder -> found)
    }.flatten
    if (stale.isEmpty) None else Some(FallbackReason(FallbackReason.SealStale, SealedFolders.difference(stale, seals)))
  }

  override def toString: String =
    if (counts.isEmpty) "" else s" of partitions with ${counts.values.toSeq.distinct.sorted.mkString(", ")}"
}

object SealedFolders {

  private def digest(files: Array[PartitionedFile]): FilesDigest =
    FilesDigest.of(identities(files))

  private def identities(files: Array[PartitionedFile]): Seq[FileIdentity] =
    files.toIndexedSeq.map(file => FileIdentity(BucketFiles.nameOf(file), file.fileSize, file.modificationTime))

  /** Returns the files of each directory, and no files for each other directory that has a seal. */
  private def byFolder(files: Array[PartitionedFile], seals: Map[String, Seal]): Map[String, Array[PartitionedFile]] =
    seals.map { case (folder, _) => folder -> Array.empty[PartitionedFile] } ++
      runs(files).groupBy(run => BucketFiles.folderOf(run.head)).map { case (folder, of) => folder -> (if (of.size == 1) of.head else of.toArray.flatten) }

  /** Returns the successive files of the same directory. Spark lists one directory after another, and comparing takes less time than grouping 100,000 files. */
  private def runs(files: Array[PartitionedFile]): Seq[Array[PartitionedFile]] = {
    // The files of a partition are in one directory, and share the object with the partition's values.
    def isInFolderOf(one: PartitionedFile, other: PartitionedFile) =
      (one.partitionValues eq other.partitionValues) && (one.partitionValues.numFields > 0 || BucketFiles.folderOf(one) == BucketFiles.folderOf(other))
    val starts = files.indices.filter(i => i == 0 || !isInFolderOf(files(i), files(i - 1)))
    starts.zip(starts.drop(1) :+ files.length).map { case (start, end) => files.slice(start, end) }
  }

  /** Returns the seals of directories that may lack sealed files, by directory. The listing may be older than the seals. */
  def suspects(files: Array[PartitionedFile], seals: Map[String, Seal]): Map[String, Seal] = if (seals.isEmpty) Map.empty else
    byFolder(files, seals).flatMap { case (folder, of) => seals.get(folder).filter(_.files.missing(identities(of)) > 0).map(folder -> _) }

  // Hashes of the listed files and seals that matched in earlier queries. They take less time than the digest of a seal.
  private val matched: Cache[HashCode, java.lang.Boolean] = CacheBuilder.newBuilder().maximumSize(100000).build()

  private def matches(files: Array[PartitionedFile], seal: Seal, hash: BucketHash): Boolean = {
    val both = Hashing.murmur3_128().newHasher()
    both.putInt(seal.spec.numBuckets).putLong(seal.files.count).putLong(seal.files.bytes).putLong(seal.files.high).putLong(seal.files.low)
    both.putString(hash.toString, UTF_8)
    files.foreach(file => both.putString(BucketFiles.nameOf(file), UTF_8).putLong(file.fileSize).putLong(file.modificationTime))
    val code = both.hash()
    matched.getIfPresent(code) != null || areSealed(files, seal, hash) && { matched.put(code, true); true }
  }

  private def areSealed(files: Array[PartitionedFile], seal: Seal, hash: BucketHash): Boolean =
    files.length == seal.files.count && files.iterator.map(_.fileSize).sum == seal.files.bytes && digest(files) == seal.files &&
      files.forall(file => BucketFiles.bucketOf(BucketFiles.nameOf(file), hash).exists(_ < seal.spec.numBuckets))

  private def difference(stale: Seq[(String, Array[PartitionedFile])], seals: Map[String, Seal]): String = {
    val (folder, found) = stale.head
    val place = s"${BucketFiles.nameOf(folder)}${if (stale.length > 1) s" and ${stale.length - 1} more directories" else ""}"
    val expected = seals.get(folder).map(_.files)
    expected match {
      case None => s"found files in $place, which is not a directory of the table"
      case Some(sealedFiles) if sealedFiles.count != found.length =>
        s"found ${found.length} files in $place, but the seal has ${sealedFiles.count}"
      case Some(_) => s"some of the ${found.length} files in $place differ from the sealed files"
    }
  }
}
