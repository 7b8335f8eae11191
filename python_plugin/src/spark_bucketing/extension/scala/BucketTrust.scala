package org.apache.spark.sql.bucketing

import java.util.{ArrayList, Collections, LinkedHashMap, List => JList, Map => JMap}

import scala.jdk.CollectionConverters._

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

/** What is wrong with a file: rows are out of their bucket, or only out of their order. */
sealed trait Distrust extends Serializable
case object OfRows extends Distrust
case object OfOrder extends Distrust

/** What is known about files in this JVM: which were probed, which were checked, and which broke their word. */
object BucketTrust {

  private val Remembered = 100000

  private val probed = remembering[(FileVersion, BucketsOf), Option[String]]

  // Files of which every row was checked, and whether the rows without a key were among them.
  private val checked = remembering[(FileVersion, BucketsOf), Boolean]

  private val distrusted = remembering[FileVersion, Distrust]

  // Least recently used entries go first.
  private def remembering[K, V]: JMap[K, V] = Collections.synchronizedMap(
    new LinkedHashMap[K, V](1024, 0.75f, true) {
      override def removeEldestEntry(eldest: JMap.Entry[K, V]): Boolean = size > Remembered
    })

  /** The objection to this file, looked for once per version of the file; what fails is looked for again. */
  def probe(file: FileVersion, of: BucketsOf)(look: => Option[String]): Option[String] =
    Option(probed.get((file, of))).getOrElse {
      val found = look
      probed.put((file, of), found)
      found
    }

  /** Remember that the rows of a file are in their bucket and order; `nulls` tells whether those with a NULL key were read. */
  def check(file: FileVersion, of: BucketsOf, nulls: Boolean): Unit = of.sorts.inits.foreach { sorts =>
    checked.merge((file, of.copy(sorts = sorts)), nulls, (before, now) => before || now)
  }

  def isChecked(file: FileVersion, of: BucketsOf, nulls: Boolean): Boolean =
    Option(checked.get((file, of))).exists(_ || !nulls)

  def distrust(file: FileVersion, of: Distrust): Unit =
    distrusted.merge(file, of, (before, now) => if (before == OfRows) before else now)

  /** The name of a file that was read together with such a row, if there is one. */
  def distrusted(files: Array[PartitionedFile], of: Distrust): Option[String] =
    if (distrusted.isEmpty) None else files.map(FileVersion(_)).find(distrusted.get(_) == of).map(_.name)

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

  /** That a row is out of place in one of these files: which one, no operator above the scan knows for certain. */
  def distrusted(files: Array[PartitionedFile], context: SparkContext): Findings[Distrust] =
    registered(context, evenOfFailed = true)((of: Distrust) => files.foreach(file => BucketTrust.distrust(FileVersion(file), of)))

  /** Files that were read to the end with every row in place. */
  def checked(of: BucketsOf, nulls: Boolean, context: SparkContext): Findings[FileVersion] =
    registered(context, evenOfFailed = false)(file => BucketTrust.check(file, of, nulls))

  private def registered[T](context: SparkContext, evenOfFailed: Boolean)(act: T => Unit): Findings[T] = {
    val findings = new Findings[T](act)
    findings.register(context, name = None, countFailedValues = evenOfFailed)
    findings
  }
}
