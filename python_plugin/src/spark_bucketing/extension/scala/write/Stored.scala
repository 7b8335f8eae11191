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
import org.apache.spark.sql.execution.{LeafExecNode, LocalTableScanExec, QueryExecution, SparkPlan}
import org.apache.spark.sql.execution.exchange.BroadcastExchangeExec
import org.apache.spark.storage.StorageLevel

/**
 * Rows that a statement reads several times. It stores them, because a query that runs twice may return different rows. Few rows are stored on the driver, where
 * Spark needs no job to filter or to broadcast them. If one of many stored rows is lost, the statement fails.
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
    query.executedPlan match {
      case local: LocalTableScanExec => Seq(result(local.executeCollect().iterator))
      case _ => Tasks.run(query.toRdd)((_, rows) => result(rows))
    }
  }

  /** Runs such a plan, and returns its rows as a relation. */
  def store(plan: LogicalPlan): LogicalPlan = if (!runs) plan else {
    val query = executed(plan)
    query.executedPlan match {
      case local: LocalTableScanExec => LocalRelation(plan.output, local.executeCollect().toSeq)
      case _ =>
        val (copies, parts) = persist(query.toRdd)
        if (parts.forall(_.rows.nonEmpty)) {
          copies.unpersist(blocking = false)
          LocalRelation(plan.output, parts.flatMap(_.rows.get))
        } else related(plan.output, copies, parts)
    }
  }

  /** Returns rows as a relation with the same partitions. */
  def store(output: Seq[Attribute], rows: RDD[InternalRow]): LogicalPlan = {
    val (copies, parts) = persist(rows)
    related(output, copies, parts)
  }

  private def persist(rows: RDD[InternalRow]): (RDD[InternalRow], Seq[StoredPart]) = {
    val copies = rows.map(_.copy()).persist(StorageLevel.MEMORY_AND_DISK).localCheckpoint()
    all += copies
    val onDriver = BucketingConf.driverBytes
    // The rows may be in few of many tasks.
    val limit = math.max(onDriver / math.max(1, rows.getNumPartitions), math.min(onDriver, Stored.MinBytesPerTask))
    copies -> Tasks.run(copies)((_, rows) => StoredPart.of(rows, limit))
  }

  private def related(output: Seq[Attribute], rows: RDD[InternalRow], parts: Seq[StoredPart]): LogicalPlan =
    Compat.storedRows(session, output, rows, parts.map(_.bytes).sum)

  override def close(): Unit = all.foreach(_.unpersist(blocking = false))
}

object Stored {
  private val MinBytesPerTask: Long = 64L << 10
}

/** The size of the rows of a partition, and the rows if there are few. */
private case class StoredPart(bytes: Long, rows: Option[Seq[InternalRow]])

private object StoredPart {
  private val UnknownBytes = 64L

  def of(rows: Iterator[InternalRow], limit: Long): StoredPart = {
    val few = mutable.ArrayBuffer.empty[InternalRow]
    var bytes = 0L
    rows.foreach { row =>
      bytes += (row match { case row: UnsafeRow => row.getSizeInBytes.toLong; case _ => UnknownBytes })
      if (bytes <= limit) few += row else few.clear()
    }
    StoredPart(bytes, if (bytes <= limit) Some(few.toSeq) else None)
  }
}

/** Broadcasts rows of the driver without a job. */
object BroadcastLocalRows extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan = if (!BucketingConf.enabled) plan else plan.transform {
    case exchange: BroadcastExchangeExec => exchange.child match {
      case local: LocalTableScanExec =>
        val rows = LocalRowsExec(local.output, local.executeCollect().toSeq)
        // Adaptive execution needs the link to the logical plan.
        rows.copyTagsFrom(local)
        exchange.withNewChildren(Seq(rows))
      case _ => exchange
    }
  }
}

/** Rows on the driver. Spark's own operator starts a job to broadcast them. */
case class LocalRowsExec(output: Seq[Attribute], @transient rows: Seq[InternalRow]) extends LeafExecNode {
  override private[spark] def executeCollectIterator(): (Long, Iterator[InternalRow]) = (rows.size.toLong, rows.iterator)
  override def executeCollect(): Array[InternalRow] = rows.toArray
  override protected def doExecute(): RDD[InternalRow] = sparkContext.parallelize(rows, 1)
  override def nodeName: String = "LocalTableScan"
  override protected def stringArgs: Iterator[Any] = Iterator(output)
}
