package org.apache.spark.sql.bucketing

import java.util.{IdentityHashMap, Map => JMap}

import org.apache.spark.sql.catalyst.expressions.{Alias, ExprId, IsNotNull, SortOrder, SubqueryExpression, WindowExpression}
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.plans.physical.{Distribution, UnspecifiedDistribution}
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.joins.BaseJoinExec
import org.apache.spark.sql.execution.window.WindowGroupLimitExec

/**
 * Bucketed scans whose rows are acted upon before all of them were read, so that the check on reading may come too late:
 *
 *  - below a limit, with no exchange in between, which would have read them all first; also below the first rows by an
 *    order, where the rows may come in that order and be taken without looking at the others; and below a program that
 *    may end before its input does;
 *  - below a write that cannot be taken back when it fails: one that deletes the old rows before it reads the first new
 *    one, or one whose tasks each publish their own rows; and in its subqueries.
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
  val Publish = "the write publishes rows before all are checked, and no query of this session has checked them yet"

  private val OfWrite = TreeNodeTag[String]("bucketing.of_write")

  /** Subqueries, and queries of other sources, are planned by themselves: remembers for all of them why. */
  def mark(write: Compat.Irreversible): Unit = everywhere(write.query)(_.setTagValue(OfWrite, write.why))

  /** Visits the nodes of a query and of its subqueries. */
  def everywhere(query: LogicalPlan)(visit: LogicalPlan => Unit): Unit = query.foreach { node =>
    visit(node)
    node.expressions.foreach(_.foreach {
      case subquery: SubqueryExpression => everywhere(subquery.plan)(visit)
      case _ =>
    })
  }

  /** Why the rows of a query have to be checked before it is written, if it is written so. */
  def ofWrite(plan: LogicalPlan): Option[String] = plan.collectFirst {
    case node if node.getTagValue(OfWrite).isDefined => node.getTagValue(OfWrite).get
  }

  /**
   * The scans, and the reads of cached queries, and for each why its files must have been checked before.
   *
   * @param ofWrite why all of them must (EarlyUses.ofWrite)
   */
  def of(plan: SparkPlan, ofWrite: Option[String]): JMap[SparkPlan, String] = {
    val found = new IdentityHashMap[SparkPlan, String]
    if (BucketingConf.early == "checked" && BucketingConf.checksReads) {
      ofWrite match {
        case Some(why) => plan.foreach { case input if isInput(input) => found.put(input, why); case _ => }
        case None => new EarlyUses(plan).collect(plan, stops = false, found)
      }
    }
    found
  }

  private def isInput(plan: SparkPlan): Boolean = plan.isInstanceOf[BucketScan] || plan.isInstanceOf[InMemoryTableScanExec]

  /** A scan in the order, and with the buckets, that its files are known to have. */
  def proven(scan: BucketScan, files: Array[PartitionedFile]): Option[BucketScan] = {
    val nulls = asksForNulls(scan)
    def checked(of: BucketsOf): Boolean = files.forall(file => BucketTrust.isChecked(FileVersion(file), of, nulls))
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

  def collect(plan: SparkPlan, stops: Boolean, found: IdentityHashMap[SparkPlan, String]): Unit = plan match {
    case input if EarlyUses.isInput(input) => if (stops) found.put(input, EarlyUses.Limit)
    case limit @ (_: BaseLimitExec | _: CollectLimitExec | _: CollectTailExec) =>
      collect(limit.children.head, stops = true, found)
    case program if Compat.mayStopReading(program) => program.children.foreach(collect(_, stops = true, found))
    case first: TakeOrderedAndProjectExec => collect(first.child, stops || mayComeInOrder(first.sortOrder), found)
    case first: WindowGroupLimitExec if first.partitionSpec.isEmpty =>
      collect(first.child, stops || mayComeInOrder(first.orderSpec), found)
    case _: Exchange => plan.children.foreach(collect(_, stops = false, found))
    case _ => plan.children.zip(plan.requiredChildDistribution).foreach { case (child, required) =>
      collect(child, stops && !exchanged(child, required), found)
    }
  }

  /**
   * Whether Spark will put an exchange between an operator and its child. Above a join or a union nobody knows before its
   * own exchanges stand: its inputs may be aligned, or one be spread by the buckets of the other.
   */
  private def exchanged(child: SparkPlan, required: Distribution): Boolean = required != UnspecifiedDistribution &&
    !child.exists(_.children.length > 1) && !child.outputPartitioning.satisfies(required)
}
