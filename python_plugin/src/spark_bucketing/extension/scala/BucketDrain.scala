package org.apache.spark.sql.bucketing

import java.util.concurrent.{ConcurrentHashMap, ConcurrentLinkedQueue}
import java.util.concurrent.atomic.AtomicLong

import scala.jdk.CollectionConverters._

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.joins.{ShuffledHashJoinExec, SortMergeJoinExec}

/**
 * Reads the inputs of a join to their end when the join itself is done. It stops reading one side when the other side
 * ends, and behind that point may lie a row out of place, which would have had a match: the check has to see it.
 *
 * {{{
 *   BucketDrain
 *   +- SortMergeJoin
 *      :- BucketDrainInput
 *      :  +- BucketCheck
 *      +- Sort
 *         +- BucketDrainInput
 *            +- BucketCheck
 * }}}
 *
 * @param join an id that the join's inputs have as well
 */
case class BucketDrainExec(join: Long, child: SparkPlan) extends UnaryExecNode with CodegenSupport {

  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override def needCopyResult: Boolean = child.asInstanceOf[CodegenSupport].needCopyResult
  override def inputRDDs(): Seq[RDD[InternalRow]] = child.asInstanceOf[CodegenSupport].inputRDDs()
  override protected def doCanonicalize(): SparkPlan = child.canonicalized

  // What follows the loop over the child's rows runs when the loop has ended by itself, and not when it pauses.
  override protected def doProduce(ctx: CodegenContext): String = {
    val join = ctx.addReferenceObj("join", BucketDrain(this.join))
    val inputs = ctx.addMutableState(classOf[DrainedInputs].getName, "inputs", v => s"$v = $join.claim();")
    s"""
       |${child.asInstanceOf[CodegenSupport].produce(ctx, this)}
       |$inputs.drain();
     """.stripMargin
  }

  override def doConsume(ctx: CodegenContext, input: Seq[ExprCode], row: ExprCode): String = consume(ctx, input)

  override protected def doExecute(): RDD[InternalRow] = {
    val drain = BucketDrain(join)
    child.execute().mapPartitionsInternal { rows =>
      val inputs = drain.claim()
      new Iterator[InternalRow] {
        override def hasNext: Boolean = rows.hasNext || { inputs.drain(); false }
        override def next(): InternalRow = rows.next()
      }
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): BucketDrainExec = copy(child = newChild)
}

/**
 * What is read to its end for the joins with these ids. It lies below their sorts, whose memory is gone by then, and below
 * inner joins, which may have stopped as well.
 */
case class BucketDrainInputExec(joins: Seq[Long], child: SparkPlan) extends UnaryExecNode {

  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override protected def doCanonicalize(): SparkPlan = child.canonicalized

  override protected def doExecute(): RDD[InternalRow] = {
    val drains = joins.map(BucketDrain(_))
    child.execute().mapPartitionsInternal { rows =>
      drains.foreach(_.add(rows))
      rows
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): BucketDrainInputExec = copy(child = newChild)
}

/** The inputs of a join in one task, to be read to their end. */
class DrainedInputs(inputs: Iterable[Iterator[InternalRow]]) {

  def drain(): Unit = inputs.foreach { rows =>
    while (rows.hasNext) {
      rows.next()
      TaskContext.get().killTaskIfInterrupted()
    }
  }
}

/**
 * Hands the inputs of a join over to its drain. A task opens the inputs of a join and then the join itself, which claims
 * them at once: should the task read the same join a second time, as a Cartesian product of an RDD with itself does
 * while the first one is still open, each has its own.
 */
case class BucketDrain(join: Long) {
  import BucketDrain.opened

  private def key: (Long, Long) = (TaskContext.get().taskAttemptId(), join)

  def add(rows: Iterator[InternalRow]): Unit = {
    val task = key
    opened.computeIfAbsent(task, _ => {
      TaskContext.get().addTaskCompletionListener[Unit](_ => opened.remove(task))
      new ConcurrentLinkedQueue[Iterator[InternalRow]]()
    }).add(rows)
  }

  def claim(): DrainedInputs = new DrainedInputs(Option(opened.remove(key)).fold(Seq.empty[Iterator[InternalRow]])(_.asScala.toSeq))
}

object BucketDrain {
  private val opened = new ConcurrentHashMap[(Long, Long), ConcurrentLinkedQueue[Iterator[InternalRow]]]()
  private val ids = new AtomicLong

  /**
   * Puts drains around the joins that read checked buckets in their own stage.
   *
   * @param joins the joins above in the same stage
   */
  def around(plan: SparkPlan, joins: List[Long] = Nil): SparkPlan = plan match {
    case done @ (_: BucketDrainExec | _: BucketDrainInputExec) => done
    case _ if !readsBuckets(plan) => plan.mapChildren(around(_))
    case join if isJoin(join) =>
      val id = ids.incrementAndGet()
      BucketDrainExec(id, join.mapChildren(around(_, id :: joins)))
    case pipeline if joins.nonEmpty && !pipeline.exists(node => isJoin(node) || node.isInstanceOf[SortExec]) =>
      BucketDrainInputExec(joins, pipeline)
    case other => other.mapChildren(around(_, joins))
  }

  private def isJoin(plan: SparkPlan): Boolean = plan match {
    case _: SortMergeJoinExec | _: ShuffledHashJoinExec => true
    case _ => false
  }

  private def readsBuckets(plan: SparkPlan): Boolean = plan match {
    case _: BucketCheckExec => true
    case _: Exchange => false
    case other => other.children.exists(readsBuckets)
  }
}
