package org.apache.spark.sql.bucketing

import java.io.IOException

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileUtil, Path}

import org.apache.spark.TaskContext
import org.apache.spark.sql.SparkSession
import org.apache.spark.util.SerializableConfiguration

/** Copies of files as they are, made by the executors. */
object FolderCopy {

  /**
   * Copies the data files of a folder, and nothing hidden.
   *
   * @param from the folder, as the metastore has it; nothing is copied where there is none
   * @param to a folder that is made if it is not there
   */
  def copy(session: SparkSession, from: String, to: String): Unit = {
    val (source, target) = (new Path(from), new Path(to))
    val conf = new SerializableConfiguration(Compat.hadoopConf(session))
    target.getFileSystem(conf.value).mkdirs(target)
    val files = source.getFileSystem(conf.value)
    // An object store has no folder without files.
    val listed = if (files.exists(source)) files.listStatus(source).toSeq else Nil
    val names = listed.filter(_.isFile).map(_.getPath.getName).filterNot(name => name.startsWith("_") || name.startsWith("."))
    if (names.nonEmpty) session.sparkContext.parallelize(names, names.length).foreach { name =>
      copyFile(new Path(source, name), new Path(target, name), conf.value)
    }
    val system = target.getFileSystem(conf.value)
    // Of attempts that failed.
    system.listStatus(target).map(_.getPath).filter(_.getName.startsWith("_")).foreach(system.delete(_, false))
  }

  /** Under a name of the task's own first: of two attempts at one file, none sees what the other has half written. */
  private def copyFile(source: Path, target: Path, conf: Configuration): Unit = {
    val files = target.getFileSystem(conf)
    val part = new Path(target.getParent, s"_${target.getName}.${TaskContext.get().taskAttemptId()}")
    FileUtil.copy(source.getFileSystem(conf), source, files, part, false, true, conf)
    if (!files.rename(part, target)) {
      if (!files.exists(target)) throw new IOException(s"$part cannot be renamed to $target")
      files.delete(part, false)
    }
  }
}
