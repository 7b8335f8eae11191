package org.apache.spark.sql.bucketing
package ddl

import scala.util.Try
import scala.util.control.NonFatal

import org.apache.hadoop.fs.{FileStatus, FileSystem, Path}

import org.apache.spark.internal.Logging
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.metadata.{BucketFiles, FileStatistics, PartitionSpecs, Replacement, TableFiles}
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTablePartition, ExternalCatalogUtils}
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryCommand}
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.types.{BooleanType, LongType, StringType}
import org.apache.spark.util.ThreadUtils

/**
 * The parsed statement ALTER TABLE ... REPLACE FILES or ALTER TABLE ... RECOVER FILES.
 *
 * @param by the table that lists the old files, and the staging table that contains the new files, or None for RECOVER FILES
 */
case class ReplaceFiles(child: LogicalPlan, by: Option[(String, String)]) extends UnaryCommand {
  override def output: Seq[Attribute] = ReplaceFiles.columns(by.isDefined)
  override protected def withNewChildInternal(changed: LogicalPlan): LogicalPlan = copy(child = changed)
}

object ReplaceFiles {
  /** The table property that identifies the run that wrote a table. */
  val Build = "bucketing.build"

  def columns(replaces: Boolean): Seq[Attribute] =
    if (replaces) PartitionSpecs.attributes(("added", LongType, false), ("removed", LongType, false), ("is_mapped", BooleanType, false))
    else PartitionSpecs.attributes(("recovered", StringType, false))
}

/** Completes or undoes a replacement that a crash interrupted. */
case class RecoverFilesCommand(name: TableIdentifier) extends LeafRunnableCommand {
  override val output: Seq[Attribute] = ReplaceFiles.columns(replaces = false)
  override def run(session: SparkSession): Seq[Row] = Seq(Row(FileReplacement.of(session, name).recover()))
}

/** Replaces the listed files of a table with the files of a staging table. */
case class ReplaceFilesCommand(name: TableIdentifier, listed: String, staged: String) extends LeafRunnableCommand {

  override val output: Seq[Attribute] = ReplaceFiles.columns(replaces = true)

  override def run(session: SparkSession): Seq[Row] = {
    val replacement = FileReplacement.of(session, name)
    replacement.checkTable()
    replacement.recover()
    val Seq(ofListed, ofStaged) = Seq(listed, staged).map(name => Compat.catalog(session).getTableMetadata(Compat.tableNamed(session, name)))
    replacement.checkRun(ofListed, ofStaged)
    val (done, isMapped) = replacement.replace(going(session), ofStaged)
    Seq(Row(done.added.size.toLong, done.removed.size.toLong, isMapped))
  }

  private def going(session: SparkSession): Seq[FileSnapshot] =
    session.sql(s"select distinct file, bytes, unix_millis(modified) from $listed where file is not null").collect().toSeq
      .map(row => FileSnapshot(row.getString(0), row.getLong(1), row.getLong(2)))
}

/** The length and the modification time that a file had when a run read its rows. */
case class FileSnapshot(url: String, bytes: Long, modified: Long) {
  val path: Path = new Path(new java.net.URI(url))
}

/** Replaces files of an organized table. See docs/explanation/replacing-rows.md. */
class FileReplacement(session: SparkSession, table: CatalogTable) extends Logging {

  private val conf = Compat.hadoopConf(session)
  private val location = new Path(table.location)
  private val fs = location.getFileSystem(conf)
  private val catalog = Compat.catalog(session)

  private val files = TableFiles(fs.makeQualified(location))

  /**
   * Replaces files with the files of a staging table.
   *
   * @param going the old files, which are deleted
   * @param staged the staging table that contains the new files
   * @return the replacement, and whether the file statistics cover the new files by their names and modification times
   */
  def replace(going: Seq[FileSnapshot], staged: CatalogTable): (Replacement, Boolean) = {
    val coming = moves(staged)
    val begun = begin(going, coming)
    val isMapped = try {
      moveIn(coming, staged, begun)
      checkUnchanged(going)
      val depth = table.partitionColumnNames.size
      val mapped = together(coming)(move => fs.getFileStatus(move.to).getModificationTime == move.modified
        && FileStatistics.lastNames(move.from, depth) == FileStatistics.lastNames(move.to, depth)).forall(identity)
      if (!Replacement.commit(begun, fs)) throw refused(
        "another run has undone this replacement", "one run of a model at a time", "run it again; nothing has been replaced")
      mapped
    } catch {
      case NonFatal(error) =>
        try undo(begun) catch { case NonFatal(other) => error.addSuppressed(other) }
        throw error
    }
    complete(begun.copy(isCommitted = true))
    (begun, isMapped)
  }

  def checkTable(): Unit = if (!FileStatistics.isKept(table.properties))
    throw refused("found a table without file statistics", "a table of a dbt model with `range_by`", "use INSERT OVERWRITE, which replaces partitions")

  /** Checks that the same run wrote both tables. If not, another run may have replaced one of them in the meantime. */
  def checkRun(listed: CatalogTable, staged: CatalogTable): Unit = {
    val Seq(one, other) = Seq(listed, staged).map(_.properties.get(ReplaceFiles.Build))
    if (one.isEmpty || one != other) throw refused(s"${listed.identifier.quotedString} and ${staged.identifier.quotedString} are not from the same run",
      "no other run of the model at the same time", "wait until the other run ends, and run it again; nothing has been replaced")
  }

  /** Writes the record of the replacement, before any file is moved. */
  def begin(going: Seq[FileSnapshot], coming: Seq[Move]): Replacement = {
    checkUnchanged(going)
    val created = coming.filter(_.isNewPartition).flatMap(_.partition).distinct
    created.map(defaultLocation).find(children(_).exists(BucketFiles.isData)).foreach { folder =>
      throw refused(s"found files in $folder, which is not a partition of the table", "an empty directory for the new partition",
        "move the files away, or restore the partition with ALTER TABLE ... ADD PARTITION, and run it again; nothing has been replaced")
    }
    Replacement.begin(location, fs, Replacement(location, coming.map(move => files.nameOf(move.to)).toSet,
      going.map(file => files.nameOf(file.path)).toSet, created, isCommitted = false, done = None))
  }

  /** Moves the new files and their statistics into the table. Until the commit, sessions with the extension ignore the new files. */
  def moveIn(coming: Seq[Move], staged: CatalogTable, begun: Replacement): Unit = {
    if (begun.created.nonEmpty) catalog.createPartitions(table.identifier, begun.created.map { spec =>
      CatalogTablePartition(spec, table.storage.copy(locationUri = Some(defaultLocation(spec).toUri)))
    }, ignoreIfExists = true)
    together(coming)(move => rename(move.from, move.to))
    children(new Path(new Path(staged.location), FileStatistics.Folder)).filter(_.isDirectory).foreach { part =>
      rename(part.getPath, new Path(new Path(location, FileStatistics.Folder), part.getPath.getName))
    }
  }

  /** Completes or undoes unfinished replacements. Returns `nothing`, `undone` or `completed`. */
  def recover(): String = Replacement.records(location, conf).filter(_.done.isEmpty).map { last =>
    if (last.isCommitted) complete(last) else undo(last)
    if (last.isCommitted) "completed" else "undone"
  }.lastOption.getOrElse("nothing")

  /** Deletes the new files of a replacement, so that the table keeps the old files. Does nothing if the replacement is committed. */
  private def undo(begun: Replacement): Unit = if (Replacement.undo(begun, fs)) {
    together(pathsOf(begun.added))(fs.delete(_, false))
    dropEmpty(begun.created.map(defaultLocation))
    Replacement.finish(begun, fs)
    Compat.refresh(session, table.identifier)
  }

  /**
   * Completes a committed replacement: deletes the old files, and drops partitions that are now empty. Also deletes files that
   * other runs moved into the table although their replacements had been undone.
   */
  private def complete(committed: Replacement): Unit = {
    val removed = pathsOf(committed.removed)
    committed.checkRestored(together(removed.map(_.getParent).distinct)(children).flatten.map(file => files.nameOf(file.getPath)).toSet)
    together(removed)(fs.delete(_, false))
    dropEmpty(removed.map(_.getParent).distinct)
    Replacement.finish(committed, fs)
    val before = Replacement.records(location, conf).filter(_.folder.getName < committed.folder.getName)
    // Another run may commit its replacement at this moment.
    val undone = before.filterNot(_.isCommitted).filter(Replacement.undo(_, fs))
    together(pathsOf(undone.flatMap(_.added).toSet))(fs.delete(_, false))
    Replacement.folders(location, fs).filter(_.getName < committed.folder.getName).foreach(fs.delete(_, true))
    Compat.updateStatistics(session, table)
    Compat.refresh(session, table.identifier)
  }

  /**
   * Returns the paths of the named files that belong to this table. A file outside the table's location belongs to the table only
   * if it is in one of the table's partitions. The record may be a copy that belongs to another table.
   */
  private def pathsOf(names: Set[String]): Seq[Path] = {
    val (below, elsewhere) = names.toSeq.partition(files.isBelow)
    lazy val folders = partitions.values.map(_.toUri.getPath).toSet
    (below ++ elsewhere.filter(name => folders(new Path(name).getParent.toString))).map(files.pathOf)
  }

  /** Returns the moves of all files of a staging table to their new paths in the table. */
  def moves(staged: CatalogTable): Seq[Move] = {
    def of(from: Path, to: Path, partition: Option[TablePartitionSpec], isNew: Boolean) = children(from).filter(BucketFiles.isData)
      .map(file => Move(file.getPath, fs.makeQualified(new Path(to, file.getPath.getName)), partition, isNew, file.getModificationTime))
    if (table.partitionColumnNames.isEmpty) of(new Path(staged.location), location, None, isNew = false) else {
      val folders = partitions
      folders.groupBy(_._2.toUri.getPath).find(_._2.size > 1).foreach { case (folder, of) =>
        throw refused(s"found ${of.size} partitions in the directory $folder", "a separate directory for each partition",
          "move the rows of each partition into a separate directory, for example with INSERT OVERWRITE, and run it again; nothing has been replaced")
      }
      together(catalog.listPartitions(staged.identifier)) { partition =>
        val folder = folders.get(partition.spec)
        of(new Path(partition.location), folder.getOrElse(defaultLocation(partition.spec)), Some(partition.spec), folder.isEmpty)
      }.flatten
    }
  }

  private def checkUnchanged(files: Seq[FileSnapshot]): Unit = {
    val now = together(files.map(_.path.getParent).distinct)(children).flatten.map(file => file.getPath.toUri.getPath -> file).toMap
    files.find { file =>
      !now.get(file.path.toUri.getPath).exists(found => found.getLen == file.bytes && found.getModificationTime == file.modified)
    }.foreach { file =>
      throw refused(s"${file.url} was changed or deleted since it was read", "no other write to its partition at the same time",
        "run it again; nothing has been replaced")
    }
  }

  /** Runs an action for all elements in parallel, because storage calls are slow. Waits until all actions have ended, even if one fails. */
  private def together[A, B](all: Seq[A])(act: A => B): Seq[B] =
    ThreadUtils.parmap(all, "replace-files", 16)(one => Try(act(one))).map(_.get)

  private def refused(found: String, expected: String, instead: String) = Compat.refusal(
    s"Cannot replace files of ${table.identifier.quotedString}: $found. Expected $expected. Instead: $instead.")

  private def rename(from: Path, to: Path): Unit = {
    fs.mkdirs(to.getParent)
    // If the target is an existing directory, a rename would move the source into this directory.
    if (fs.exists(to) || !fs.rename(from, to)) throw new java.io.IOException(s"$from cannot be renamed to $to")
  }

  /** Returns the locations of all partitions, with a single metastore call, like Spark's INSERT. */
  private def partitions: Map[TablePartitionSpec, Path] =
    if (table.partitionColumnNames.isEmpty) Map.empty
    else catalog.listPartitions(table.identifier).map(partition => partition.spec -> new Path(partition.location)).toMap

  private def defaultLocation(spec: TablePartitionSpec): Path =
    ExternalCatalogUtils.generatePartitionPath(spec, table.partitionColumnNames, location)

  /** Drops those partitions whose directories are in this set and have no files. */
  private def dropEmpty(folders: Seq[Path]): Unit = {
    val empty = folders.zip(together(folders)(children)).collect { case (folder, Seq()) => folder.toUri.getPath }.toSet
    val specs = if (empty.isEmpty) Nil else partitions.collect { case (spec, folder) if empty(folder.toUri.getPath) => spec }.toSeq
    if (specs.nonEmpty) catalog.dropPartitions(table.identifier, specs, ignoreIfNotExists = true, purge = false, retainData = false)
  }

  private def children(folder: Path): Seq[FileStatus] =
    (try fs.listStatus(folder).toSeq catch { case _: java.io.FileNotFoundException => Nil })
      .filterNot(file => BucketFiles.isHidden(file.getPath.getName))
}

/**
 * The move of a file from a staging table.
 *
 * @param partition the partition values, or None in an unpartitioned table
 * @param modified the modification time in milliseconds since 1970
 */
case class Move(from: Path, to: Path, partition: Option[TablePartitionSpec], isNewPartition: Boolean, modified: Long)

object FileReplacement {
  def of(session: SparkSession, name: TableIdentifier): FileReplacement =
    new FileReplacement(session, Compat.catalog(session).getTableMetadata(name))
}
