package org.apache.spark.sql.bucketing
package write

import scala.util.{Failure, Success, Try}

import org.apache.hadoop.fs.{FileSystem, Path}

import org.apache.spark.internal.Logging
import org.apache.spark.sql.{AnalysisException, SparkSession}
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.metadata.{BucketFiles, PartitionStore, StoredPartition}
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, ExternalCatalogUtils}
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec

/**
 * Checks that partitions exist with the values that a statement has written. The database of a metastore may compare values without their case or without
 * trailing spaces, and then finds another partition. Readers would not find the rows.
 */
object CreatedPartitions extends Logging {

  /** Creates partitions. Throws an error unless all of them exist afterwards. */
  def create(session: SparkSession, table: CatalogTable, specs: Seq[TablePartitionSpec])(create: => Unit): Unit = {
    val created = Try(create)
    val found = find(session, table, specs)
    val missing = missingOf(found)
    if (missing.nonEmpty) throw refused(session, table, missing, created.failed.toOption)
    created.get
    found.foreach(_._2.get)
  }

  /**
   * Runs Spark's INSERT INTO, which first moves its files into the table and then creates their partitions. If the metastore lacks a partition afterwards,
   * deletes the files again. A look-up that fails says nothing about a partition, so that the files stay.
   *
   * @param written the files that the statement has moved into the table by now
   * @return also the partitions of the files, or None if a look-up failed
   */
  def insert[A](session: SparkSession, table: CatalogTable, written: => SealWriter.Written)(run: => A): (A, Option[Seq[StoredPartition]]) = {
    val result = Try(run)
    val files = written
    val found = if (files.isEmpty) Nil else find(session, table, files.keys.toSeq)
    val (missing, failed) = (missingOf(found), found.collectFirst { case (_, Failure(error)) => error })
    failed.foreach(logWarning(s"Cannot check whether the metastore has all new partitions of ${table.identifier.quotedString}. Their files stay.", _))
    if (missing.nonEmpty && failed.isEmpty) {
      withdraw(session, table, found.map { case (spec, partition) =>
        partition.get.fold(ExternalCatalogUtils.generatePartitionPath(spec, table.partitionColumnNames, new Path(table.location)))(of => new Path(of.location)) -> files(spec)
      })
      throw refused(session, table, missing, result.failed.toOption)
    }
    (result.get, if (failed.isEmpty) Some(found.flatMap(_._2.get).map(of => of.name -> of).toMap.values.toSeq) else None)
  }

  private type Found = Seq[(TablePartitionSpec, Try[Option[StoredPartition]])]

  /** Looks partitions up. A metastore that takes a value for another one may fail to find several at once. */
  private def find(session: SparkSession, table: CatalogTable, specs: Seq[TablePartitionSpec]): Found = {
    val store = PartitionStore.of(session)
    def named(some: Seq[TablePartitionSpec]) = Try(store.find(table, some).map(of => of.name -> of).toMap)
    val all = named(specs)
    specs.map(spec => spec -> (if (all.isSuccess || specs.size == 1) all else named(Seq(spec))).map(_.get(store.nameOf(table, spec))))
  }

  private def missingOf(found: Found): Seq[TablePartitionSpec] = found.collect { case (spec, Success(None)) => spec }

  private def withdraw(session: SparkSession, table: CatalogTable, folders: Seq[(Path, Set[String])]): Unit = {
    Compat.inParallel(folders) { case (folder, of) =>
      val fs = folder.getFileSystem(Compat.hadoopConf(session))
      of.foreach(name => fs.delete(new Path(folder, name), false))
      if (BucketFiles.children(folder, fs).isEmpty) fs.delete(folder, false)
    }
    Compat.refresh(session, table.identifier)
  }

  private def refused(session: SparkSession, table: CatalogTable, missing: Seq[TablePartitionSpec], cause: Option[Throwable]): AnalysisException = {
    val name = PartitionStore.of(session).nameOf(table, missing.head)
    val why = cause.flatMap(error => Option(error.getMessage)).fold("")(text => s" (${text.linesIterator.next()})")
    Compat.refusal(s"Cannot write into ${table.identifier.quotedString}.",
      s"the new partition '$name'${if (missing.size > 1) s" and ${missing.size - 1} more" else ""}, which the metastore lacks after its creation$why",
      "partition values that the metastore stores unchanged; many metastores ignore case or trailing spaces",
      "change such values, for example with rtrim(...); nothing has been changed")
  }
}

/** The subdirectories of partitions, which Hive writes for UNION ALL. */
object Subdirectories {

  /** Deletes the directories below these partitions that have become empty. Returns the directories of the partitions. */
  def deleteEmpty(fs: FileSystem, folders: Seq[Path], isPartition: Path => Boolean): Seq[Path] = folders.map(delete(fs, _, isPartition)).distinct

  @scala.annotation.tailrec
  private def delete(fs: FileSystem, folder: Path, isPartition: Path => Boolean): Path =
    if (isPartition(folder) || folder.getParent == null || BucketFiles.children(folder, fs).nonEmpty) folder
    else {
      fs.delete(folder, false)
      delete(fs, folder.getParent, isPartition)
    }
}
