package org.apache.spark.sql.bucketing.support

import org.apache.hadoop.fs.Path
import org.apache.hadoop.mapreduce.TaskAttemptContext
import org.apache.hadoop.mapreduce.lib.output.FileOutputCommitter
import org.apache.parquet.hadoop.ParquetOutputCommitter

/** Adds an id to the names of files when a task commits, like the staging committers of S3A. */
class RenamingCommitter(output: Path, context: TaskAttemptContext) extends ParquetOutputCommitter(output, context) {
  override def commitTask(of: TaskAttemptContext): Unit = {
    RenamingCommitter.rename(getTaskAttemptPath(of), of)
    super.commitTask(of)
  }
}

/** The same for formats other than Parquet. */
class RenamingFileCommitter(output: Path, context: TaskAttemptContext) extends FileOutputCommitter(output, context) {
  override def commitTask(of: TaskAttemptContext): Unit = {
    RenamingCommitter.rename(getTaskAttemptPath(of), of)
    super.commitTask(of)
  }
}

object RenamingCommitter {

  @volatile private var separator = "-"

  /** Sets the text before the id. S3A uses a hyphen. */
  def use(text: String): Unit = separator = text

  private[support] def rename(path: Path, context: TaskAttemptContext): Unit = {
    val fs = path.getFileSystem(context.getConfiguration)
    val files = if (fs.exists(path)) fs.listFiles(path, true) else return
    while (files.hasNext) {
      val file = files.next.getPath
      val (stem, extension) = file.getName.splitAt(file.getName.indexOf('.'))
      if (!file.getName.startsWith(".")) fs.rename(file, new Path(file.getParent, s"$stem${separator}0123abcd$extension"))
    }
  }
}
