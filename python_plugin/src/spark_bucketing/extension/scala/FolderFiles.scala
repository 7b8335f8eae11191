package org.apache.spark.sql.bucketing

import java.io.FileNotFoundException

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.json.JsonMapper
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, FileSystem, Path}

import org.apache.spark.SparkException
import org.apache.spark.sql.SparkSession
import org.apache.spark.util.ThreadUtils

/**
 * The data files of many folders, for the command line: each of its own calls into this JVM takes as long as listing a
 * folder, and an object store is asked for several folders at the same time.
 */
object FolderFiles {

  private val AtATime = 16

  private val Json = new JsonMapper()

  /**
   * @param folders a JSON array of paths
   * @return a JSON array with an object for each: its `address` (the qualified URL), and its `files` by name, size and
   *   time of their last change (ms); without `files` where there is no such folder
   */
  def list(session: SparkSession, folders: String): String = {
    val conf = Compat.hadoopConf(session)
    val paths = Json.readTree(folders).elements.asScala.map(path => new Path(path.textValue)).toSeq
    val found = Json.createArrayNode()
    try ThreadUtils.parmap(paths, "bucketing-list-files", AtATime)(folder(_, conf)).foreach(found.add)
    // The reason, and not that it came from another thread.
    catch { case error: SparkException if error.getCause != null => throw error.getCause }
    Json.writeValueAsString(found)
  }

  private def folder(path: Path, conf: Configuration): ObjectNode = {
    val files = path.getFileSystem(conf)
    val found = Json.createObjectNode().put("address", files.makeQualified(path).toUri.toString)
    try {
      val listed = found.putArray("files")
      files.listStatus(path).filter(isData).foreach { file =>
        listed.addArray().add(file.getPath.getName).add(file.getLen).add(file.getModificationTime)
      }
    } catch { case _: FileNotFoundException => found.remove("files") }
    found
  }

  /**
   * The data files at any depth below the hidden folders of rewrites.
   *
   * @param folders a JSON array of paths, in which these lie
   * @param prefix of their names
   * @return a JSON array of arrays: the folder, and the name of a file in it
   */
  def below(session: SparkSession, folders: String, prefix: String): String = {
    val conf = Compat.hadoopConf(session)
    val paths = Json.readTree(folders).elements.asScala.map(path => new Path(path.textValue)).toSeq
    val found = Json.createArrayNode()
    val files = ThreadUtils.parmap(paths, "bucketing-list-hidden", AtATime) { path =>
      val system = path.getFileSystem(conf)
      children(system, path).filter(child => child.isDirectory && child.getPath.getName.startsWith(prefix))
        .flatMap(data(system, _))
    }
    files.flatten.foreach(file => found.addArray().add(file.getPath.getParent.toString).add(file.getPath.getName))
    Json.writeValueAsString(found)
  }

  private def data(files: FileSystem, folder: FileStatus): Seq[FileStatus] =
    children(files, folder.getPath).filterNot(child => isHidden(child.getPath)).flatMap { child =>
      if (child.isDirectory) data(files, child) else Seq(child)
    }

  private def children(files: FileSystem, folder: Path): Seq[FileStatus] =
    try files.listStatus(folder).toSeq catch { case _: FileNotFoundException => Nil }

  // As Spark tells them apart when it reads a table.
  private def isData(file: FileStatus): Boolean = !file.isDirectory && !isHidden(file.getPath)

  private def isHidden(path: Path): Boolean = path.getName.startsWith(".") || path.getName.startsWith("_")
}
