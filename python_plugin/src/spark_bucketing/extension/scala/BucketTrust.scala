package org.apache.spark.sql.bucketing

import java.net.URI
import java.util.{ArrayList, Collections, LinkedHashMap, List => JList, Map => JMap}
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.Path

import org.apache.spark.SparkContext
import org.apache.spark.util.AccumulatorV2

/** A file as it was when it was looked at. */
case class FileVersion(path: String, length: Long, modified: Long)

/** What is known about files in this JVM: which were probed, and which broke their word while they were read. */
object BucketTrust {

  private val Remembered = 100000

  // Least recently used entries go first.
  private val probed: JMap[(FileVersion, BucketsOf), Option[String]] = Collections.synchronizedMap(
    new LinkedHashMap[(FileVersion, BucketsOf), Option[String]](1024, 0.75f, true) {
      override def removeEldestEntry(eldest: JMap.Entry[(FileVersion, BucketsOf), Option[String]]): Boolean =
        size > Remembered
    })

  // Folder or file, and since when: a file that was written later is another file.
  private val distrusted = new ConcurrentHashMap[String, Long]()

  /** The objection to this file, looked for once per version of the file. */
  def probe(file: FileVersion, of: BucketsOf)(look: => Option[String]): Option[String] =
    Option(probed.get((file, of))).getOrElse {
      val found = look
      probed.put((file, of), found)
      found
    }

  def distrust(path: String): Unit = distrusted.put(path, System.currentTimeMillis())

  /** A path that covers this file and was found out since the file was written. */
  def distrusts(file: FileVersion): Boolean =
    !distrusted.isEmpty && distrusted.asScala.exists { case (path, since) =>
      file.modified <= since && (file.path == path || file.path.startsWith(path + "/"))
    }

  /** Forget everything; for tests. */
  def clear(): Unit = {
    probed.clear()
    distrusted.clear()
  }
}

/** Carries the paths of distrusted files from failing tasks to the driver. The empty path stands for the whole table. */
class Distrust(roots: Seq[String]) extends AccumulatorV2[String, JList[String]] {

  private val paths = Collections.synchronizedList(new ArrayList[String]())

  override def isZero: Boolean = paths.isEmpty
  override def copy(): Distrust = { val other = new Distrust(roots); other.paths.addAll(paths); other }
  override def copyAndReset(): Distrust = new Distrust(roots)
  override def reset(): Unit = paths.clear()
  override def add(path: String): Unit = paths.add(path)
  override def value: JList[String] = paths

  // Merged on the driver, when a task has failed.
  override def merge(other: AccumulatorV2[String, JList[String]]): Unit = other.value.asScala.foreach { path =>
    paths.add(path)
    if (path.isEmpty) roots.foreach(BucketTrust.distrust) else BucketTrust.distrust(new Path(new URI(path)).toString)
  }
}

object Distrust {

  /** Values of failed tasks count: only failing tasks have any. */
  def of(roots: Seq[String], context: SparkContext): Distrust = {
    val distrust = new Distrust(roots)
    distrust.register(context, name = None, countFailedValues = true)
    distrust
  }
}
