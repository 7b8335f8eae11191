package org.apache.spark.sql.bucketing
package read

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.{Compat, RuntimeFilter}
import org.apache.spark.sql.bucketing.metadata.{FileStatistics, Replacement}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.{BuildLeft, BuildRight}
import org.apache.spark.sql.catalyst.plans.{Inner, LeftExistence, LeftOuter, LeftSemi, RightOuter}
import org.apache.spark.sql.execution.{FileSourceScanExec, FilterExec, InSubqueryExec, ProjectExec, SparkPlan}
import org.apache.spark.sql.execution.joins.{BaseJoinExec, BroadcastHashJoinExec}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types._

/**
 * Skips buckets and files at run time. If a scan is joined with a broadcast table by its bucket column or by a column with file statistics, the scan gets the
 * keys of the broadcast table as a filter, and reads only the buckets and files that may contain one of them.
 *
 * Spark does the same for partition columns (PartitionPruning, PlanAdaptiveDynamicPruningFilters), but its rule cannot be extended to other columns. This object
 * adds the same expression to the data filters of the scan, so that Spark plans and runs it. Rows are not filtered, because the join drops them.
 */
object RuntimeFilters {

  // More keys are seldom absent from a file, and a comparison of a million keys takes seconds.
  private val MaxKeys = 100000

  def apply(session: SparkSession, plan: SparkPlan): SparkPlan = if (!areOn(session)) plan else {
    // Adaptive execution knows only the subqueries of the first plan.
    val found = PerQueryCache("runtime filters")(filters(plan))
    if (found.isEmpty) plan else plan.transformUp {
      case scan: FileSourceScanExec =>
        val added = scan.output.flatMap(column => found.getOrElse(column.exprId, Nil))
        if (added.isEmpty) scan else BucketAwareScan.like(scan, scan.copy(dataFilters = scan.dataFilters ++ added))
    }
  }

  // Another engine may run the scan or the broadcast. Without reuse of exchanges, Spark would broadcast the table once for the join and once for the filter.
  private def areOn(session: SparkSession): Boolean =
    Compat.columnarRules(session).forall(Compat.isOurs) && SQLConf.get.dynamicPartitionPruningEnabled && SQLConf.get.exchangeReuseEnabled

  /** Returns the filters of scans, by the id of the column that they filter. */
  private def filters(plan: SparkPlan): Map[ExprId, Seq[Expression]] = {
    // Spark infers the condition k IN (subquery) for a column that is equal to k, so scans on both sides of a join may have the same ids.
    val ids = plan.collect { case scan: FileSourceScanExec => scan.output.map(_.exprId) }.flatten
    val repeated = ids.diff(ids.distinct).toSet
    ofJoins(plan).filterNot { case (id, _) => repeated.contains(id) }.groupBy(_._1).map { case (id, all) => id -> all.map(_._2) }
  }

  // Spark plans the broadcast table again for each of its filters. If that plan had filters, too, planning could take forever, and Spark would broadcast twice.
  private def ofJoins(plan: SparkPlan): Seq[(ExprId, Expression)] = plan match {
    case join: BroadcastHashJoinExec =>
      val found = if (join.joinType == Inner || join.joinType == LeftSemi) of(join) else Nil
      found ++ join.children.filter(child => found.isEmpty || !isBuild(join, child)).flatMap(ofJoins)
    case other => other.children.flatMap(ofJoins)
  }

  private def of(join: BroadcastHashJoinExec): Seq[(ExprId, Expression)] = {
    val (probe, keys, build, buildKeys) = join.buildSide match {
      case BuildRight => (join.left, join.leftKeys, join.right, join.rightKeys)
      case BuildLeft => (join.right, join.rightKeys, join.left, join.leftKeys)
    }
    for {
      (key: Attribute, place) <- keys.zipWithIndex if isComparable(key.dataType)
      (column, scan) <- scansOf(key, probe) if canSkip(scan, column)
      other <- build.logicalLink
    } yield column.exprId -> RuntimeFilter(column, other, buildKeys, place)
  }

  private def isBuild(join: BaseJoinExec, side: SparkPlan): Boolean = join match {
    case hash: BroadcastHashJoinExec => side eq (if (hash.buildSide == BuildLeft) hash.left else hash.right)
    case _ => false
  }

  // A join treats 0.0 and -0.0 as equal, but hashes and statistics may not.
  private def isComparable(dataType: DataType): Boolean = dataType match {
    case _: IntegralType | DateType | TimestampType | TimestampNTZType | _: DecimalType => true
    case text: StringType => text == StringType
    case _ => false
  }

  /** Returns the scans of a column, and of columns that are joined with it, in which a filter changes no result after the same filter of these rows. */
  private def scansOf(column: Attribute, plan: SparkPlan): Seq[(Attribute, FileSourceScanExec)] = if (!plan.outputSet.contains(column)) Nil else plan match {
    case scan: FileSourceScanExec => Seq(column -> scan)
    case FilterExec(condition, child) if condition.deterministic => scansOf(column, child)
    case ProjectExec(list, child) if list.forall(_.deterministic) && list.exists(_.semanticEquals(column)) => scansOf(column, child)
    case join: BaseJoinExec => ofJoin(column, join)
    case _ => Nil
  }

  // A row that the filter drops has only matches that it drops, too. Without its matches, an outer, anti or existence join returns another row for it, for which
  // expressions above may fail. A broadcast table needs all NULLs for NOT IN.
  private def ofJoin(column: Attribute, join: BaseJoinExec): Seq[(Attribute, FileSourceScanExec)] = {
    val isLeft = join.left.outputSet.contains(column)
    val (here, keys, there, others) =
      if (isLeft) (join.left, join.leftKeys, join.right, join.rightKeys) else (join.right, join.rightKeys, join.left, join.leftKeys)
    def inside(column: Attribute, side: SparkPlan) = if (isBuild(join, side)) Nil else scansOf(column, side)
    def matches = keys.zip(others).collect { case (key, other: Attribute) if key.semanticEquals(column) => inside(other, there) }.flatten
    join.joinType match {
      case Inner => inside(column, here) ++ matches
      case LeftSemi if isLeft => inside(column, here) ++ matches
      case LeftOuter | LeftExistence(_) if isLeft => inside(column, here)
      case RightOuter if !isLeft => inside(column, here)
      case _ => Nil
    }
  }

  private def canSkip(scan: FileSourceScanExec, column: Attribute): Boolean = SealedSpecs.relationOf(scan).flatMap(_.catalogTable).exists { table =>
    val withStatistics = Seq(FileStatistics.RangeBy, FileStatistics.ImplicitPartitionBy).flatMap(table.properties.get).flatMap(Replacement.jsonNames(_)).flatten
    withStatistics.exists(_.equalsIgnoreCase(column.name)) || table.bucketSpec.map(_.bucketColumnNames).exists(names => names.size == 1 && names.head.equalsIgnoreCase(column.name))
  }

  def areIn(scan: FileSourceScanExec): Boolean = scan.dataFilters.exists(isIn)

  private def isIn(filter: Expression): Boolean = filter.isInstanceOf[DynamicPruning]

  /** Returns the filters with the values that their subqueries have returned, without those that have returned none yet or too many. */
  def known(filters: Seq[Expression]): Seq[Expression] = filters.collect {
    case DynamicPruningExpression(in: InSubqueryExec) => in.values().filter(_.length <= MaxKeys).map(values => InSet(in.child, values.toSet))
  }.flatten
}
