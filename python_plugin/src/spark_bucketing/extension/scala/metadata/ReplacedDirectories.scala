package org.apache.spark.sql.bucketing
package metadata

import java.io.IOException
import java.util.Locale

import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}
import org.apache.hadoop.mapreduce.lib.output.FileOutputCommitter

import org.apache.spark.internal.Logging
import org.apache.spark.sql.catalyst.catalog.CatalogTable

/**
 * Deletes directories that publications have replaced. A publication records them in parameters of their partitions.
 *
 * A directory is deleted only if all of these conditions are true. Otherwise, it stays.
 *  - It was the location of its partition when a publication replaced it, and it still has exactly the same files.
 *  - It is in the table's directory, and is either the default directory of the partition, or in a build.
 *  - No partition of the table points to it, to a directory in it, or to a directory that contains it. Paths can differ, for example because of
 *    a symbolic link. Therefore, no partition outside default directories and builds has a file of the same name and length.
 *
 * @param partitions all partitions of the table, listed after the publication
 */
class ReplacedDirectories(table: CatalogTable, partitions: Seq[StoredPartition], conf: Configuration) extends Logging {

  private val root = new Path(table.location)
  private val used = partitions.map(partition => path(new Path(partition.location))).toSet
  private val parents = used.flatMap(parentsOf)

  /** The names and lengths of the files of partitions in unusual locations. */
  private lazy val elsewhere: Set[(String, Long)] = PartitionFiles.atOnce(partitions.filterNot { partition =>
    below(new Path(partition.location)).exists(name => isInBuild(name) || isDefault(name, partition))
  })(partition => filesIn(new Path(partition.location))).flatten.toSet

  /** Deletes the directory that a publication replaced, if `isIncluded` for its path in the table's directory. */
  def delete(partition: StoredPartition)(isIncluded: String => Boolean): Unit = Publication.replaced(partition).foreach { state =>
    val folder = new Path(state.location)
    below(folder).filter(isIncluded).filter(name => isDefault(name, partition) || isInBuild(name)).filterNot(_ => isUsed(folder)).foreach { _ =>
      val files = DirectoryState.files(folder, conf)
      if (PartitionFiles.digest(files).hex == state.hex) deleteFolder(folder, files)
      else if (files.nonEmpty) logWarning(s"$folder stays, because its files have changed since a build replaced it")
    }
  }

  def isUsed(folder: Path): Boolean = {
    val name = path(folder)
    used(name) || parents(name) || parentsOf(name).exists(used) || (elsewhere.nonEmpty && filesIn(folder).exists(elsewhere))
  }

  /** Returns the builds in the table's directory that no partition points to, and that no publication of a partition deletes. */
  def unusedBuilds: Seq[String] = {
    val kept = partitions.flatMap(Publication.replaced).flatMap(state => parentsOf(path(new Path(state.location)))).toSet
    PartitionFiles.children(root, conf)._2.filter(Build.isName).filterNot { name =>
      val build = path(new Path(root, name))
      used(build) || parents(build) || kept(build)
    }
  }

  private def filesIn(folder: Path): Seq[(String, Long)] = DirectoryState.files(folder, conf).map(file => (file.getPath.getName, file.getLen))

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

  /**
   * Deletes the files in a directory that a publication has recorded, and the directory if nothing else is in it. An INSERT may write other
   * files to it at any time. Deletes the build that contains the directory if the build has nothing else.
   */
  private def deleteFolder(folder: Path, recorded: Seq[FileStatus]): Unit = try {
    logInfo(s"Deleting $folder, which a build has replaced")
    val files = folder.getFileSystem(conf)
    recorded.foreach(file => files.delete(file.getPath, false))
    deleteWithoutFiles(folder)
    deleteEmptyBuild(folder.getParent)
  } catch { case NonFatal(error) => logWarning(s"$folder stays, because Spark cannot delete it", error) }

  /** Deletes a directory of a build, and the directories that contain it, as long as nothing is in them. */
  def deleteEmptyBuild(folder: Path): Unit =
    if (below(folder).exists(isInBuild) && !isUsed(folder) && deleteWithoutFiles(folder)) deleteEmptyBuild(folder.getParent)

  /** Deletes a directory and the directories in it, but no data file. Returns whether it is gone. */
  def deleteWithoutFiles(folder: Path): Boolean = {
    val files = folder.getFileSystem(conf)
    val (data, folders) = PartitionFiles.children(folder, conf)
    if (data.nonEmpty || !folders.map(name => deleteWithoutFiles(new Path(folder, name))).forall(identity)) false
    else try {
      files.delete(new Path(folder, FileOutputCommitter.SUCCEEDED_FILE_NAME), false)
      files.delete(folder, false) || !files.exists(folder)
    } catch { case _: IOException => false }
  }

  private def path(folder: Path): String = folder.toUri.getPath.stripSuffix("/")

  private def qualified(folder: Path): String = folder.getFileSystem(conf).makeQualified(folder).toString.stripSuffix("/")

  private def parentsOf(name: String): Seq[String] = (1 until name.length).filter(name(_) == '/').map(name.take)
}
