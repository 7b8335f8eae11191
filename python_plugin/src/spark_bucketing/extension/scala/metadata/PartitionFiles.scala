package org.apache.spark.sql.bucketing
package metadata

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.hash.BucketHash
import org.apache.spark.sql.catalyst.catalog.{BucketSpec, CatalogTable}
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.execution.command.DDLUtils
import org.apache.spark.sql.execution.datasources.FileIndexOptions
import org.apache.spark.sql.types.StructType

/**
 * The files and the seal of a partition, or of an unpartitioned table.
 *
 * @param partition the partition, or None for an unpartitioned table
 * @param seal the seal, or the reason why the seal is unreadable (Left)
 * @param described the bucket spec in the descriptor
 * @param files the current data files
 * @param folders the names of subdirectories whose files Spark also reads
 * @param missing the number of sealed files that are certainly missing
 */
case class PartitionFiles(
    partition: Option[StoredPartition], location: String, seal: Option[Either[String, Seal]], described: Option[BucketSpec],
    files: Seq[FileStatus], folders: Seq[String], missing: Long = 0) {

  def name: String = partition.fold("")(_.name)

  def bytes: Long = files.map(_.getLen).sum

  /** Returns the status and a description. The status is `sealed`, `empty`, or an ordinary-scan code. */
  def status(hash: BucketHash, dataSchema: StructType): (String, Option[String]) = seal match {
    case _ if files.isEmpty && folders.isEmpty && missing == 0 => (PartitionFiles.Empty, None)
    case _ if folders.nonEmpty => (FallbackReason.SealStale, Some(s"a directory among the files: ${folders.head}"))
    case None => (FallbackReason.NotSealed, None)
    case Some(Left(why)) => (FallbackReason.SealUnreadable, Some(why))
    case Some(Right(found)) if missing > 0 => (FallbackReason.FilesMissing, Some(MissingFiles.words(missing, found)))
    case Some(Right(found)) if !found.spec.fits(dataSchema) =>
      (FallbackReason.ColumnsChanged, Some("bucket or sort columns that changed after the seal"))
    case Some(Right(found)) if found.spec.hash.inHiveLayout != hash.inHiveLayout || found.files != PartitionFiles.digest(files) =>
      (FallbackReason.SealStale, Some(s"${files.length} files, which differ from the ${found.files.count} sealed files"))
    case _ => (PartitionFiles.Sealed, None)
  }

  /** Returns the maximum number of files per bucket, or None if some file name has no bucket id. */
  def mostFilesOfBucket(hash: BucketHash): Option[Int] = {
    val buckets = files.map(file => BucketFiles.bucketOf(file.getPath.getName, hash))
    if (buckets.contains(None)) None else Some((0 +: buckets.groupBy(identity).values.map(_.length).toSeq).max)
  }
}

object PartitionFiles {

  val Sealed = "sealed"
  val Empty = "empty"

  /**
   * Returns the hashes that the files of a table may have, starting with the stated hash. In the Hive layout, only the rows
   * prove which hash was used. Hive 3 and some clients state version 2 for tables whose files have version 1.
   */
  def hashesOf(table: CatalogTable): Seq[BucketHash] =
    if (DDLUtils.isHiveTable(table)) (BucketHash.stated(table.properties).toSeq ++ BucketHash.HiveHashes).distinct else Seq(BucketHash.Spark)

  /** Returns the digest of data files. Empty files do not count. */
  def digest(files: Seq[FileStatus]): FilesDigest = FilesDigest.of(identities(files))

  def identities(files: Seq[FileStatus]): Seq[FileIdentity] =
    files.filter(BucketFiles.isData).map(file => FileIdentity(file.getPath.getName, file.getLen, file.getModificationTime))

  /**
   * Returns partitions with their current files. Without partition columns, returns the table itself.
   *
   * @param listed whether to list the files. Otherwise, the metadata comes from the metastore alone, and no partition has files
   */
  def list(
      session: SparkSession, table: CatalogTable, partitions: => Seq[StoredPartition], listed: Boolean = true): Seq[PartitionFiles] = {
    val conf = Compat.hadoopConf(session)
    lazy val (names, hidden) = (TableFiles(new Path(table.location)), Replacement.forReader(new Path(table.location), conf).flatMap(_.hidden).toSet)
    def content(folder: Path) = if (listed) {
      val (files, folders) = children(table, folder, conf)
      (files.filterNot(file => hidden(names.nameOf(file.getPath))), folders)
    } else (Nil, Nil)
    val parts = if (table.partitionColumnNames.isEmpty) {
      val (files, folders) = content(new Path(table.location))
      val described = BucketDescriptor.of(table.bucketSpec).bucketSpec
      Seq(PartitionFiles(None, new Path(table.location).toString, Seal.parse(table.properties), described, files, folders))
    } else Compat.inParallel(partitions) { partition =>
      val (files, folders) = content(new Path(partition.location))
      PartitionFiles(Some(partition), partition.location, partition.seal, partition.described.flatMap(_.bucketSpec), files, folders)
    }
    if (listed) MissingFiles.counted(session, table, parts) else parts
  }

  /**
   * Returns the data files in the directory of a partition or of an unpartitioned table, and the names of subdirectories whose files Spark also reads. As for
   * Spark's queries, files in subdirectories, such as those of Hive's UNION ALL, belong to a table only with the option `recursiveFileLookup`.
   */
  def children(table: CatalogTable, folder: Path, conf: Configuration): (Seq[FileStatus], Seq[String]) = {
    val fs = folder.getFileSystem(conf)
    val all = BucketFiles.children(folder, fs)
    def isRead(file: FileStatus): Boolean =
      if (file.isDirectory) !BucketFiles.isHidden(file.getPath.getName) && BucketFiles.children(file.getPath, fs).exists(isRead) else BucketFiles.isData(file)
    val folders = if (readsFolders(table)) all.filter(file => file.isDirectory && isRead(file)).map(_.getPath.getName) else Nil
    (all.filter(BucketFiles.isData), folders)
  }

  // Spark ignores or rejects the option for partitioned tables.
  private def readsFolders(table: CatalogTable): Boolean = table.partitionColumnNames.isEmpty &&
    CaseInsensitiveMap(table.storage.properties).get(FileIndexOptions.RECURSIVE_FILE_LOOKUP).exists(_.equalsIgnoreCase("true"))
}
