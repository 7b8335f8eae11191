package org.apache.spark.sql.bucketing
package write

import java.util.concurrent.{CountDownLatch, TimeUnit}

import scala.util.control.NonFatal

import org.apache.hadoop.fs.{FileStatus, FileSystem, Path}

import org.apache.spark.sql.bucketing.metadata.{AppVersion, Replacement, StatementScope}
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec

/**
 * A running statement that changes the files of a table.
 *
 * @param folder the directory of its new files and of its record
 * @param seen the names of the replacements that were committed before it has read the table
 * @param heartbeat shows other statements that it is running
 * @param version the version that the application writes, if it has set one
 */
class Transaction(val folder: Path, val seen: Set[String], val heartbeat: Heartbeat, val version: Option[AppVersion]) {
  /** The directory of the new files, until they move into the table. */
  val staged = new Path(folder, Replacement.Staged)

  /** Whether the replacement has been undone, or has only begun to be. None before. */
  @volatile var isUndone: Option[Boolean] = None
}

/**
 * The move of a new file into the table.
 *
 * @param partition the values of a partition that may be new; None otherwise
 */
case class FileMove(from: Path, to: Path, partition: Option[TablePartitionSpec], isNewPartition: Boolean)

/** Another statement has changed the table since this statement read it. */
class ConcurrentChange(message: String, cause: Throwable) extends RuntimeException(message, cause)

/**
 * What a statement does with the files of a table.
 *
 * @param going the old files as the statement read them
 * @param coming the new files
 * @param dropped partitions to drop, unless others have written files into them
 * @param overwrites whether to delete files that new partitions' directories already contain, such as files of a dropped partition of an external
 *                   table. If false, such files are an error
 */
case class FileChanges(statement: StatementScope, going: Seq[FileStatus], coming: Seq[FileMove], dropped: Set[TablePartitionSpec] = Set.empty, overwrites: Boolean = false)

/** Shows, once a second, that the statement of a replacement is working, so that no other statement takes it for crashed. */
class Heartbeat(folder: Path, fs: FileSystem) extends AutoCloseable {

  private val PauseMillis = 1000L
  private val RecentNanos = TimeUnit.MILLISECONDS.toNanos(BucketingConf.recoverAfterMillis.min(10 * PauseMillis) / 2)

  private val closed = new CountDownLatch(1)
  @volatile private var last = System.nanoTime
  private val thread = new Thread(() => while (!closed.await(PauseMillis, TimeUnit.MILLISECONDS)) {
    val now = System.nanoTime
    try {
      Replacement.beat(folder, fs)
      last = now
    } catch { case NonFatal(_) => }
  }, s"heartbeat of ${folder.getName}")
  thread.setDaemon(true)
  thread.start()

  /** Returns whether no other statement can take this one for crashed, because the last heartbeat is recent. A paused process has none. */
  def isRecent: Boolean = System.nanoTime - last < RecentNanos

  override def close(): Unit = {
    closed.countDown()
    thread.join(PauseMillis)
  }
}
