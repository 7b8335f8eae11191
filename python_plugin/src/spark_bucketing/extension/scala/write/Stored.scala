package org.apache.spark.sql.bucketing
package write

import scala.collection.mutable

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.read.PerQueryCache
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, UnsafeRow}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.storage.StorageLevel

/**
 * Rows that a statement reads several times. It stores them, because a query that runs twice may return different rows. If a stored row is lost, the
 * statement fails.
 *
 * @param runs whether to run the queries; EXPLAIN only plans them
 */
class Stored(session: SparkSession, runs: Boolean = true) extends AutoCloseable {

  private val all = mutable.ArrayBuffer.empty[RDD[_]]

  /** Runs a plan whose expressions are resolved. */
  def rows(plan: LogicalPlan): RDD[InternalRow] = {
    PerQueryCache.forget(plan)
    Compat.executed(session, plan).toRdd
  }

  def store(plan: LogicalPlan): LogicalPlan = if (runs) store(plan.output, rows(plan)) else plan

  def store(output: Seq[Attribute], rows: RDD[InternalRow]): LogicalPlan = {
    val copies = rows.map(_.copy()).persist(StorageLevel.MEMORY_AND_DISK).localCheckpoint()
    all += copies
    val bytes = copies.map { case row: UnsafeRow => row.getSizeInBytes.toLong; case _ => 64L }.fold(0L)(_ + _)
    Compat.storedRows(session, output, copies, bytes)
  }

  override def close(): Unit = all.foreach(_.unpersist(blocking = false))
}
