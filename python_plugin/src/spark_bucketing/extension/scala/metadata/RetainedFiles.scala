package org.apache.spark.sql.bucketing
package metadata

import scala.util.Try

import org.apache.hadoop.fs.{FileSystem, Path}

import org.apache.spark.sql.bucketing.compat.{Compat, SparkVersion}

/**
 * The files that statements have replaced a short time ago. Queries that were planned before the replacement still read them. They are in a hidden directory of
 * the table, below the name of the replacement, if the storage moves files without copying them. Otherwise, a statement deletes them.
 *
 * @param location the location of the table
 */
case class RetainedFiles(location: Path, fs: FileSystem) {

  private val root = new Path(location, RetainedFiles.Folder)
  private val names = TableFiles(fs.makeQualified(location))

  private def pathOf(folder: Path, file: Path) = new Path(folder, names.nameOf(file).stripPrefix("/"))

  /** Moves or deletes files that a replacement has removed from the table. */
  def remove(replacement: String, files: Seq[Path], keeps: Boolean): Unit = {
    def isKept(file: Path) = keeps && {
      val kept = pathOf(new Path(root, replacement), file)
      Try(fs.mkdirs(kept.getParent) && fs.rename(file, kept)).getOrElse(false)
    }
    SparkVersion.delete(fs, files.zip(Compat.inParallel(files)(isKept)).collect { case (file, false) => file })
  }

  /** Deletes the files that were removed before a time, in milliseconds since 1970. */
  def expire(before: Long): Unit = {
    // Anyone who can write into the table's directory can put other directories here, or a link to them.
    val (old, young) = BucketFiles.children(root, fs).partition(of => Replacement.isName(of.getPath.getName) && of.getModificationTime <= before)
    old.foreach(folder => fs.delete(folder.getPath, true))
    if (old.nonEmpty && young.isEmpty) fs.delete(root, false)
  }

  /** Returns where a removed file is, if it still exists. */
  def find(file: Path): Option[Path] = BucketFiles.children(root, fs).map(folder => pathOf(folder.getPath, file)).find(fs.exists)
}

object RetainedFiles {
  val Folder = "_retained"
}
