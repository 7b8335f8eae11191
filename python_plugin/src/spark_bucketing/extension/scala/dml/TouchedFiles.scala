package org.apache.spark.sql.bucketing
package dml

import java.util.BitSet

import scala.collection.mutable

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.ddl.MergeChecks
import org.apache.spark.sql.bucketing.read.FixedFiles
import org.apache.spark.sql.bucketing.write.{GroupKey, Stored}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.errors.QueryExecutionErrors
import org.apache.spark.sql.execution.SparkPlan

/**
 * What a statement touches.
 *
 * @param changes the numbers of changed rows by file and by place
 * @param unmatched the stored source rows that match no row of the target, if the statement inserts rows
 * @param searched the number of files whose rows the statement has compared
 */
case class Touched(changes: ChangeCounts, unmatched: Option[LogicalPlan], searched: Int)

/**
 * Finds the files that a statement touches. First it prunes files by their statistics, with the conditions on the target and with the keys of the
 * source. Then it joins the rows of the remaining files with the source.
 */
class TouchedFiles(statement: ChangeRows, snapshot: TableSnapshot, stored: Stored, source: Option[SourceRows]) {

  val rows = new RowQueries(statement, snapshot, source)

  def find(): Touched = {
    val files = candidates
    val checksKeys = statement.checks(MergeChecks.Keys) || statement.checks(MergeChecks.Files)
    // The pairs of few source rows are probably few, too. The driver then counts them.
    val pairs = if (files.isEmpty) None
      else if (statement.notMatched.nonEmpty || checksKeys) Some(stored.store(rows.matches(files)))
      else if (source.exists(_.isOnDriver) && statement.notMatchedBySource.isEmpty) stored.few(rows.matches(files))
      else None
    if (checksKeys) checkKeys(pairs)
    val unmatched = if (statement.notMatched.isEmpty) None else Some(pairs.fold(rows.unmatched)(of => stored.store(rows.unmatched(of))))
    val found = count(rows.changes(files, pairs, unmatched))
    if (found.isAmbiguous && statement.needsOneMatch) throw QueryExecutionErrors.mergeCardinalityViolationError()
    Touched(found, unmatched, files.size)
  }

  /** Checks that no two rows of the source, and no two rows of the table for a row of the source, have the same join keys. */
  private def checkKeys(pairs: Option[LogicalPlan]): Unit = if (statement.keys.nonEmpty) {
    rows.repeatedKey.flatMap(first).foreach { key =>
      throw refused(s"several new rows with the key $key", "at most one new row for each key", "keep one row per key in the source, e.g. with row_number()")
    }
    pairs.flatMap(rows.keyOfSeveralRows).flatMap(first).foreach { key =>
      throw refused(s"several rows of the table that match the new row with the key $key", "at most one row of the table for each key",
        "use other join keys, or remove the duplicates from the table")
    }
  }

  private def first(plan: LogicalPlan): Option[String] = stored.rows(plan).take(1).headOption.map(_.getString(0))

  private def refused(found: String, expected: String, instead: String) = Compat.refusal(
    s"Cannot merge into ${snapshot.table.identifier.quotedString}.", s"$found; the table is unchanged", expected, instead)

  /** Counts changed rows in tasks, and adds the counts on the driver. */
  private def count(plan: LogicalPlan): ChangeCounts = {
    val (places, isUpdate, sampleStep) = (snapshot.places, rows.isUpdate, snapshot.sampleStep)
    // The columns of the place follow the row's file, its action and the number of its source rows.
    val columns = plan.output.map(_.dataType).zipWithIndex.drop(3)
    stored.each(plan) { rows =>
      val changes = new ChangeCounts(isUpdate)
      rows.foreach { row =>
        if (changes.change(row.getInt(0), row.getInt(1), row.getLong(2))) {
          val values = columns.map { case (dataType, i) => row.get(i, dataType) }
          changes.addTo(places.cellOf(values), values.lastOption.orNull, sampleStep)
        }
      }
      changes
    }.foldLeft(new ChangeCounts(isUpdate))(_ add _)
  }

  /** The files that neither the conditions on the target nor the keys of the source rule out. */
  private def candidates: Seq[TableFile] = if (statement.notMatchedBySource.nonEmpty) snapshot.files else withKeys(fitting)

  /** The files that the conditions on the target do not rule out. */
  def fitting: Seq[TableFile] = if (statement.notMatchedBySource.nonEmpty) snapshot.files else if (statement.conditions.contains(Literal.FalseLiteral)) Nil else {
    val mayMatch = snapshot.mayMatch(statement.pruning)
    val partitions = FixedFiles.predicate(snapshot.partition, statement.pruning.filter(_.references.subsetOf(statement.partitionColumns)))
    snapshot.files.filter(file => partitions(file.partition) && mayMatch(file))
  }

  private def withKeys(files: Seq[TableFile]): Seq[TableFile] = {
    def key(name: String) = statement.pruningKeys.collectFirst { case (column, value) if column.name.equalsIgnoreCase(name) => value }
    snapshot.lookup(files, key).fold(files) { case KeyLookup(lookup, groups, range) =>
      val output = source.get.plan.output
      val keys = (groups ++ range).map(BindReferences.bindReference(_, AttributeSeq(output)))
      val number = groups.size
      val found = new BitSet
      stored.each(source.get.plan) { rows =>
        val some = new BitSet
        rows.foreach { row =>
          val values = keys.map(_.eval(row))
          if (!values.contains(null)) lookup.add(GroupKey.of(values.take(number)), values.drop(number).headOption.orNull, some)
        }
        some
      }.foreach(found.or)
      lookup.always.foreach(found.set(_))
      files.filter(file => found.get(file.id))
    }
  }
}

object TouchedFiles {

  /** Describes how a statement finds its files: a text about pruned files, and the plan of the join. Runs no query. */
  def explain(session: SparkSession, statement: ChangeRows): (String, SparkPlan) = {
    val snapshot = TableSnapshot.now(session, Compat.current(session, statement.table), statement, statement.partitionFilters)
    val stored = new Stored(session, runs = false)
    val touching = new TouchedFiles(statement, snapshot, stored, SourceRows.of(statement, stored))
    val found = touching.fitting
    val plan = if (statement.isMerge) touching.rows.matches(found) else touching.rows.changes(found, None, None)
    val keys = if (statement.isMerge) ", before the keys of the source are compared" else ""
    val partitions = found.map(_.cell.group.take(snapshot.partition.size)).distinct.size
    // The snapshot has only the files of the partitions that the statement lists.
    val in = if (snapshot.partition.isEmpty) "" else s" in $partitions of ${Compat.catalog(session).listPartitionNames(snapshot.table.identifier).size} partitions"
    (s"reads ${found.size} of ${snapshot.files.size} listed files$in$keys", Compat.executed(session, plan).executedPlan)
  }
}

/** New rows of a range. */
class Added extends Serializable {
  var rows = 0L
  val samples = mutable.ArrayBuffer.empty[Any]
}

/** Numbers of changed rows: removed ones by file, and added ones by range. */
class ChangeCounts(isUpdate: IndexedSeq[Boolean]) extends Serializable {
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

  /** Counts a new row, and keeps one of so many values as a sample, if samples are needed. */
  def addTo(cell: Cell, value: Any, step: Option[Long]): Unit = {
    val of = added.getOrElse(cell, {
      val made = new Added
      added(cell.copy(group = GroupKey.copied(cell.group))) = made
      made
    })
    of.rows += 1
    if (value != null && step.exists(of.rows % _ == 0)) of.samples += InternalRow.copyValue(value)
  }

  def add(other: ChangeCounts): ChangeCounts = {
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
    this
  }
}
