package org.apache.spark.sql.bucketing
package read

import org.apache.spark.sql.bucketing.metadata.{ColumnStats, FileStats}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet, EqualNullSafe, Expression, GenericInternalRow, InSet, IsNull, Literal}
import org.apache.spark.sql.catalyst.util.TypeUtils
import org.apache.spark.sql.columnar.{CachedBatch, SimpleMetricsCachedBatch}
import org.apache.spark.sql.execution.columnar.DefaultCachedBatchSerializer

/**
 * Tests, based on statistics, whether a file may contain rows that match the filters. The test uses the filter that Spark applies to
 * the batches of cached tables, because these batches have the same kind of statistics.
 */
object FileRangeFilter {

  private case class Statistics(numRows: Int, stats: InternalRow) extends SimpleMetricsCachedBatch

  def mayMatch(filters: Seq[Expression]): FileStats => Boolean = {
    val (lists, others) = filters.partition { case InSet(_: Attribute, _) => true; case _ => false }
    val tests = lists.collect { case InSet(column: Attribute, values) => mayContain(column, values) }
    val test = mayMatchOthers(others)
    file => tests.forall(_(file)) && test(file)
  }

  /** Returns a test whether a file may contain any of these values. There may be many values and many files. */
  private def mayContain(column: Attribute, values: Set[Any]): FileStats => Boolean = {
    val order = TypeUtils.getInterpretedOrdering(column.dataType)
    val sorted = new java.util.TreeSet[Any](order)
    values.filter(_ != null).foreach(sorted.add)
    file => columnOf(file, column).forall { range =>
      range.lower != null && Option(sorted.ceiling(range.lower)).exists(order.lteq(_, range.last))
    }
  }

  private def mayMatchOthers(filters: Seq[Expression]): FileStats => Boolean = {
    // Build Spark's filter only once for all files whose statistics have the same columns and types, because that takes longer than a test.
    val made = scala.collection.mutable.Map.empty[Seq[Attribute], BatchTest]
    val asked = filters.flatMap(_.references).distinct
    file => {
      val columns = asked.flatMap(attribute => columnOf(file, attribute).map(attribute -> _))
      val attributes = columns.map(_._1)
      columns.isEmpty || {
        val kept = made.getOrElseUpdate(attributes, {
          // Spark's filter takes a comparison with NULL for a comparison with a value.
          val known = filters.filter(_.references.subsetOf(AttributeSet(attributes))).map(_.transform {
            case EqualNullSafe(column, Literal(null, _)) => IsNull(column)
            case EqualNullSafe(Literal(null, _), column) => IsNull(column)
          })
          new BatchTest(new DefaultCachedBatchSerializer().buildFilter(known, attributes)(0, _))
        })
        kept(statistics(file, columns.map(_._2)))
      }
    }
  }

  /** Tests one batch after the other with a filter of an iterator. */
  private class BatchTest(filter: Iterator[CachedBatch] => Iterator[CachedBatch]) {
    private var tested: Option[CachedBatch] = None
    private val kept = filter(new Iterator[CachedBatch] {
      override def hasNext: Boolean = tested.nonEmpty
      override def next(): CachedBatch = try tested.get finally tested = None
    })

    def apply(batch: CachedBatch): Boolean = {
      tested = Some(batch)
      val found = kept.hasNext
      if (found) kept.next()
      found
    }
  }

  private def columnOf(file: FileStats, attribute: Attribute): Option[ColumnStats] =
    file.columns.collectFirst { case (name, column) if name.equalsIgnoreCase(attribute.name) && column.dataType == attribute.dataType => column }

  /** Returns statistics in the order of Spark's ColumnStatisticsSchema: minimum, maximum, NULL count, row count, bytes. */
  private def statistics(file: FileStats, columns: Seq[ColumnStats]): Statistics = {
    def count(rows: Long) = math.min(rows, Int.MaxValue).toInt
    // If neither count fits into an int, keep the NULL count below the row count, because the file has values other than NULL.
    def nulls(column: ColumnStats) = if (column.nulls < file.rows) math.min(column.nulls, Int.MaxValue - 1).toInt else count(file.rows)
    val values = columns.flatMap { column =>
      Seq[Any](column.lower, column.last, nulls(column), count(file.rows), 0L)
    }
    Statistics(count(file.rows), new GenericInternalRow(values.toArray))
  }
}
