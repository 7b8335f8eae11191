package org.apache.spark.sql.bucketing
package write

import java.util.UUID

import org.apache.spark.TaskContext
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.read.BucketTasks
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project, Sort}

/**
 * Writes the new files of a statement, in one job.
 *
 * @param of the columns of the files
 * @param sortedBy the positions of the columns that the rows of a slot are sorted by
 * @param folders the directory of the files of each slot
 */
class WriteJob(
    session: SparkSession, opener: FileOpener, of: FileColumns, sortedBy: Seq[Int], routing: SlotRouting, slots: IndexedSeq[Slot], folders: Seq[String]) {

  /**
   * @param rows the rows to write
   * @param columns the columns of the table, among the columns of the rows
   * @param place the file of a row, whether the statement changes the row, and the values that determine its place, for the routing
   * @param distribute distributes rows so that one task has all rows of a slot. It gets the table's columns first. None to shuffle rows by slot
   */
  def run(
      stored: Stored, rows: LogicalPlan, columns: Seq[Attribute], place: Seq[Expression], distribute: Option[LogicalPlan => LogicalPlan] = None): Seq[NewFile] = {
    val slot = Alias(SlotOf(place, routing), "slot")()
    val project = Project(columns ++ Seq(slot, Alias(FileStatisticsWriter.hash(columns), "hash")(), Alias(place(1), "is_new")()), rows)
    def bySlot = RowsBySlot(slot.toAttribute, RowsBySlot.tasks(BucketTasks.cores(session), slots.map(_.bytes)), project)
    val sorts = (slot.toAttribute +: sortedBy.map(columns)).map(SortOrder(_, Ascending))
    val sorted = Sort(sorts, global = false, distribute.fold[LogicalPlan](bySlot)(_(project)))
    val writer = new NewFiles(opener, of, sorted.output.map(_.dataType).toArray, slots.toArray, folders.toArray, UUID.randomUUID.toString)
    session.sparkContext.runJob(stored.rows(sorted), (task: TaskContext, rows: Iterator[InternalRow]) => writer.write(task, rows)).toSeq.flatten
  }
}
