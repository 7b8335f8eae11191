package org.apache.spark.sql.bucketing
package write

import java.util.UUID

import org.apache.spark.sql.{AnalysisException, SparkSession}
import org.apache.spark.sql.bucketing.compat.{Compat, Tasks}
import org.apache.spark.sql.bucketing.hash.{SaltedPartitioning, PartitionScheme}
import org.apache.spark.sql.bucketing.read.BucketTasks
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project, Sort, UnaryNode}
import org.apache.spark.sql.types.{ArrayType, DataType, IntegerType}

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
    Tasks.run(stored.rows(sorted))((task, rows) => writer.write(task, rows)).flatten
  }
}

/** Finds the slot of a row. */
trait SlotRouting extends Serializable {

  def isDeterministic: Boolean = true

  /**
   * @param file the file of the row; -1 for an inserted row
   * @param isNew whether the statement changes the row
   * @param place the values of the columns that determine its place
   */
  def slotOf(file: Int, isNew: Boolean, place: => Seq[Any]): Int

  protected def unexpected: AnalysisException = Compat.refusal("Cannot write the changed rows of the table. Nothing has been replaced.",
    "a source row that changed while the statement ran", "source rows that stay the same", "run it again when no other process changes its source tables")
}

/** The slot of a row, from its file, whether it is new, and the values of the columns that determine its place. */
case class SlotOf(children: Seq[Expression], routing: SlotRouting) extends Expression with CodegenFallback {
  override lazy val deterministic: Boolean = routing.isDeterministic && children.forall(_.deterministic)
  override def nullable: Boolean = false
  override def dataType: DataType = IntegerType
  override def eval(row: InternalRow): Any =
    routing.slotOf(children.head.eval(row).asInstanceOf[Int], children(1).eval(row).asInstanceOf[Boolean], children.drop(2).map(_.eval(row)))
  override protected def withNewChildrenInternal(changed: IndexedSeq[Expression]): Expression = copy(children = changed)
}

/**
 * Distributes rows over tasks by slot.
 *
 * @param tasks the task of each slot, ascending
 */
case class RowsBySlot(slot: Attribute, tasks: Seq[Int], child: LogicalPlan) extends UnaryNode {
  override def output: Seq[Attribute] = child.output
  override protected def withNewChildInternal(changed: LogicalPlan): LogicalPlan = copy(child = changed)
}

object RowsBySlot {
  private val TasksPerCore = 3
  private val BytesPerTask: Long = 128L << 20

  /** Returns the preferred number of tasks. Few tasks write many small files, and each core has several tasks. */
  def preferredTasks(cores: Int, bytes: Double): Long = math.max(TasksPerCore * cores, (bytes / BytesPerTask).toLong).max(1)

  /** Returns the task of each slot, from the sizes of the slots. */
  def tasks(cores: Int, bytes: Seq[Double]): Seq[Int] = {
    val total = bytes.sum
    val size = math.max(1, total / preferredTasks(cores, total))
    bytes.scanLeft(0.0)(_ + _).init.map(before => (before / size).toLong).foldLeft((Vector.empty[Int], -1L, -1)) { case ((all, last, task), place) =>
      val next = if (place == last) task else task + 1
      (all :+ next, place, next)
    }._1
  }
}

private class SlotPartitioning(slot: Expression, tasks: Seq[Int]) extends SaltedPartitioning(Seq(slot), SlotScheme(tasks), tasks.last + 1) {
  override protected def like(keys: Seq[Expression], n: Int): SlotPartitioning = new SlotPartitioning(keys.head, tasks)
}

private case class SlotScheme(tasks: Seq[Int]) extends PartitionScheme {
  override def partitionId(keys: Seq[Expression], n: Int): Expression =
    GetArrayItem(Literal.create(tasks, ArrayType(IntegerType, containsNull = false)), keys.head)
}
