package org.apache.spark.sql.bucketing
package write

import scala.util.{Success, Try}

import org.apache.hadoop.fs.{FileSystem, Path}

import org.apache.spark.sql.{AnalysisException, SparkSession}
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.metadata.{BucketFiles, PartitionStore, StoredPartition}
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec

/**
 * Checks that partitions exist with the values that a statement has written. The database of a metastore may compare values without their case or without
 * trailing spaces, and then finds another partition. Readers would not find the rows.
 */
object CreatedPartitions {

  /** Creates partitions. Throws an error unless all of them exist afterwards. Returns them in the order of their values. */
  def create(session: SparkSession, table: CatalogTable, specs: Seq[TablePartitionSpec])(create: => Unit): Seq[StoredPartition] = {
    val created = Try(create)
    val found = if (specs.isEmpty) Nil else find(session, table, specs)
    val missing = missingOf(found)
    if (missing.nonEmpty) throw refused(session, table, missing, created.failed.toOption)
    created.get
    found.flatMap(_._2.get)
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

  /** Deletes these directories and those above them that are empty and below a partition. */
  def deleteEmpty(fs: FileSystem, folders: Seq[Path], isPartition: Path => Boolean): Unit = folders.foreach(delete(fs, _, isPartition))

  @scala.annotation.tailrec
  private def delete(fs: FileSystem, folder: Path, isPartition: Path => Boolean): Unit =
    if (!isPartition(folder) && folder.getParent != null && BucketFiles.children(folder, fs).isEmpty) {
      fs.delete(folder, false)
      delete(fs, folder.getParent, isPartition)
    }
}
