package org.apache.spark.sql.bucketing
package write

import scala.util.Try

import org.apache.hadoop.fs.{FileSystem, Path}

import org.apache.spark.sql.{AnalysisException, SparkSession}
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.metadata.{BucketFiles, PartitionStore}
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, ExternalCatalogUtils}
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec

/**
 * Checks that partitions exist with the values that a statement has written. The database of a metastore may compare values without their case or without
 * trailing spaces, and then finds another partition. Readers would not find the rows.
 */
object CreatedPartitions {

  /** Creates partitions. Throws an error unless all of them exist afterwards. */
  def create(session: SparkSession, table: CatalogTable, specs: Seq[TablePartitionSpec])(create: => Unit): Unit = {
    val created = Try(create)
    val missing = missingOf(session, table, specs)
    if (missing.nonEmpty) throw refused(table, missing, created.failed.toOption)
    created.get
  }

  /**
   * Runs Spark's INSERT INTO, which first moves its files into the table and then creates their partitions. If it cannot create them, deletes the files again.
   *
   * @param written the files that the statement has moved into the table by now
   */
  def insert[A](session: SparkSession, table: CatalogTable, written: => SealWriter.Written)(run: => A): A = {
    val result = Try(run)
    val files = written
    val missing = if (files.isEmpty) Nil else missingOf(session, table, files.keys.toSeq)
    if (missing.isEmpty) result.get
    else {
      withdraw(session, table, files)
      throw refused(table, missing, result.failed.toOption)
    }
  }

  private def missingOf(session: SparkSession, table: CatalogTable, specs: Seq[TablePartitionSpec]): Seq[String] = {
    val store = PartitionStore.of(session)
    val names = specs.map(store.nameOf(table, _))
    // A metastore that takes a value for another one may also fail to find it.
    val found = Try(store.find(table, specs)).recover { case _ if specs.size > 1 => specs.flatMap(of => Try(store.find(table, Seq(of))).getOrElse(Nil)) }
    names.diff(found.getOrElse(Nil).map(_.name))
  }

  private def withdraw(session: SparkSession, table: CatalogTable, files: SealWriter.Written): Unit = {
    val store = PartitionStore.of(session)
    val known = files.keys.toSeq.flatMap(of => Try(store.find(table, Seq(of))).getOrElse(Nil)).map(partition => partition.name -> partition.location).toMap
    val folders = files.map { case (spec, names) =>
      known.get(store.nameOf(table, spec)).fold(ExternalCatalogUtils.generatePartitionPath(spec, table.partitionColumnNames, new Path(table.location)))(new Path(_)) -> names
    }
    Compat.inParallel(folders.toSeq) { case (folder, of) =>
      val fs = folder.getFileSystem(Compat.hadoopConf(session))
      of.foreach(name => fs.delete(new Path(folder, name), false))
      if (BucketFiles.children(folder, fs).isEmpty) fs.delete(folder, false)
    }
    Compat.refresh(session, table.identifier)
  }

  private def refused(table: CatalogTable, missing: Seq[String], cause: Option[Throwable]): AnalysisException = {
    val why = cause.flatMap(error => Option(error.getMessage)).fold("")(text => s" (${text.linesIterator.next()})")
    Compat.refusal(s"Cannot write into ${table.identifier.quotedString}.",
      s"the new partition ${missing.map(name => s"'$name'").head}${if (missing.size > 1) s" and ${missing.size - 1} more" else ""}, which the metastore lacks after its creation$why",
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
