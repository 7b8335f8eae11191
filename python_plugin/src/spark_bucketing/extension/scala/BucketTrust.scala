package org.apache.spark.sql.bucketing

import java.net.URI
import java.util.{ArrayList, Collections, LinkedHashMap, List => JList, Map => JMap}
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.Path

import org.apache.spark.SparkContext
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.util.AccumulatorV2

/** A file as it was when it was looked at. */
case class FileVersion(path: String, length: Long, modified: Long) {
  def name: String = path.substring(path.lastIndexOf('/') + 1)
}

object FileVersion {
  def apply(file: PartitionedFile): FileVersion =
    FileVersion(file.toPath.toString, file.fileSize, file.modificationTime)
}

/** What is known about files in this JVM: which were probed, and which broke their word while they were read. */
object BucketTrust {

  private val Remembered = 100000
  // The clock of the file system may run ahead of this one.
  private val ClockSkew = 3600 * 1000L

  private val probed = remembering[(FileVersion, BucketsOf), Option[String]]

  // Least recently used entries go first.
  private def remembering[K, V]: JMap[K, V] = Collections.synchronizedMap(
    new LinkedHashMap[K, V](1024, 0.75f, true) {
      override def removeEldestEntry(eldest: JMap.Entry[K, V]): Boolean = size > Remembered
    })

  // Folder or file, and since when: a file that was written later is another file.
  private val distrusted = new ConcurrentHashMap[String, Long]()

  // Files of which every row was checked, and whether the rows without a key were among them.
  private val checked = remembering[(FileVersion, BucketsOf), Boolean]

  /** The objection to this file, looked for once per version of the file. */
  def probe(file: FileVersion, of: BucketsOf)(look: => Option[String]): Option[String] =
    Option(probed.get((file, of))).getOrElse {
      val found = look
      probed.put((file, of), found)
      found
    }

  /** Remember that every row of a file is where it should be; `nulls` tells whether rows with a NULL key were read. */
  def check(file: FileVersion, of: BucketsOf, nulls: Boolean): Unit =
    checked.merge((file, of), nulls, (before, now) => before || now)

  def isChecked(file: FileVersion, of: BucketsOf, nulls: Boolean): Boolean =
    Option(checked.get((file, of))).exists(_ || !nulls)

  def distrust(path: String): Unit = distrusted.put(path, System.currentTimeMillis())

  /** The name of a file that was found out since it was written, if there is one. */
  def distrusted(files: Array[PartitionedFile]): Option[String] =
    if (distrusted.isEmpty) None else files.map(FileVersion(_)).find(isDistrusted).map(_.name)

  private def isDistrusted(file: FileVersion): Boolean = distrusted.asScala.exists { case (path, since) =>
    file.modified <= since + ClockSkew && (file.path == path || file.path.startsWith(path + "/"))
  }

  /** Forget everything; for tests. */
  def clear(): Unit = {
    probed.clear()
    checked.clear()
    distrusted.clear()
  }
}

/** Carries what tasks find out to the driver, which acts on it when a task has ended, well or not. */
class Findings[T](@transient private val act: T => Unit) extends AccumulatorV2[T, JList[T]] {

  private val found = Collections.synchronizedList(new ArrayList[T]())

  override def isZero: Boolean = found.isEmpty
  override def copy(): Findings[T] = { val other = new Findings(act); other.found.addAll(found); other }
  override def copyAndReset(): Findings[T] = new Findings(act)
  override def reset(): Unit = found.clear()
  override def add(finding: T): Unit = found.add(finding)
  override def value: JList[T] = found
  override def merge(other: AccumulatorV2[T, JList[T]]): Unit = if (act != null) other.value.asScala.foreach(act)
}

object Findings {

  /** Files that hold a row out of place. The empty path, where the file is not known, stands for the whole table. */
  def distrusted(roots: Seq[String], context: SparkContext): Findings[String] = registered(context, evenOfFailed = true) {
    path => if (path.isEmpty) roots.foreach(BucketTrust.distrust) else BucketTrust.distrust(new Path(new URI(path)).toString)
  }

  /** Files that were read to the end with every row in place. */
  def checked(of: BucketsOf, nulls: Boolean, context: SparkContext): Findings[FileVersion] =
    registered(context, evenOfFailed = false)(file => BucketTrust.check(file, of, nulls))

  private def registered[T](context: SparkContext, evenOfFailed: Boolean)(act: T => Unit): Findings[T] = {
    val findings = new Findings[T](act)
    findings.register(context, name = None, countFailedValues = evenOfFailed)
    findings
  }
}
