package org.apache.spark.sql.bucketing
package metadata

import java.util.Locale

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.catalog.CatalogTable

/**
 * Deletes directories that publications have replaced. A publication records them in parameters of their partitions.
 *
 * A directory is deleted only if all of these conditions are true. Otherwise, it stays.
 *  - It was the location of its partition when a publication replaced it, and it still has exactly the same files.
 *  - It is in the table's directory, and is either the default directory of the partition, or in a build.
 *  - No partition of the table points to it, to a directory in it, or to a directory that contains it.
 *
 * @param partitions all partitions of the table, listed after the publication
 */
class ReplacedDirectories(table: CatalogTable, partitions: Seq[StoredPartition], conf: Configuration) extends Logging {

  private val root = new Path(table.location)
  private val used = partitions.map(partition => path(new Path(partition.location))).toSet
  private val parents = used.flatMap(parentsOf)

  /** Deletes the directory that a publication replaced, if `isIncluded` for its path in the table's directory. */
  def delete(partition: StoredPartition)(isIncluded: String => Boolean): Unit = Publication.replaced(partition).foreach { state =>
    val folder = new Path(state.location)
    below(folder).filter(isIncluded).filter(name => isDefault(name, partition) || isInBuild(name)).filterNot(_ => isUsed(folder)).foreach { _ =>
      if (state.isCurrent(conf)) deleteFolder(folder)
      else if (state.hasOtherFiles(conf)) logWarning(s"$folder stays, because its files have changed since a build replaced it")
    }
  }

  def isUsed(folder: Path): Boolean = {
    val name = path(folder)
    used(name) || parents(name) || parentsOf(name).exists(used)
  }

  /** Returns the path of a directory in the table's directory, for example build-20240131235959000000/ds=1. */
  def below(folder: Path): Option[String] = {
    val (name, start) = (qualified(folder), qualified(root) + "/")
    if (name.startsWith(start)) Some(name.substring(start.length)) else None
  }

  def isInBuild(name: String): Boolean = Build.isName(name.takeWhile(_ != '/'))

  private def isDefault(name: String, partition: StoredPartition): Boolean = partition.name == name.split("/").map { part =>
    val column = part.takeWhile(_ != '=')
    column.toLowerCase(Locale.ROOT) + part.substring(column.length)
  }.mkString("/")

  /** Deletes a directory, and the build that contains it if the build has nothing else. */
  private def deleteFolder(folder: Path): Unit = try {
    logInfo(s"Deleting $folder, which a build has replaced")
    folder.getFileSystem(conf).delete(folder, true)
    deleteEmptyBuild(folder.getParent)
  } catch { case NonFatal(error) => logWarning(s"$folder stays, because Spark cannot delete it", error) }

  /** Deletes a directory of a build, and the directories that contain it, as long as nothing is in them. */
  def deleteEmptyBuild(folder: Path): Unit = if (below(folder).exists(isInBuild) && !isUsed(folder)) {
    val (files, folders) = PartitionFiles.children(folder, conf)
    if (files.isEmpty && folders.isEmpty) {
      folder.getFileSystem(conf).delete(folder, true)
      deleteEmptyBuild(folder.getParent)
    }
  }

  private def path(folder: Path): String = folder.toUri.getPath.stripSuffix("/")

  private def qualified(folder: Path): String = folder.getFileSystem(conf).makeQualified(folder).toString.stripSuffix("/")

  private def parentsOf(name: String): Seq[String] = (1 until name.length).filter(name(_) == '/').map(name.take)
}
