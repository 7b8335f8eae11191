package org.apache.spark.sql.bucketing

import java.util.{IdentityHashMap, Map => JMap}

import org.apache.spark.sql.catalyst.expressions.{Alias, ExprId, IsNotNull, SortOrder, SubqueryExpression, WindowExpression}
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.plans.physical.{Distribution, UnspecifiedDistribution}
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.command.DataWritingCommandExec
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.joins.BaseJoinExec
import org.apache.spark.sql.execution.window.WindowGroupLimitExec

/**
 * Bucketed scans whose rows are acted upon before all of them were read, so that the check on reading may come too late:
 *
 *  - below a limit, with no exchange in between, which would have read them all first; also below the first rows by an
 *    order, where the rows may come in that order and be taken without looking at the others;
 *  - below an overwrite that deletes the old rows before it reads the first new one, and in its subqueries.
 *
 * {{{
 *   CollectLimit 10                      the first ten rows of bucket 0 are enough
 *   +- SortMergeJoin k = k, LeftAnti
 *      :- FileScan, Bucketed: true
 *      +- FileScan, Bucketed: true       a match that lies in bucket 5 by mistake is never read
 * }}}
 *
 * Such a scan is taken at its word only for files that an earlier query has read and checked.
 */
object EarlyUses {

  val Limit = "a limit may end the query before all rows are checked, and no query of this session has checked them yet"
  val Overwrite = "the overwrite deletes old rows before all new ones are checked, and no query of this session has checked them yet"

  private val OfOverwrite = TreeNodeTag[Unit]("bucketing.subquery_of_overwrite")

  /** Subqueries are planned by themselves: remembers of those of a write that it deletes first. */
  def markSubqueries(write: LogicalPlan): Unit = write.foreach(_.expressions.foreach(_.foreach {
    case subquery: SubqueryExpression =>
      subquery.plan.foreach(_.setTagValue(OfOverwrite, ()))
      markSubqueries(subquery.plan)
    case _ =>
  }))

  def isOfOverwrite(plan: LogicalPlan): Boolean = plan.exists(_.getTagValue(OfOverwrite).isDefined)

  /**
   * The scans, and for each why its files must have been checked before.
   *
   * @param ofOverwrite the plan is of a subquery of an overwrite
   */
  def of(plan: SparkPlan, ofOverwrite: Boolean): JMap[BucketScan, String] = {
    val found = new IdentityHashMap[BucketScan, String]
    if (BucketingConf.early == "checked" && BucketingConf.checksReads) {
      if (ofOverwrite) all(plan, found) else new EarlyUses(plan).collect(plan, stops = false, found)
    }
    found
  }

  private def all(plan: SparkPlan, found: IdentityHashMap[BucketScan, String]): Unit =
    plan.foreach { case scan: BucketScan => found.put(scan, Overwrite); case _ => }

  /** A scan in the order, and with the buckets, that its files are known to have. */
  def proven(scan: BucketScan, files: Array[PartitionedFile]): Option[BucketScan] = {
    val nulls = asksForNulls(scan)
    // Where there is no file yet, nothing was checked either: the plan is the one that the table's first rows will have,
    // so that empty tables, which cost nothing, show what full ones do.
    def checked(of: BucketsOf): Boolean =
      files.nonEmpty && files.forall(file => BucketTrust.isChecked(FileVersion(file), of, nulls))
    val of = scan.read.of
    if (checked(of)) Some(scan)
    else if (checked(of.unordered)) Some(scan.copyWith(scan.read.copy(of = of.unordered)))
    else None
  }

  private def asksForNulls(scan: BucketScan): Boolean = !scan.keys.forall(key => scan.dataFilters.exists {
    case IsNotNull(column) => key.semanticEquals(column)
    case _ => false
  })
}

private class EarlyUses(root: SparkPlan) {

  /** Columns by which rows may come in order: the first sort column of a bucketed scan, and keys of joins. */
  private lazy val inOrder: Set[ExprId] = root.collect {
    case scan: BucketScan => scan.output.filter(column => scan.read.of.sorts.headOption.contains(column.name))
    case join: BaseJoinExec => (join.leftKeys ++ join.rightKeys).flatMap(_.references)
  }.flatten.map(_.exprId).toSet

  /** What a column is made of, but for what an aggregate or a window function makes. */
  private lazy val madeOf: Map[ExprId, Set[ExprId]] = root.flatMap(_.expressions.flatMap(_.collect {
    case alias: Alias if !alias.exists(part => part.isInstanceOf[AggregateExpression] || part.isInstanceOf[WindowExpression]) =>
      alias.exprId -> alias.references.map(_.exprId).toSet
  })).toMap

  private def mayComeInOrder(order: Seq[SortOrder]): Boolean = {
    @scala.annotation.tailrec
    def reaches(columns: Set[ExprId], seen: Set[ExprId]): Boolean =
      columns.exists(inOrder.contains) || {
        val next = columns.flatMap(madeOf.getOrElse(_, Set.empty)) -- seen
        next.nonEmpty && reaches(next, seen ++ next)
      }
    order.headOption.forall(first => reaches(first.references.map(_.exprId).toSet, Set.empty))
  }

  def collect(plan: SparkPlan, stops: Boolean, found: IdentityHashMap[BucketScan, String]): Unit = plan match {
    case scan: BucketScan => if (stops) found.put(scan, EarlyUses.Limit)
    case write: DataWritingCommandExec if Compat.deletesFirst(write.cmd) => EarlyUses.all(write, found)
    case limit @ (_: BaseLimitExec | _: CollectLimitExec | _: CollectTailExec) =>
      collect(limit.children.head, stops = true, found)
    case first: TakeOrderedAndProjectExec => collect(first.child, stops || mayComeInOrder(first.sortOrder), found)
    case first: WindowGroupLimitExec if first.partitionSpec.isEmpty =>
      collect(first.child, stops || mayComeInOrder(first.orderSpec), found)
    case _: Exchange => plan.children.foreach(collect(_, stops = false, found))
    case _ => plan.children.zip(plan.requiredChildDistribution).foreach { case (child, required) =>
      collect(child, stops && !exchanged(child, required), found)
    }
  }

  /**
   * Whether Spark will put an exchange between an operator and its child. Not where inputs of a join differ in their
   * number of partitions, of which nothing is known yet: they may be aligned.
   */
  private def exchanged(child: SparkPlan, required: Distribution): Boolean = required != UnspecifiedDistribution &&
    (try !child.outputPartitioning.satisfies(required) catch { case _: IllegalArgumentException => false })
}
