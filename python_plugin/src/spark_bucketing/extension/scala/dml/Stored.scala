package org.apache.spark.sql.bucketing
package dml

import scala.collection.mutable

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
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
  def rows(plan: LogicalPlan): RDD[InternalRow] = Compat.executed(session, plan).toRdd

  def store(plan: LogicalPlan): LogicalPlan = if (!runs) plan else {
    val rows = this.rows(plan).map(_.copy()).persist(StorageLevel.MEMORY_AND_DISK).localCheckpoint()
    all += rows
    val bytes = rows.map { case row: UnsafeRow => row.getSizeInBytes.toLong; case _ => 64L }.fold(0L)(_ + _)
    Compat.storedRows(session, plan.output, rows, bytes)
  }

  /** Stores the columns of a source that a statement uses, and numbers its rows. */
  def source(statement: ChangeRows): SourceRows = {
    val used = AttributeSet.fromAttributeSets(
      (statement.condition +: (statement.matched ++ statement.notMatched ++ statement.notMatchedBySource)).map(_.references))
    val columns = statement.source.output.filter(used.contains)
    val id = Alias(MonotonicallyIncreasingID(), "__spark_bucketing_source")()
    // It is NULL after an outer join. Spark would simplify a test of a column that is never NULL.
    SourceRows(store(Project(columns :+ id, statement.source)), id.toAttribute.withNullability(true))
  }

  override def close(): Unit = all.foreach(_.unpersist(blocking = false))
}
