package org.apache.spark.sql.bucketing
package dml

import scala.collection.mutable

import org.apache.spark.sql.bucketing.write.{HashSum, Stored}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils.DEFAULT_PARTITION_NAME
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan, Project}
import org.apache.spark.sql.types.{DataType, DateType, IntegralType, StringType}

/**
 * Rows of a source, stored for the duration of a statement.
 *
 * @param id a column with a unique number
 */
case class SourceRows(plan: LogicalPlan, id: Attribute) {

  def isOnDriver: Boolean = plan.isInstanceOf[LocalRelation]

  /** Returns the number of rows, and a sum of hashes of their bytes. Equal rows in another order have the same hash. */
  def hash(stored: Stored): String = {
    val columns = plan.output.filterNot(_.exprId == id.exprId)
    val sums = stored.each(Project(columns, plan)) { rows =>
      val hashes = new HashSum
      var number = 0L
      rows.foreach { case row: UnsafeRow =>
        hashes.add(XXH64.hashUnsafeBytes(row.getBaseObject, row.getBaseOffset, row.getSizeInBytes, 42))
        number += 1
      }
      (number, hashes.value)
    }
    s"${sums.map(_._1).sum} ${sums.map(_._2).sum}"
  }
}

object SourceRows {

  /** Stores the columns of the source that a merge uses, and numbers its rows. */
  def of(statement: ChangeRows, stored: Stored): Option[SourceRows] = if (!statement.isMerge) None else {
    val used = AttributeSet.fromAttributeSets((statement.condition +: statement.actions).map(_.references))
    val columns = statement.source.output.filter(used.contains)
    val id = Alias(MonotonicallyIncreasingID(), Stored.SourceId)()
    // It is NULL after an outer join. Spark would simplify a test of a column that is never NULL.
    Some(SourceRows(stored.store(Project(columns :+ id, statement.source)), id.toAttribute.withNullability(true)))
  }
}

/** Finds the partitions that a merge may touch by the values of its source, so that it lists only their files. */
object SourcePartitions {

  /** More values would make the filter of the metastore longer than the list of partitions of most tables. */
  private val MaxValues = 100

  /** Returns filters of partitions. Without filters, the merge may touch all partitions. */
  def filters(statement: ChangeRows, stored: Stored, source: SourceRows): Seq[Expression] = {
    val keys = statement.partitionKeys.filter { case (column, _) => isFilterable(column.dataType) }
    if (keys.isEmpty) Nil else {
      val bound = keys.map { case (_, value) => BindReferences.bindReference(value, AttributeSeq(source.plan.output)) }
      val found = stored.each(source.plan)(distinct(_, bound))
      keys.zipWithIndex.flatMap { case ((column, _), i) =>
        val values = found.iterator.flatMap(_(i)).toSet
        if (values.size > MaxValues) None else isOneOf(column, values).map(statement.onPartitions)
      }
    }
  }

  /** Returns the values of expressions, at most one more than the maximum for each. */
  private def distinct(rows: Iterator[InternalRow], of: Seq[Expression]): Seq[Set[Any]] = {
    val values = of.map(_ => mutable.HashSet.empty[Any])
    rows.foreach(row => of.zip(values).foreach { case (value, found) => if (found.size <= MaxValues) found += InternalRow.copyValue(value.eval(row)) })
    values.map(_.toSet)
  }

  private def isFilterable(of: DataType): Boolean = of match {
    case _: IntegralType | DateType => true
    case string: StringType => string == StringType
    case _ => false
  }

  private def isOneOf(column: Attribute, values: Set[Any]): Option[Expression] = {
    val (nulls, others) = values.toSeq.partition(isStoredAsNull)
    val isNull = if (nulls.isEmpty) None else Some(IsNull(column))
    val isOther = if (others.isEmpty) None else Some(In(column, others.map(Literal.create(_, column.dataType))))
    (isNull ++ isOther).reduceOption[Expression](Or)
  }

  /** Returns whether rows with this value are in the partition of NULL. */
  private def isStoredAsNull(value: Any): Boolean = value == null || Set("", DEFAULT_PARTITION_NAME)(value.toString)
}
