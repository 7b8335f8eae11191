package org.apache.spark.sql.bucketing

import java.util.{IdentityHashMap, Map => JMap}

import org.apache.spark.sql.catalyst.expressions.IsNotNull
import org.apache.spark.sql.catalyst.plans.physical.{Distribution, UnspecifiedDistribution}
import org.apache.spark.sql.execution.{BaseLimitExec, CollectLimitExec, CollectTailExec, SparkPlan}
import org.apache.spark.sql.execution.command.DataWritingCommandExec
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.exchange.Exchange

/**
 * Bucketed scans whose rows are acted upon before all of them were read, so that the check on reading may come too late:
 *
 *  - below a limit, with no exchange in between, which would have read them all first;
 *  - below an overwrite that deletes the old rows before it reads the first new one.
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

  /** The scans, and for each why its files must have been checked before. */
  def of(plan: SparkPlan): JMap[BucketScan, String] = {
    val found = new IdentityHashMap[BucketScan, String]
    if (BucketingConf.early == "checked" && BucketingConf.checksReads) collect(plan, stops = false, found)
    found
  }

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

  private def collect(plan: SparkPlan, stops: Boolean, found: IdentityHashMap[BucketScan, String]): Unit = plan match {
    case scan: BucketScan => if (stops) found.put(scan, Limit)
    case write: DataWritingCommandExec if Compat.deletesFirst(write.cmd) =>
      write.foreach { case scan: BucketScan => found.put(scan, Overwrite); case _ => }
    case limit @ (_: BaseLimitExec | _: CollectLimitExec | _: CollectTailExec) =>
      collect(limit.children.head, stops = true, found)
    case _: Exchange => plan.children.foreach(collect(_, stops = false, found))
    case _ => plan.children.zip(plan.requiredChildDistribution).foreach { case (child, required) =>
      collect(child, stops && !exchanged(child, required), found)
    }
  }

  /** Whether Spark will put an exchange between an operator and its child. */
  private def exchanged(child: SparkPlan, required: Distribution): Boolean =
    required != UnspecifiedDistribution && !BucketNeeds.partitioning(child).satisfies(required)
}
