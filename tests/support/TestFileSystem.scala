package org.apache.spark.sql.bucketing.support

import java.nio.file.Files
import java.nio.file.attribute.PosixFilePermissions
import java.util.concurrent.{CountDownLatch, TimeUnit}

import org.apache.hadoop.fs.{LocalFileSystem, Path, RawLocalFileSystem}
import org.apache.hadoop.fs.permission.FsPermission

/**
 * The local file system, which sets permissions with system calls and can hold an operation. Hadoop without native
 * libraries would run `chmod` for each new file and folder.
 */
class TestFileSystem extends LocalFileSystem(new QuickPermissions) {
  override def rename(source: Path, target: Path): Boolean = {
    TestFileSystem.pass(s"rename $source")
    super.rename(source, target)
  }

  override def delete(path: Path, recursive: Boolean): Boolean = {
    TestFileSystem.pass(s"delete $path")
    super.delete(path, recursive)
  }
}

class QuickPermissions extends RawLocalFileSystem {
  override def setPermission(path: Path, permission: FsPermission): Unit = {
    val actions = Seq(permission.getUserAction, permission.getGroupAction, permission.getOtherAction)
    val symbols = PosixFilePermissions.fromString(actions.map(_.SYMBOL).mkString)
    Files.setPosixFilePermissions(pathToFile(path).toPath, symbols)
  }
}

object TestFileSystem {
  /** The first operation that matches the pattern, which waits until it is opened. */
  class Held(pattern: String) {
    private val (reached, opened) = (new CountDownLatch(1), new CountDownLatch(1))

    def awaitReached(seconds: Long): Boolean = reached.await(seconds, TimeUnit.SECONDS)

    def open(): Unit = opened.countDown()

    private[support] def pass(operation: String): Unit =
      if (operation.matches(pattern) && synchronized { val first = reached.getCount > 0; reached.countDown(); first }) {
        if (!opened.await(120, TimeUnit.SECONDS)) throw new IllegalStateException(s"held for two minutes: $operation")
      }
  }

  @volatile private var held: Option[Held] = None

  /** Holds the first operation that matches a pattern, such as `rename file:/w/t/a`, until it is opened. */
  def hold(pattern: String): Held = {
    val holding = new Held(pattern)
    held = Some(holding)
    holding
  }

  private def pass(operation: String): Unit = held.foreach(_.pass(operation))
}
