package org.apache.spark.sql.bucketing

import java.util.{Collections, IdentityHashMap}

import org.apache.spark.sql.catalyst.expressions.IsNotNull
import org.apache.spark.sql.catalyst.plans.physical.{Distribution, UnspecifiedDistribution}
import org.apache.spark.sql.execution.{BaseLimitExec, CollectLimitExec, CollectTailExec, SparkPlan}
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.exchange.Exchange

/**
 * Bucketed scans that a query may stop reading before their end: those below a limit, with no exchange in between, which
 * would have read them all first.
 *
 * {{{
 *   CollectLimit 10                      the first ten rows of bucket 0 are enough
 *   +- SortMergeJoin k = k, LeftAnti
 *      :- FileScan, Bucketed: true
 *      +- FileScan, Bucketed: true       a match that lies in bucket 5 by mistake is never read
 * }}}
 *
 * The check on reading sees only what is read, so that such a scan is taken at its word only for files that an earlier
 * query has read and checked, and never for an order.
 */
object EarlyStops {

  val Why = "a limit may end the query before all rows are checked, which no query of this session has done yet"

  def of(plan: SparkPlan): BucketNeeds.Scans = {
    val found: BucketNeeds.Scans = Collections.newSetFromMap(new IdentityHashMap)
    collect(plan, stops = false, found)
    found
  }

  /** A scan as one that may be stopped, if its files are known to hold what they promise. */
  def proven(scan: BucketScan, files: Array[PartitionedFile]): Either[String, BucketScan] = {
    val of = scan.read.of
    if (!BucketingConf.checksReads) Right(scan)
    else if (!files.forall(file => BucketTrust.isChecked(FileVersion(file), of, asksForNulls(scan)))) Left(Why)
    else Right(scan.copyWith(scan.read.copy(of = of.copy(sorts = Nil))))
  }

  private def asksForNulls(scan: BucketScan): Boolean = !scan.keys.forall(key => scan.dataFilters.exists {
    case IsNotNull(column) => key.semanticEquals(column)
    case _ => false
  })

  private def collect(plan: SparkPlan, stops: Boolean, found: BucketNeeds.Scans): Unit = plan match {
    case scan: BucketScan => if (stops) found.add(scan)
    case limit @ (_: BaseLimitExec | _: CollectLimitExec | _: CollectTailExec) => collect(limit.children.head, stops = true, found)
    case _: Exchange => plan.children.foreach(collect(_, stops = false, found))
    case _ => plan.children.zip(plan.requiredChildDistribution).foreach { case (child, required) =>
      collect(child, stops && !exchanged(child, required), found)
    }
  }

  /** Whether Spark will put an exchange between an operator and its child. */
  private def exchanged(child: SparkPlan, required: Distribution): Boolean =
    required != UnspecifiedDistribution && !BucketNeeds.partitioning(child).satisfies(required)
}
