package org.apache.spark.sql.bucketing
package dml

import org.apache.spark.sql.bucketing.write.{HashSum, Stored}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}

/**
 * Rows of a source, stored for the duration of a statement.
 *
 * @param id a column with a unique number
 */
case class SourceRows(plan: LogicalPlan, id: Attribute) {

  /** Returns the number of rows, and a sum of hashes of their bytes. Equal rows in another order have the same hash. */
  def hash(stored: Stored): String = {
    val columns = plan.output.filterNot(_.exprId == id.exprId)
    val (number, sum) = stored.rows(Project(columns, plan)).mapPartitions { rows =>
      val hashes = new HashSum
      val number = rows.map { case row: UnsafeRow => hashes.add(XXH64.hashUnsafeBytes(row.getBaseObject, row.getBaseOffset, row.getSizeInBytes, 42)) }.size
      Iterator((number.toLong, hashes.value))
    }.fold((0L, BigInt(0))) { case ((number, sum), (one, other)) => (number + one, sum + other) }
    s"$number $sum"
  }
}

object SourceRows {

  /** Stores the columns of the source that a merge uses, and numbers its rows. */
  def of(statement: ChangeRows, stored: Stored): Option[SourceRows] = if (!statement.isMerge) None else {
    val used = AttributeSet.fromAttributeSets((statement.condition +: statement.actions).map(_.references))
    val columns = statement.source.output.filter(used.contains)
    val id = Alias(MonotonicallyIncreasingID(), "__spark_bucketing_source")()
    // It is NULL after an outer join. Spark would simplify a test of a column that is never NULL.
    Some(SourceRows(stored.store(Project(columns :+ id, statement.source)), id.toAttribute.withNullability(true)))
  }
}
