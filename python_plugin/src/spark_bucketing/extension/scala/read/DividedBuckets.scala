package org.apache.spark.sql.bucketing
package read

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.bucketing.hash.BucketRanges
import org.apache.spark.sql.catalyst.expressions.Literal
import org.apache.spark.sql.catalyst.plans.physical.{AllTuples, ClusteredDistribution}
import org.apache.spark.sql.catalyst.util.TypeUtils
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.aggregate.BaseAggregateExec
import org.apache.spark.sql.execution.joins.ShuffledJoin
import org.apache.spark.sql.types.DataType

/**
 * Divides sorted buckets into ranges of their first sort column if there are fewer buckets than cores, or if a bucket is too large for a task. All
 * scans whose partitions are joined or united use the same ranges:
 *
 * {{{
 *   SortMergeJoin                                                      2 buckets, 8 cores
 *   :- FileScan a ... Bucketed: true (2 Hive buckets read as 8 by range, sorted)
 *   +- FileScan b ... Bucketed: true (2 Hive buckets read as 8 by range, sorted)
 * }}}
 *
 * Every row belongs to exactly one range, and rows with equal keys belong to the same one, so the cuts affect only the sizes of the tasks. The ranges are used
 * only if all operators that the buckets serve accept them: their keys must contain the sort column.
 */
object DividedBuckets extends Logging {

  private val MaxRanges = 64
  // The tasks take turns, so a division must shorten the query by more than the start of more tasks costs.
  private val MaxTime = 0.8

  def apply(plan: SparkPlan): SparkPlan = if (BucketingConf.rangeBytes <= 0) plan else groups(plan).foldLeft(plan) { (current, scans) =>
    cuts(scans).flatMap { case (dataType, values) =>
      def ranges(scan: BucketScan) = BucketRanges(scan.read.of.hash, scan.read.partitions, scan.keys.size,
        (scan.keys ++ scan.rangeColumn).distinct.indexOf(scan.rangeColumn.get), dataType, values)
      val divided = current.transformUp { case scan: BucketScan if scans.exists(_ eq scan) => scan.by(ranges(scan)) }
      Some(divided).filter(accepts(current, _))
    }.getOrElse(current)
  }

  /** Returns the groups of scans whose partitions are combined. */
  private def groups(plan: SparkPlan): Seq[Seq[BucketScan]] = {
    // The scans whose partitions an operator preserves, and the groups below it.
    def below(operator: SparkPlan): (Seq[BucketScan], Seq[Seq[BucketScan]]) = operator match {
      case scan: BucketScan => (Seq(scan), Nil)
      case _ =>
        val (open, closed) = operator.children.map(below).unzip
        if (BucketRequirements.keepsPartitions(operator)) (open.flatten, closed.flatten)
        else (Nil, closed.flatten :+ open.flatten)
    }
    val (open, closed) = below(plan)
    (closed :+ open).filter(_.nonEmpty)
  }

  /** Returns the cuts of the ranges, and their type. The decision is made once per query, because adaptive execution plans again. */
  private def cuts(scans: Seq[BucketScan]): Option[(DataType, IndexedSeq[Any])] = {
    val largest = scans.maxBy(_.bytes)
    val types = scans.map(scan => scan.rangeColumn.map(_.dataType).filter(CutPoints.hasOrderOfFilters(scan, _))).distinct
    // The rows of few keys, which a filter selects, would be in few ranges.
    val isWhole = scans.map(_.read.partitions).distinct.size == 1 && scans.forall(scan => !scan.read.splits && !scan.read.native && !scan.isPruned)
    if (!isWhole || types.size > 1 || types.head.isEmpty) None
    else PerQueryCache(("ranges", largest.output.map(_.exprId)))(cuts(largest, number(largest))).filter(_.nonEmpty).map(types.head.get -> _)
  }

  /** Returns the number of ranges of each bucket. */
  private def number(scan: BucketScan): Int = {
    val bytes = scan.bytesOfPartitions.filter(_ > 0)
    if (bytes.isEmpty) 1 else {
      val (cores, most) = (BucketTasks.cores(scan.session), (bytes.max / BucketingConf.rangeBytes).min(MaxRanges.toLong).toInt.max(1))
      // The time of a query relative to its time with one task per bucket, which reads a range in 1 / n of the time.
      def time(n: Int): Double = ((bytes.length.toLong * n + cores - 1) / cores).toDouble / n
      val ofCores = if (bytes.length >= cores) 1 else (1 to most.min(2 * cores)).minBy(time)
      val ofSize = ((bytes.max + BucketingConf.maxBucketBytes - 1) / BucketingConf.maxBucketBytes).min(most.toLong).toInt
      ofSize.max(if (ofCores > 1 && time(ofCores) <= MaxTime) ofCores else 1)
    }
  }

  private def cuts(scan: BucketScan, number: Int): Option[IndexedSeq[Any]] = if (number < 2) None else {
    val column = scan.rangeColumn.get
    // Hypothetical tables have no files.
    if (scan.relation.location.isInstanceOf[AssumedFileIndex]) Some(IndexedSeq.fill(number - 1)(Literal.default(column.dataType).value))
    else try Some(CutPoints.divide(CutPoints.of(scan, column), number, TypeUtils.getInterpretedOrdering(column.dataType))).filter(_.nonEmpty) catch {
      case error @ (NonFatal(_) | _: LinkageError) =>
        logWarning(s"One task reads each bucket of ${scan.read.of.table}, because the statistics in its files cannot be read.", error)
        None
    }
  }

  /** Returns whether a plan with ranges needs no shuffle that the plan without them does not need. */
  def accepts(before: SparkPlan, after: SparkPlan): Boolean =
    needs(after).zip(needs(before)).forall { case (now, old) => now || !old } && before.children.zip(after.children).forall { case (a, b) => accepts(a, b) }

  /** Returns whether the inputs of an operator satisfy each of its requirements. */
  private def needs(plan: SparkPlan): Seq[Boolean] = plan match {
    // It requires nothing of its inputs.
    case join: ShuffledJoin if join.isSkewJoin => Seq(true, true, true)
    case union: BucketUnionExec => Seq(BucketUnionExec.partitioning(union.children, union.output).isDefined)
    case write: RepartitionsByBucket => Seq(write.isSatisfiedBy(BucketRequirements.partitioning(write.child)))
    case _ =>
      val required = plan.children.zip(plan.requiredChildDistribution)
      val isJoin = required.size > 1 && required.forall(_._2.isInstanceOf[ClusteredDistribution])
      required.map {
        // A shuffle of a partial aggregate is cheap.
        case (_, AllTuples) if plan.isInstanceOf[BaseAggregateExec] => true
        case (child, distribution) => BucketRequirements.satisfies(child, distribution)
      } ++ (if (isJoin) Seq(BucketAlignment.coPartitioned(plan)) else Nil)
  }
}
