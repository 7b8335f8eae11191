package org.apache.spark.sql.bucketing
package dml

import scala.collection.mutable

import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.sql.{AnalysisException, SparkSession}
import org.apache.spark.sql.bucketing.compat.Tasks
import org.apache.spark.sql.bucketing.metadata.{SealedSpec, StatementScope}
import org.apache.spark.sql.bucketing.write._
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.types._

/** The new files of a statement, which replace the touched files. */
abstract class FileRewrite(session: SparkSession, statement: ChangeRows, snapshot: TableSnapshot, changed: RowQueries, touched: Touched) {

  protected val depth: Int = snapshot.partition.size
  protected val target: Seq[Attribute] = statement.target.output

  /** The touched files. */
  def old: Seq[TableFile]

  /** The touched files some of whose rows stay. */
  protected def read: Seq[TableFile]

  protected def slots: IndexedSeq[Slot]
  protected def routing: SlotRouting

  /** The columns that the rows of a slot are sorted by. */
  protected def order: Seq[StructField]

  protected def columns: FileColumns

  /** Throws an error if the numbers of written rows are not as expected. */
  protected def checkWritten(files: Seq[NewFile]): Unit

  /** Reads the touched files again, and compares the rows that stay with the new files. */
  def check(files: Seq[NewFile], stored: Stored): Unit

  /** Writes what the table records about the new files, before the commit. */
  def record(files: Seq[NewFile], folder: Path, written: Seq[FileStatus]): Unit = ()

  /**
   * Writes what the metastore records about the new files, after the commit.
   *
   * @param folder the directory of the statement's record
   */
  def committed(files: Seq[NewFile], folder: Path, written: Seq[FileStatus]): Unit = ()

  /** The bucket spec of the new files, if they can be sealed. */
  protected def sealedAs: Option[SealedSpec] = None

  /**
   * Returns the partitions that the statement depends on. A statement that inserts rows depends on the absence of matching rows, so that it conflicts with new
   * partitions, too, unless its filters name the partitions.
   *
   * @param filters the conditions that selected the partitions
   */
  def scope(filters: Seq[Expression], files: Seq[NewFile]): StatementScope = {
    val spec = sealedAs.filter(_ => !files.exists(_.hasOldDates)).map(SealWriter.textOf)
    val own = files.map(file => specOf(slots(file.slot).partition)).distinct
    val read = if (statement.notMatched.isEmpty) snapshot.files.map(_.cell.group.take(depth)).distinct.map(specOf) else named(filters)
    val readsItself = statement.hasSubqueries || AtomicInsert.relationsOf(statement.source, snapshot.table).nonEmpty
    StatementScope(statement.nodeName, if (readsItself) Seq(StatementScope.Whole) else StatementScope.namesOf(snapshot.table, own ++ read), spec)
  }

  /** Returns the values of the leading partition columns that filters list. */
  private def named(filters: Seq[Expression]): Seq[TablePartitionSpec] = {
    val values = snapshot.partition.map { column =>
      val of: Expression => Boolean = { case found: Attribute => found.name.equalsIgnoreCase(column.name); case _ => false }
      column -> filters.collectFirst {
        case EqualTo(left, Literal(value, _)) if of(left) => Seq(value)
        case EqualTo(Literal(value, _), right) if of(right) => Seq(value)
        case In(value, list) if of(value) && list.forall(_.isInstanceOf[Literal]) => list.map(_.asInstanceOf[Literal].value)
        case InSet(value, set) if of(value) => set.toSeq
      }
    }.takeWhile(_._2.isDefined)
    val leading = StructType(values.map(_._1))
    values.flatMap(_._2).foldLeft(Seq(Seq.empty[Any]))((prefixes, next) => for (prefix <- prefixes; value <- next) yield prefix :+ value)
      .map(key => GroupKey.specOf(leading, GroupKey.of(key), statement.files.options))
  }

  def isEmpty: Boolean = slots.isEmpty && old.isEmpty

  /** Writes the rows into a directory, in one job. */
  def write(folder: Path, stored: Stored): Seq[NewFile] = {
    val files = if (read.isEmpty && touched.changes.inserted == 0) Nil else {
      val numbers = slots.map(_.partition).distinct.zipWithIndex.toMap
      val folders = slots.map(slot => new Path(folder, numbers(slot.partition).toString).toString)
      val opener = FileOpener(session, statement.files.fileFormat, statement.files.options, statement.files.dataSchema.asNullable)
      val content = changed.content(read, touched.unmatched, byBucket.getOrElse(identity))
      val (rows, place) = content.output.splitAt(target.size)
      new WriteJob(session, opener, columns, order.map(at), routing, slots, folders).run(stored, content, rows, place, byBucket)
    }
    val (written, expected) = (files.map(file => file.sums.rows - file.sums.kept).sum, touched.changes.updated + touched.changes.inserted)
    if (written != expected) throw refused(s"$written changed rows", s"$expected changed rows, as counted before the write",
      "use subqueries that always return the same rows, e.g. without TABLESAMPLE, and run it again")
    checkWritten(files)
    files
  }

  /** Distributes rows, whose first columns are those of the target, so that one task has all rows of a bucket. None to distribute them by slot. */
  protected def byBucket: Option[LogicalPlan => LogicalPlan] = None

  protected def at(column: StructField): Int = target.indexWhere(_.name.equalsIgnoreCase(column.name))

  /** The positions of the data columns. */
  protected def data: Seq[Int] = statement.files.dataSchema.map(at)

  /** The directories of the partitions that have files. */
  private lazy val folders: Map[Seq[Any], Path] = snapshot.files.map(file => file.cell.group.take(depth) -> file.status.getPath.getParent).toMap

  def move(file: NewFile, replacement: FileReplacement): FileMove = {
    val (from, partition) = (new Path(file.path), slots(file.slot).partition)
    if (depth == 0) replacement.moveTo(from, Map.empty, from.getName)
    else folders.get(partition).fold(replacement.moveTo(from, specOf(partition), from.getName))(folder => FileMove(from, new Path(folder, from.getName), None, isNewPartition = false))
  }

  protected def specOf(values: Seq[Any]): TablePartitionSpec = GroupKey.specOf(snapshot.partition, values, statement.files.options)

  /** Reads files again. Returns the row counts and hashes of each file. */
  protected def sums(files: Seq[TableFile], stored: Stored): Map[Int, FileSums] = {
    val isKept = changed.isUpdate.indices.map(_ == 0)
    val counted = Tasks.run(stored.rows(changed.hashed(files))) { (_, rows) =>
      val sums = mutable.HashMap.empty[Int, FileSum]
      rows.foreach(row => sums.getOrElseUpdate(row.getInt(0), new FileSum).add(row.getLong(2), isKept(row.getInt(1))))
      sums.toSeq.map { case (file, sum) => file -> sum.value }
    }.flatten.groupBy(_._1).map { case (file, of) => file -> of.map(_._2).reduce(_ + _) }
    counted.withDefaultValue(FileSums.Zero)
  }

  /** Throws an error for problems, which have numbers. */
  protected def refuse(instead: String, problems: (Int, String)*): Unit = {
    val found = problems.filter(_._1 > 0).map { case (number, words) => s"$number $words" }
    if (found.nonEmpty) throw refused(found.mkString("; "), "the rows of the replaced files, merged with the new rows", instead)
  }

  private def refused(found: String, expected: String, instead: String): AnalysisException =
    ResolveRowChanges.refusal(snapshot.table.identifier.quotedString, s"$found; the table is unchanged", expected, instead)
}

object FileRewrite {
  def of(session: SparkSession, statement: ChangeRows, snapshot: TableSnapshot, changed: RowQueries, touched: Touched): FileRewrite = snapshot match {
    case organized: OrganizedSnapshot => new RangeRewrite(session, statement, organized, changed, touched)
    case bucketed: BucketedSnapshot => new BucketRewrite(session, statement, bucketed, changed, touched)
  }
}
