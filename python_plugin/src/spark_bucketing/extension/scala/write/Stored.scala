package org.apache.spark.sql.bucketing
package write

import scala.collection.mutable

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.{Compat, Tasks}
import org.apache.spark.sql.bucketing.read.PerQueryCache
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeRow}
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{LeafExecNode, LocalTableScanExec, QueryExecution, SparkPlan, UnionExec, WholeStageCodegenExec}
import org.apache.spark.sql.execution.exchange.BroadcastExchangeExec
import org.apache.spark.storage.StorageLevel

/**
 * Rows that a statement reads several times. It stores them, because a query that runs twice may return different rows. It stores few rows on the driver, where
 * Spark needs no job to filter them. If one of many stored rows is lost, the statement fails.
 *
 * @param runs whether to run the queries; EXPLAIN only plans them
 */
class Stored(session: SparkSession, runs: Boolean = true) extends AutoCloseable {

  private val all = mutable.ArrayBuffer.empty[RDD[_]]

  private def executed(plan: LogicalPlan): QueryExecution = {
    PerQueryCache.forget(plan)
    Compat.executed(session, plan)
  }

  /** Runs a plan whose expressions are resolved. */
  def rows(plan: LogicalPlan): RDD[InternalRow] = executed(plan).toRdd

  /** Runs such a plan, and returns the result of each partition. All rows on the driver are one partition. */
  def each[A](plan: LogicalPlan)(result: Iterator[InternalRow] => A): Seq[A] = {
    val query = executed(plan)
    Stored.onDriver(query.executedPlan).fold(Tasks.run(query.toRdd)((_, rows) => result(rows)))(rows => Seq(result(rows.iterator)))
  }

  /** Runs such a plan, and returns its rows as a relation: a LocalRelation if they are on the driver. */
  def store(plan: LogicalPlan): LogicalPlan = if (!runs) plan else {
    val query = executed(plan)
    Stored.onDriver(query.executedPlan).map(LocalRelation(plan.output, _)).getOrElse {
      val copies = persisted(query.toRdd)
      val (max, ofTask) = (BucketingConf.driverBytes, maxOfTask(copies))
      val parts = Tasks.run(copies)((_, rows) => StoredRows.of(rows, ofTask))
      if (max == 0 || parts.map(_.bytes).sum > max) related(plan.output, copies, parts)
      else {
        val rows = if (parts.forall(_.rows.nonEmpty)) parts.map(_.rows.get) else Tasks.run(copies)((_, rows) => rows.toArray)
        copies.unpersist(blocking = false)
        LocalRelation(plan.output, rows.flatten)
      }
    }
  }

  /** Runs such a plan, and returns its rows if each task has few. Otherwise, the tasks stop early. */
  def few(plan: LogicalPlan): Option[LogicalPlan] = {
    val query = executed(plan)
    Stored.onDriver(query.executedPlan).map(LocalRelation(plan.output, _)).orElse {
      val copies = query.toRdd.map(_.copy())
      val ofTask = maxOfTask(copies)
      val parts = Tasks.run(copies)((_, rows) => StoredRows.few(rows, ofTask))
      if (parts.forall(_.rows.nonEmpty)) Some(LocalRelation(plan.output, parts.flatMap(_.rows.get))) else None
    }
  }

  /** The rows that a job returns must not exceed the limit in total, however many tasks there are. */
  private def maxOfTask(rows: RDD[InternalRow]): Long = BucketingConf.driverBytes / math.max(1, rows.getNumPartitions)

  /** Returns rows as a relation with the same partitions. */
  def store(output: Seq[Attribute], rows: RDD[InternalRow]): LogicalPlan = {
    val copies = persisted(rows)
    related(output, copies, Tasks.run(copies)((_, rows) => StoredRows.of(rows, max = 0)))
  }

  private def persisted(rows: RDD[InternalRow]): RDD[InternalRow] = {
    val copies = rows.map(_.copy()).persist(StorageLevel.MEMORY_AND_DISK).localCheckpoint()
    all += copies
    copies
  }

  private def related(output: Seq[Attribute], rows: RDD[InternalRow], parts: Seq[StoredRows]): LogicalPlan =
    Compat.storedRows(session, output, rows, parts.map(_.bytes).sum)

  override def close(): Unit = all.foreach(_.unpersist(blocking = false))
}

object Stored {

  /** The name of the column that numbers the source rows of a MERGE. */
  val SourceId = "__spark_bucketing_source"

  /** Returns the rows of a plan if they are on the driver. */
  private def onDriver(plan: SparkPlan): Option[Seq[InternalRow]] = plan match {
    case scan: LocalTableScanExec => Some(scan.executeCollect().toSeq)
    case stage: WholeStageCodegenExec => onDriver(stage.child)
    case union: UnionExec =>
      val all = union.children.map(onDriver)
      if (all.forall(_.nonEmpty)) Some(all.flatMap(_.get)) else None
    case _ => None
  }
}

/** The size of the rows of a partition, and the rows if there are few. */
private case class StoredRows(bytes: Long, rows: Option[Array[InternalRow]])

private object StoredRows {
  private val UnknownBytes = 64L

  /** Measures all rows, and returns them if their size is at most the maximum. */
  def of(rows: Iterator[InternalRow], max: Long): StoredRows = {
    val first = few(rows, max)
    first.copy(bytes = first.bytes + rows.map(size).sum)
  }

  /** Reads rows until their size exceeds the maximum, and returns them if it does not. */
  def few(rows: Iterator[InternalRow], max: Long): StoredRows = {
    val found = mutable.ArrayBuffer.empty[InternalRow]
    var bytes = 0L
    while (bytes <= max && rows.hasNext) {
      found += rows.next()
      bytes += size(found.last)
    }
    StoredRows(bytes, if (bytes <= max) Some(found.toArray) else None)
  }

  private def size(row: InternalRow): Long = row match { case row: UnsafeRow => row.getSizeInBytes.toLong; case _ => UnknownBytes }
}

/** Broadcasts the source rows of a MERGE without a job if they are on the driver. */
object BroadcastSource extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan = plan.transform {
    case exchange: BroadcastExchangeExec => exchange.child match {
      case scan: LocalTableScanExec if scan.output.exists(_.name == Stored.SourceId) =>
        val rows = SourceScanExec(scan.output, scan.executeCollect().toSeq)
        // Adaptive execution needs the link to the logical plan.
        rows.copyTagsFrom(scan)
        exchange.withNewChildren(Seq(rows))
      case _ => exchange
    }
  }
}

/** Source rows on the driver. Spark's own operator starts a job to broadcast them. */
case class SourceScanExec(output: Seq[Attribute], @transient rows: Seq[InternalRow]) extends LeafExecNode {
  override private[spark] def executeCollectIterator(): (Long, Iterator[InternalRow]) = (rows.size.toLong, rows.iterator)
  override def executeCollect(): Array[InternalRow] = rows.toArray
  override protected def doExecute(): RDD[InternalRow] = sparkContext.parallelize(rows, 1)
  override def nodeName: String = "LocalTableScan"
  override protected def stringArgs: Iterator[Any] = Iterator(output)
}
