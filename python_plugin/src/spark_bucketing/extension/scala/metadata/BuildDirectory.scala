package org.apache.spark.sql.bucketing
package metadata

import java.util.Locale

import scala.util.control.NonFatal

import org.apache.hadoop.fs.{FileSystem, Path}

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, ExternalCatalogUtils}
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec

/** The directories of builds: build-<time> in the directory of the table. */
object BuildDirectory {

  // The dbt macros name a build by its time in microseconds.
  private val Name = """build-\d{20}""".r.pattern

  // Directories of partitions without rows. A cleanup drops these partitions.
  private val Empty = "empty-"

  def isName(name: String): Boolean = Name.matcher(name).matches

  def isEmptyName(name: String): Boolean = name.startsWith(Empty)

  /** Returns the directory for a partition without rows next to its directory in a build. */
  def emptyOf(folder: Path): Path = new Path(folder.getParent, Empty + folder.getName)

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
 * and the default directories of partitions that are now in a build.
 *
 * A run of a model does this before it starts, so that a directory of a build stays for one run after the run that replaced
 * it. A publication deletes default directories itself: a partition that is later dropped and created again would get
 * their files.
 */
class BuildCleanup(session: SparkSession, table: CatalogTable) extends Logging {

  private val location = new Path(table.location)
  private val fs: FileSystem = location.getFileSystem(Compat.hadoopConf(session))
  private val store = PartitionStore.of(session)

  /** Deletes all such directories, then drops partitions that a build left without rows. Returns the number of deleted directories. */
  def run(): Int = if (table.partitionColumnNames.isEmpty) 0 else {
    val partitions = store.list(table)
    val built = partitions.filter(partition => BuildDirectory.isBelow(table, new Path(partition.location)))
    val builds = subdirectories(location).filter(folder => BuildDirectory.isName(folder.getName))
    val defaults = defaultDirectories(built.map(valuesOf))
    val deleted = deleteUnused(unused(builds ++ defaults, partitions.iterator.map(_.location)))
    dropEmpty(built)
    deleted
  }

  /** Deletes the default directories of partitions with these values, which are now in a build. */
  def deleteDefaults(values: Seq[TablePartitionSpec]): Unit = deleteUnused(defaultDirectories(values))

  private def deleteUnused(candidates: Seq[Path]): Int = if (candidates.isEmpty) 0 else try {
    val found = unused(candidates, store.locations(table, place => BucketingConf.checksAllTables || overlaps(path(new Path(place)))))
    PartitionFiles.atOnce(found) { folder =>
      logInfo(s"Deleting $folder, which no partition and no table uses")
      fs.delete(folder, true)
    }.count(identity)
  } catch { case NonFatal(error) =>
    logWarning(s"Directories that ${table.identifier.quotedString} no longer uses stay, because the extension cannot find out whether another table uses " +
      s"them, or cannot delete them. Instead: grant access to the metadata of all tables, and run ALTER TABLE ${table.identifier.quotedString} CLEAN BUILDS", error)
    0
  }

  /** Returns the directories without a used directory in them. Replaces other directories by their unused subdirectories. */
  private def unused(candidates: Seq[Path], used: Iterator[String]): Seq[Path] = {
    val root = path(location) + "/"
    val names = used.map(name => path(new Path(name))).filter(_.startsWith(root)).toSet
    val parents = names.flatMap(name => root.length.until(name.length).filter(name(_) == '/').map(name.take))
    def below(folders: Seq[Path]): Seq[Path] = {
      val (shared, others) = folders.filterNot(folder => names(path(folder))).partition(folder => parents(path(folder)))
      if (shared.isEmpty) others else others ++ below(PartitionFiles.atOnce(shared)(subdirectories).flatten)
    }
    below(candidates)
  }

  private def overlaps(place: String): Boolean = {
    val own = path(location)
    s"$place/".startsWith(s"$own/") || s"$own/".startsWith(s"$place/")
  }

  private def path(folder: Path): String = folder.toUri.getPath.stripSuffix("/")

  private def valuesOf(partition: StoredPartition): TablePartitionSpec = PartitionStore.valuesOf(table, partition.name)

  /** Returns the default directories of partitions that exist. Lists each parent directory once. */
  private def defaultDirectories(values: Seq[TablePartitionSpec]): Seq[Path] = {
    val columns = table.partitionColumnNames
    val possible = values.flatMap { of =>
      val inLowerCase = of.map { case (column, value) => column.toLowerCase(Locale.ROOT) -> value }
      Seq(columns -> of, columns.map(_.toLowerCase(Locale.ROOT)) -> inLowerCase).distinct.map {
        case (names, found) => ExternalCatalogUtils.generatePartitionPath(found, names, location)
      }
    }.map(path).toSet
    val parents = possible.map(name => new Path(name).getParent).toSeq
    PartitionFiles.atOnce(parents)(parent => subdirectories(new Path(location, parent))).flatten.filter(folder => possible(path(folder)))
  }

  private def dropEmpty(built: Seq[StoredPartition]): Unit = {
    val possible = built.filter(partition => BuildDirectory.isEmptyName(new Path(partition.location).getName))
    val empty = PartitionFiles.atOnce(possible) { partition =>
      val (files, folders) = PartitionFiles.children(new Path(partition.location), Compat.hadoopConf(session))
      if (files.isEmpty && folders.isEmpty && defaultDirectories(Seq(valuesOf(partition))).isEmpty) Some(valuesOf(partition)) else None
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
