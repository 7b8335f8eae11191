package org.apache.spark.sql.bucketing
package dml

import scala.collection.mutable

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.read.PerQueryCache
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
  def rows(plan: LogicalPlan): RDD[InternalRow] = {
    PerQueryCache.forget(plan)
    Compat.executed(session, plan).toRdd
  }

  def store(plan: LogicalPlan): LogicalPlan = if (!runs) plan else {
    val rows = this.rows(plan).map(_.copy()).persist(StorageLevel.MEMORY_AND_DISK).localCheckpoint()
    all += rows
    val bytes = rows.map { case row: UnsafeRow => row.getSizeInBytes.toLong; case _ => 64L }.fold(0L)(_ + _)
    Compat.storedRows(session, plan.output, rows, bytes)
  }

  /** Stores the columns of the source that a merge uses, and numbers its rows. */
  def source(statement: ChangeRows): Option[SourceRows] = if (!statement.isMerge) None else {
    val used = AttributeSet.fromAttributeSets((statement.condition +: statement.actions).map(_.references))
    val columns = statement.source.output.filter(used.contains)
    val id = Alias(MonotonicallyIncreasingID(), "__spark_bucketing_source")()
    // It is NULL after an outer join. Spark would simplify a test of a column that is never NULL.
    Some(SourceRows(store(Project(columns :+ id, statement.source)), id.toAttribute.withNullability(true)))
  }

  /** Returns the number of rows, and a sum of hashes of their bytes. Equal rows in another order have the same hash. */
  def hash(source: SourceRows): String = {
    val columns = source.plan.output.filterNot(_.exprId == source.id.exprId)
    val (number, sum) = rows(Project(columns, source.plan)).mapPartitions { rows =>
      val hashes = new HashSum
      val number = rows.map { case row: UnsafeRow => hashes.add(XXH64.hashUnsafeBytes(row.getBaseObject, row.getBaseOffset, row.getSizeInBytes, 42)) }.size
      Iterator((number.toLong, hashes.value))
    }.fold((0L, BigInt(0))) { case ((number, sum), (one, other)) => (number + one, sum + other) }
    s"$number $sum"
  }

  override def close(): Unit = all.foreach(_.unpersist(blocking = false))
}
