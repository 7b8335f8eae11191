package org.apache.spark.sql.bucketing
package dml

import java.util.BitSet

import scala.collection.mutable

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.ddl.MergeChecks
import org.apache.spark.sql.bucketing.read.FileRangeFilter
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.errors.QueryExecutionErrors
import org.apache.spark.sql.execution.SparkPlan

/** The numbers of rows that a statement changes. */
case class RowCounts(updated: Long, deleted: Long, inserted: Long)

/**
 * The files and ranges that a statement touches.
 *
 * @param ranges the touched ranges, and the other ranges of the same groups
 * @param unmatched the stored source rows that match no row of the target, if the statement inserts rows
 * @param searched the number of files whose rows the statement has compared
 */
case class Touched(ranges: Seq[RangeRows], counts: RowCounts, unmatched: Option[LogicalPlan], searched: Int)

/**
 * Finds the files that a statement touches. First it prunes files by their statistics, with the conditions on the target and with the keys of the
 * source. Then it joins the rows of the remaining files with the source.
 */
class TouchedFiles(session: SparkSession, statement: ChangeRows, snapshot: TableSnapshot, stored: Stored, source: Option[SourceRows]) {

  val rows = new ChangedRows(statement, snapshot.columns, source)
  private val groupColumns = snapshot.columns.partition.size + snapshot.columns.implicitPartition.size
  private val hasRange = snapshot.columns.organized.nonEmpty

  def find(): Touched = {
    val files = candidates
    val checksKeys = statement.checks(MergeChecks.Keys) || statement.checks(MergeChecks.Files)
    val pairs = if (statement.notMatched.isEmpty && !checksKeys) None else Some(stored.store(rows.matches(files)))
    if (checksKeys) pairs.foreach(checkKeys)
    val unmatched = pairs.filter(_ => statement.notMatched.nonEmpty).map(of => stored.store(rows.unmatched(of)))
    val found = count(rows.changes(files, pairs, unmatched))
    if (found.isAmbiguous && statement.needsOneMatch) throw QueryExecutionErrors.mergeCardinalityViolationError()
    Touched(ranges(found), RowCounts(found.updated, found.deleted, found.inserted), unmatched, files.size)
  }

  /** Checks that no two rows of the source, and no two rows of the table for a row of the source, have the same join keys. */
  private def checkKeys(pairs: LogicalPlan): Unit = if (rows.keys.nonEmpty) {
    rows.repeatedKey.flatMap(first).foreach { key =>
      throw refused(s"several new rows of the key $key", "at most one new row of each key", "keep one row per key in the source, e.g. with row_number()")
    }
    rows.keyOfSeveralRows(pairs).flatMap(first).foreach { key =>
      throw refused(s"several rows of the table for the new row of the key $key", "at most one row per key in the table",
        "use other join keys, or remove the duplicates from the table")
    }
  }

  private def first(plan: LogicalPlan): Option[String] = stored.rows(plan).take(1).headOption.map(_.getString(0))

  private def refused(found: String, expected: String, instead: String) = Compat.refusal(
    s"Cannot merge into ${snapshot.table.identifier.quotedString}.", s"$found; the table is unchanged", expected, instead)

  /** Counts changed rows in tasks, and adds the counts on the driver. */
  private def count(plan: LogicalPlan): Changes = {
    val (snapshotRanges, isUpdate, group, types) = (snapshot.ranges, rows.isUpdate, groupColumns, plan.output.map(_.dataType))
    // The place of a row follows its file, its action and the number of its source rows.
    val (at, isRanged, step) = (3, hasRange, math.max(1, snapshot.rowsPerFile / Changes.SamplesPerFile))
    val counted = stored.rows(plan).mapPartitions { found =>
      val changes = new Changes(isUpdate)
      found.foreach { row =>
        if (changes.change(row.getInt(0), row.getInt(1), row.getLong(2))) {
          val key = GroupKey.of((0 until group).map(i => row.get(at + i, types(at + i))))
          val value = if (isRanged) row.get(at + group, types(at + group)) else null
          changes.addTo(Cell(key, snapshotRanges.rangeOf(key, value)), value, step)
        }
      }
      Iterator(changes)
    }.collect()
    counted.foldLeft(new Changes(isUpdate)) { (all, some) => all.add(some); all }
  }

  /** The files that neither the conditions on the target nor the keys of the source rule out. */
  private def candidates: Seq[TableFile] = if (statement.notMatchedBySource.nonEmpty) snapshot.files else withKeys(fitting)

  /** The files that the conditions on the target do not rule out. */
  def fitting: Seq[TableFile] = if (statement.notMatchedBySource.nonEmpty) snapshot.files else {
    val mayMatch = FileRangeFilter.mayMatch(rows.pruning)
    val partitions = partitionFilter(rows.pruning)
    def fits(file: TableFile) = partitions(file.partition) && file.known.forall(mayMatch)
    snapshot.files.filter(fits)
  }

  private def partitionFilter(conditions: Seq[Expression]): InternalRow => Boolean = {
    val columns = snapshot.columns.partition
    def at(column: Expression) = column match { case of: Attribute => columns.indexWhere(_.name.equalsIgnoreCase(of.name)); case _ => -1 }
    conditions.filter(_.references.forall(at(_) >= 0)).reduceOption(And).fold((_: InternalRow) => true) { condition =>
      val bound = Predicate.createInterpreted(condition.transform {
        case of: AttributeReference => BoundReference(at(of), columns(at(of)).dataType, nullable = true)
      })
      bound.eval(_)
    }
  }

  private def withKeys(files: Seq[TableFile]): Seq[TableFile] = {
    val names = snapshot.columns.partition.fieldNames ++ snapshot.columns.implicitPartition.fieldNames
    def key(name: String) = rows.pruningKeys.collectFirst { case (column, value) if column.name.equalsIgnoreCase(name) => value }
    val groups = names.indices.flatMap(i => key(names(i)).map(i -> _))
    val range = snapshot.columns.organized.headOption.flatMap(column => key(column.name).map(column -> _))
    if (groups.isEmpty && range.isEmpty) files else {
      val lookup = KeyCandidates(files, groups.map(_._1), range.map(_._1))
      val output = source.get.plan.output
      val keys = (groups.map(_._2) ++ range.map(_._2)).map(BindReferences.bindReference(_, AttributeSeq(output)))
      val number = groups.size
      val found = stored.rows(source.get.plan).mapPartitions { rows =>
        val files = new BitSet
        rows.foreach { row =>
          val values = keys.map(_.eval(row))
          if (!values.contains(null)) lookup.add(GroupKey.of(values.take(number)), values.drop(number).headOption.orNull, files)
        }
        Iterator(files)
      }.collect()
      val all = found.foldLeft(new BitSet) { (all, some) => all.or(some); all }
      lookup.always.foreach(all.set(_))
      files.filter(file => all.get(file.id))
    }
  }

  private def ranges(changes: Changes): Seq[RangeRows] = {
    val removed = changes.removed.toMap
    val groups = changes.added.keySet.map(_.group) ++ removed.keys.map(snapshot.files(_).cell.group)
    val byCell = snapshot.files.filter { file =>
      groups(file.cell.group) && (file.cell.range != Cell.Unknown || removed.contains(file.id))
    }.groupBy(_.cell)
    (byCell.keySet ++ changes.added.keySet).toSeq.map { cell =>
      val files = byCell.getOrElse(cell, Nil)
      val added = changes.added.get(cell)
      RangeRows(cell, files, files.flatMap(file => removed.get(file.id)).sum, !files.exists(file => changes.rewritten(file.id)), added.fold(0L)(_.rows), added.fold(Seq.empty[Any])(_.samples.toSeq))
    }
  }
}

object TouchedFiles {

  /** Describes how a statement finds its files: a text about pruned files, and the plan of the join. Runs no query. */
  def explain(session: SparkSession, statement: ChangeRows): (String, SparkPlan) = {
    val snapshot = TableSnapshot.now(session, Compat.current(session, statement.table), statement.files)
    val stored = new Stored(session, runs = false)
    val touching = new TouchedFiles(session, statement, snapshot, stored, stored.source(statement))
    val found = touching.fitting
    val plan = if (statement.isMerge) touching.rows.matches(found) else touching.rows.changes(found, None, None)
    val keys = if (statement.isMerge) ", before the keys of the source are compared" else ""
    (s"reads ${found.size} of ${snapshot.files.size} files$keys", Compat.executed(session, plan).executedPlan)
  }
}

/** New rows of a range. */
private class Added extends Serializable {
  var rows = 0L
  val samples = mutable.ArrayBuffer.empty[Any]
}

/** Numbers of changed rows: removed ones by file, and added ones by range. */
private class Changes(isUpdate: IndexedSeq[Boolean]) extends Serializable {
  var (updated, deleted, inserted) = (0L, 0L, 0L)
  var isAmbiguous = false
  val removed = mutable.HashMap.empty[Int, Long]
  /** The files with updated rows. */
  val rewritten = mutable.HashSet.empty[Int]
  val added = mutable.HashMap.empty[Cell, Added]

  /** Counts a row of the target, or a row to insert, which has no file. Returns whether the table gets a new row for it. */
  def change(file: Int, action: Int, matches: Long): Boolean = {
    if (matches > 1) isAmbiguous = true
    if (file < 0) inserted += 1
    else if (action > 0) {
      removed(file) = removed.getOrElse(file, 0L) + 1
      if (isUpdate(action)) {
        updated += 1
        rewritten += file
      } else deleted += 1
    }
    file < 0 || isUpdate(action)
  }

  /** Counts a new row, and keeps one of so many values as a sample. */
  def addTo(cell: Cell, value: Any, step: Long): Unit = {
    val of = added.getOrElse(cell, {
      val made = new Added
      added(cell.copy(group = GroupKey.copied(cell.group))) = made
      made
    })
    of.rows += 1
    if (value != null && of.rows % step == 0) of.samples += InternalRow.copyValue(value)
  }

  def add(other: Changes): Unit = {
    updated += other.updated
    deleted += other.deleted
    inserted += other.inserted
    isAmbiguous ||= other.isAmbiguous
    rewritten ++= other.rewritten
    other.removed.foreach { case (file, rows) => removed(file) = removed.getOrElse(file, 0L) + rows }
    other.added.foreach { case (cell, of) =>
      val all = added.getOrElseUpdate(cell, new Added)
      all.rows += of.rows
      all.samples ++= of.samples
    }
  }
}

private object Changes {
  val SamplesPerFile = 20L
}
