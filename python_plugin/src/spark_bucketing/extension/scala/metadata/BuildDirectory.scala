package org.apache.spark.sql.bucketing
package metadata

import java.util.Locale

import scala.util.control.NonFatal

import org.apache.hadoop.fs.{FileSystem, Path}

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, ExternalCatalogUtils}

/** The directories of builds: build-<time> in the directory of the table. */
object BuildDirectory {

  // The dbt macros name a build by its time in microseconds.
  private val Name = """build-\d{20}""".r.pattern

  def isName(name: String): Boolean = Name.matcher(name).matches

  def example(table: CatalogTable): String = new Path(new Path(table.location), "build-20240131235959000000").toString

  /** Returns whether a directory is a build directory of a table. */
  def isOf(table: CatalogTable, folder: Path): Boolean =
    isName(folder.getName) && folder.getParent.toUri.getPath == new Path(table.location).toUri.getPath

  /** Returns whether a directory is in a build directory of a table. */
  def isBelow(table: CatalogTable, folder: Path): Boolean =
    Iterator.iterate(folder)(_.getParent).takeWhile(_ != null).exists(isOf(table, _))
}

/**
 * Deletes directories of a table that no partition and no other table points to: builds, directories of partitions in them,
 * and the default directories of partitions that are now in a build. Then drops partitions that are empty since a build.
 *
 * A run of a model does this before it starts, so that a directory stays for one run after the run that replaced it.
 */
class BuildCleanup(session: SparkSession, table: CatalogTable) extends Logging {

  private val location = new Path(table.location)
  private val fs: FileSystem = location.getFileSystem(Compat.hadoopConf(session))
  private val store = PartitionStore.of(session)

  /** Returns the number of deleted directories. */
  def run(): Int = if (table.partitionColumnNames.isEmpty) 0 else {
    val built = store.list(table).filter(partition => BuildDirectory.isBelow(table, new Path(partition.location)))
    val candidates = subdirectories(location).filter(folder => BuildDirectory.isName(folder.getName)) ++ built.flatMap(replaced)
    val deleted = if (candidates.isEmpty) 0 else try {
      val used = store.locations(table).map(path).toSet
      candidates.map(deleteUnused(_, used)).sum
    } catch { case NonFatal(error) =>
      logWarning(s"Directories of earlier builds of ${table.identifier.quotedString} stay, because the extension cannot find out whether a table uses them. " +
        s"Instead: grant access to the metadata of all tables, and run ALTER TABLE ${table.identifier.quotedString} CLEAN BUILDS", error)
      0
    }
    dropEmpty(built)
    deleted
  }

  private def path(location: String): String = path(new Path(location))
  private def path(folder: Path): String = folder.toUri.getPath.stripSuffix("/")

  /** Deletes a directory that is not used, or its unused subdirectories. */
  private def deleteUnused(folder: Path, used: Set[String]): Int = {
    val name = path(folder)
    if (used(name)) 0
    else if (!used.exists(_.startsWith(name + "/"))) {
      logInfo(s"Deleting $folder, which no partition and no table uses")
      if (fs.delete(folder, true)) 1 else 0
    } else subdirectories(folder).map(deleteUnused(_, used)).sum
  }

  /** Returns the default directory of a partition that is now in a build. */
  private def replaced(partition: StoredPartition): Seq[Path] = {
    val values = PartitionStore.valuesOf(table, partition.name)
    val inLowerCase = values.map { case (column, value) => column.toLowerCase(Locale.ROOT) -> value }
    Seq(table.partitionColumnNames -> values, table.partitionColumnNames.map(_.toLowerCase(Locale.ROOT)) -> inLowerCase).distinct.map {
      case (columns, of) => ExternalCatalogUtils.generatePartitionPath(of, columns, location)
    }.filter(fs.exists)
  }

  private def dropEmpty(built: Seq[StoredPartition]): Unit = {
    val empty = PartitionFiles.atOnce(built) { partition =>
      val (files, folders) = PartitionFiles.children(new Path(partition.location), Compat.hadoopConf(session))
      if (files.isEmpty && folders.isEmpty && replaced(partition).isEmpty) Some(PartitionStore.valuesOf(table, partition.name)) else None
    }.flatten
    if (empty.nonEmpty) {
      // Retains the data: the directory belongs to a build, and the next cleanup deletes it.
      Compat.externalCatalog(session).dropPartitions(table.database, table.identifier.table, empty, ignoreIfNotExists = true,
        purge = false, retainData = true)
      Compat.refresh(session, table.identifier)
    }
  }

  private def subdirectories(folder: Path): Seq[Path] =
    (try fs.listStatus(folder).toSeq catch { case _: java.io.FileNotFoundException => Nil }).filter(_.isDirectory).map(_.getPath)
}
