package org.apache.spark.sql.bucketing.support

import java.io.{ByteArrayOutputStream, IOException}
import java.nio.file.Files
import java.nio.file.attribute.PosixFilePermissions
import java.util.concurrent.{CountDownLatch, TimeUnit}
import java.util.concurrent.atomic.AtomicInteger

import scala.util.Try

import org.apache.hadoop.fs.{FileAlreadyExistsException, FSDataInputStream, FSDataOutputStream, FSDataOutputStreamBuilder, FileStatus, FileUtil, LocalFileSystem, Path, RawLocalFileSystem}
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.security.AccessControlException
import org.apache.hadoop.util.Progressable

/**
 * The local file system, which sets permissions with system calls and can hold an operation. Hadoop without native
 * libraries would run `chmod` for each new file and folder.
 */
class TestFileSystem extends LocalFileSystem(new QuickPermissions) {
  override def open(path: Path, buffer: Int): FSDataInputStream = {
    val opened = super.open(path, buffer)
    TestFileSystem.pass(s"opened $path")
    opened
  }

  override def rename(source: Path, target: Path): Boolean = {
    TestFileSystem.pass(s"rename $source")
    TestFileSystem.store.fold(super.rename(source, target)) { store =>
      // As S3A does.
      if (exists(source) && exists(target) && !isDirectory(target)) throw new FileAlreadyExistsException(target.toString)
      copy(source, target, store)
    }
  }

  override def delete(path: Path, recursive: Boolean): Boolean = {
    TestFileSystem.pass(s"delete $path")
    TestFileSystem.store.foreach(_.change(s"delete $path"))
    super.delete(path, recursive) && { forgetEmpty(path.getParent); true }
  }

  override def create(
      path: Path, permission: FsPermission, overwrite: Boolean, buffer: Int, replication: Short, block: Long, progress: Progressable): FSDataOutputStream = {
    TestFileSystem.pass(s"create $path")
    TestFileSystem.store.foreach(_.change(s"create $path"))
    TestFileSystem.synchronized(super.create(path, permission, overwrite, buffer, replication, block, progress))
  }

  override def getScheme: String = if (TestFileSystem.store.isEmpty) super.getScheme else "object"

  override def hasPathCapability(path: Path, capability: String): Boolean = TestFileSystem.store match {
    case Some(store) if capability == TestFileSystem.Conditional => store.isConditional
    case _ => super.hasPathCapability(path, capability)
  }

  override def createFile(path: Path): ConditionalCreate = new ConditionalCreate(this, path)

  override def getFileStatus(path: Path): FileStatus = {
    val of = super.getFileStatus(path)
    // Some object stores return milliseconds only in listings.
    if (TestFileSystem.store.isEmpty) of
    else new FileStatus(of.getLen, of.isDirectory, of.getReplication, of.getBlockSize, of.getModificationTime / 1000 * 1000, of.getPath)
  }

  override def listStatus(path: Path): Array[FileStatus] = {
    TestFileSystem.pass(s"list $path")
    if (path.toString.matches(TestFileSystem.vanishing)) {
      super.delete(path, true)
      throw new IOException(s"Invalid directory or I/O error occurred for dir: $path")
    }
    if (path.toString.matches(TestFileSystem.denied)) throw new AccessControlException(s"Permission denied: $path")
    super.listStatus(path)
  }

  /** Copies file by file, and then deletes file by file. */
  private def copy(source: Path, target: Path, store: ObjectStore): Boolean = {
    val files = if (isDirectory(source)) FileUtil.stat2Paths(listStatus(source)).toSeq else Nil
    if (isDirectory(source)) {
      mkdirs(target)
      files.forall(file => copy(file, new Path(target, file.getName), store)) && { super.delete(source, true); true }
    } else exists(source) && {
      store.change(s"copy $source")
      Thread.sleep(store.millis)
      FileUtil.copy(this, source, this, target, false, getConf)
      delete(source, false)
    }
  }

  /** Object stores have no empty directories. Another thread may delete the same directory. */
  private def forgetEmpty(folder: Path): Unit =
    if (TestFileSystem.store.nonEmpty && folder != null && deletesEmpty(folder)) forgetEmpty(folder.getParent)

  private def deletesEmpty(folder: Path): Boolean =
    TestFileSystem.synchronized(Try(listStatus(folder).isEmpty && super.delete(folder, false)).getOrElse(false))
}

/**
 * Lets the file system behave like an object store: renames copy each file, the status of a file has whole seconds although listings have milliseconds, and
 * directories without files do not exist.
 *
 * @param last the number of changes after which all others fail, as if the process was dead
 * @param millis how long a copy takes
 * @param isConditional whether a file can be created on the condition that it does not exist
 */
class ObjectStore(last: Int, val millis: Long, val isConditional: Boolean) {
  val changes = new AtomicInteger

  private[support] def change(operation: String): Unit =
    if (changes.incrementAndGet() > last) throw new IOException(s"the process is dead: $operation")
}

/** Creates a file. An object store creates it when it is closed and, with the option of S3A, fails if it exists by then. */
class ConditionalCreate(files: TestFileSystem, path: Path) extends FSDataOutputStreamBuilder[FSDataOutputStream, ConditionalCreate](files, path) {
  override def getThisBuilder: ConditionalCreate = this

  override def build(): FSDataOutputStream = if (TestFileSystem.store.isEmpty) files.create(path, true) else {
    val isConditional = getOptions.getBoolean(TestFileSystem.Conditional, false)
    val bytes = new ByteArrayOutputStream
    new FSDataOutputStream(bytes, null) {
      override def close(): Unit = {
        TestFileSystem.pass(s"put $path")
        TestFileSystem.synchronized {
          if (isConditional && files.exists(path)) throw new IOException(s"412: $path exists")
          val stream = files.create(path, true)
          try stream.write(bytes.toByteArray) finally stream.close()
        }
        TestFileSystem.pass(s"answer $path")
        TestFileSystem.answer(path)
      }
    }
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

  @volatile private var vanishing = "(?!)"
  @volatile private var held: Option[Held] = None
  @volatile private[support] var store: Option[ObjectStore] = None

  val Conditional = "fs.option.create.conditional.overwrite"

  // The answers to requests whose path matches are lost.
  @volatile private var lost = "(?!)"
  def loseAnswers(pattern: String): Unit = lost = pattern
  private[support] def answer(path: Path): Unit = if (path.toString.matches(lost)) throw new IOException(s"412: $path exists after a repeated request")

  def startStore(last: Int, millis: Long, isConditional: Boolean): ObjectStore = {
    val started = new ObjectStore(last, millis, isConditional)
    store = Some(started)
    started
  }

  def stopStore(): Unit = store = None

  /** Holds the first operation that matches a pattern, such as `rename file:/w/t/a`, until it is opened. */
  def hold(pattern: String): Held = {
    val holding = new Held(pattern)
    held = Some(holding)
    holding
  }

  /** Deletes directories whose path matches a pattern while they are listed, as another session could. */
  def vanish(pattern: String): Unit = vanishing = pattern

  @volatile private var denied = "(?!)"

  /** Denies to list directories whose path matches a pattern. */
  def deny(pattern: String): Unit = denied = pattern

  @volatile private var failing = "(?!)"

  /** Lets the first operation that matches a pattern fail. */
  def fail(pattern: String): Unit = failing = pattern

  private[support] def pass(operation: String): Unit = {
    def isFirst = synchronized { val found = operation.matches(failing); failing = "(?!)"; found }
    if (operation.matches(failing) && isFirst) throw new IOException(s"this operation fails once: $operation")
    held.foreach(_.pass(operation))
  }
}
