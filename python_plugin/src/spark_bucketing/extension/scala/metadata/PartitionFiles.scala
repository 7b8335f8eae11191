package org.apache.spark.sql.bucketing
package metadata

import java.io.FileNotFoundException

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.SparkException
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.hash.BucketHash
import org.apache.spark.sql.catalyst.catalog.{BucketSpec, CatalogTable}
import org.apache.spark.sql.execution.command.DDLUtils
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.ThreadUtils

/**
 * What has a seal: a partition, or the whole of a table without partitions.
 *
 * @param partition None for a table without partitions
 * @param files its data files, as they are listed now
 * @param folders names of folders among them, whose files a reader would find as well
 */
case class PartitionFiles(
    partition: Option[StoredPartition], location: String, seal: Option[Either[String, Seal]], described: Option[BucketSpec],
    files: Seq[FileStatus], folders: Seq[String]) {

  def name: String = partition.fold("")(_.name)

  def bytes: Long = files.map(_.getLen).sum

  /** `sealed`, `empty`, or the code by which it is read plainly, with words for it. */
  def status(hash: BucketHash, dataSchema: StructType): (String, Option[String]) = seal match {
    case _ if files.isEmpty && folders.isEmpty => (PartitionFiles.Empty, None)
    case _ if folders.nonEmpty => (FallbackReason.SealBroken, Some(s"a folder among the files: ${folders.head}"))
    case None => (FallbackReason.NotSealed, None)
    case Some(Left(why)) => (FallbackReason.SealUnreadable, Some(why))
    case Some(Right(found)) if !found.spec.fits(dataSchema) =>
      (FallbackReason.ColumnsChanged, Some("its bucket or sort columns are not those that were sealed"))
    case Some(Right(found)) if found.spec.hash != hash || found.files != PartitionFiles.digest(files) =>
      (FallbackReason.SealBroken, Some(s"${files.length} files, which are not the ${found.files.count} that were sealed"))
    case _ => (PartitionFiles.Sealed, None)
  }

  /** The most files that a bucket has by their names; None when a name has no bucket. */
  def mostFilesOfBucket(hash: BucketHash): Option[Int] = {
    val buckets = files.map(file => BucketFiles.bucketOf(file.getPath.getName, hash))
    if (buckets.contains(None)) None else Some((0 +: buckets.groupBy(identity).values.map(_.length).toSeq).max)
  }
}

object PartitionFiles {

  val Sealed = "sealed"
  val Empty = "empty"

  // An object store is asked for several folders at the same time.
  private val FoldersAtATime = 16

  def hashOf(table: CatalogTable): BucketHash = if (DDLUtils.isHiveTable(table)) BucketHash.Hive else BucketHash.Spark

  /** Of data files: those without a byte do not count. */
  def digest(files: Seq[FileStatus]): FilesDigest = FilesDigest.sum(files.iterator.filter(BucketFiles.isData)
    .map(file => FilesDigest.of(file.getPath.getName, file.getLen, file.getModificationTime)))

  /** All of a table, or those partitions, with the files that there are now. */
  def list(session: SparkSession, table: CatalogTable, wanted: StoredPartition => Boolean = _ => true): Seq[PartitionFiles] = {
    val conf = Compat.hadoopConf(session)
    if (table.partitionColumnNames.isEmpty) {
      val (files, folders) = children(new Path(table.location), conf)
      val described = BucketDescriptor.of(table.bucketSpec).bucketSpec
      Seq(PartitionFiles(None, table.location.toString, Seal.parse(table.properties), described, files, folders))
    } else {
      val partitions = PartitionStore.of(session).list(table).filter(wanted)
      atOnce(partitions) { partition =>
        val (files, folders) = children(new Path(partition.location), conf)
        PartitionFiles(Some(partition), partition.location, partition.seal, partition.described.flatMap(_.bucketSpec), files, folders)
      }
    }
  }

  /** Several at the same time, in their order; of an error the reason, and not that it came from another thread. */
  def atOnce[T](partitions: Seq[StoredPartition])(list: StoredPartition => T): Seq[T] =
    try ThreadUtils.parmap(partitions, "bucketing-list", FoldersAtATime)(list)
    catch { case error: SparkException if error.getCause != null => throw error.getCause }

  /** Data files of a folder, and names of the folders in it that a reader would look into. */
  def children(folder: Path, conf: Configuration): (Seq[FileStatus], Seq[String]) = {
    val all = try folder.getFileSystem(conf).listStatus(folder).toSeq catch { case _: FileNotFoundException => Nil }
    (all.filter(BucketFiles.isData), all.filter(_.isDirectory).map(_.getPath.getName).filterNot(BucketFiles.isHidden))
  }
}
