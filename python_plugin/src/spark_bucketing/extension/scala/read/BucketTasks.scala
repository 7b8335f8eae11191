package org.apache.spark.sql.bucketing
package read

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.hash.BucketHash
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.plans.physical.ClusteredDistribution
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.internal.SQLConf

/**
 * Whether buckets are enough tasks for the bytes that they hold.
 *
 * A bucket is read by one task, and whatever is joined to it comes into as many. A shuffle costs a few times what reading
 * costs, so it is the better way where buckets would leave three quarters of the cores idle.
 */
object BucketTasks {

  private val IdleFactor = 4

  /** The cores that a query may have, those that dynamic allocation has not asked for yet among them. */
  def cores(session: SparkSession): Int = {
    val conf = session.sparkContext.getConf
    val later =
      if (!conf.getBoolean("spark.dynamicAllocation.enabled", false)) 0L
      else math.min(SQLConf.get.getConf(SQLConf.SHUFFLE_PARTITIONS).toLong,
        conf.getInt("spark.dynamicAllocation.maxExecutors", Int.MaxValue).toLong * conf.getInt("spark.executor.cores", 1))
    math.max(session.sparkContext.defaultParallelism, later.toInt)
  }

  /**
   * Whether so many tasks, the largest of so many bytes, leave most of the cores idle for long: the more of them are idle,
   * the shorter is long.
   */
  def areTooFew(tasks: Int, largest: Long, session: SparkSession): Boolean = {
    val busy = tasks.toDouble * IdleFactor / cores(session)
    busy < 1 && largest > BucketingConf.maxPartitionBytes * busy
  }

  /** Why the buckets of a scan are better not made use of, if so. Those of Spark's own layout are what stock Spark uses. */
  def objection(scan: BucketScan): Option[FallbackReason] = {
    val bytes = scan.bytesOfPartitions.filter(_ > 0)
    if (bytes.isEmpty || scan.read.of.hash == BucketHash.Spark || !areTooFew(bytes.length, bytes.max, scan.session)) None
    else Some(FallbackReason(FallbackReason.TooFewBuckets,
      s"${bytes.length} buckets, the largest of ${bytes.max} bytes, for ${cores(scan.session)} cores"))
  }

  /** A join that needs rows of one key together, its inputs that have them so, and those that will be moved. */
  case class Join(inPlace: Seq[SparkPlan], moved: Seq[SparkPlan])

  def joins(plan: SparkPlan): Seq[Join] = plan.collect {
    case join if join.children.length > 1 && join.requiredChildDistribution.forall(_.isInstanceOf[ClusteredDistribution]) =>
      val (inPlace, moved) = join.children.zip(join.requiredChildDistribution).partition { case (child, required) =>
        BucketRequirements.serves(child, required)
      }
      Join(inPlace.map(_._1), moved.map(_._1))
  }

  /**
   * The scans with buckets that are too few for the other input of a join, which would be moved into them. Decided once:
   * when adaptive execution plans anew, it knows other sizes, and has shuffled already.
   */
  def tooFewForOthers(plan: SparkPlan): Map[BucketScan, FallbackReason] = (for {
    join <- joins(plan)
    scan <- join.inPlace.flatMap(BucketRequirements.scansOf) if scan.read.of.hash == BucketHash.Hive
    why <- PerQueryCache(("others", scan.output.map(_.exprId)))(forBytes(scan, join.moved.flatMap(bytesOf).sum))
  } yield scan -> why).toMap

  private def forBytes(scan: BucketScan, bytes: Long): Option[FallbackReason] =
    if (!areTooFew(scan.read.partitions, bytes / scan.read.partitions, scan.session)) None
    else Some(FallbackReason(FallbackReason.TooFewBuckets, s"${scan.read.partitions} buckets, for $bytes bytes that are joined to " +
      s"them, and ${cores(scan.session)} cores"))

  /** Bytes that an input has from tables that are not read by their buckets; None where these are not known. */
  def bytesOf(input: SparkPlan): Option[Long] = {
    val tables = input.collectLeaves().filterNot(_.isInstanceOf[BucketScan]).flatMap(_.logicalLink)
    if (tables.exists(!isKnown(_))) None
    else {
      val all = tables.map(_.stats.sizeInBytes).sum
      // Spark knows what a filter, a limit or an aggregate leaves, about.
      Some(input.logicalLink.filter(isKnown).fold(all)(_.stats.sizeInBytes.min(all)).min(Long.MaxValue / 2).toLong)
    }
  }

  // Spark takes what it does not know for very large.
  private def isKnown(plan: LogicalPlan): Boolean =
    plan.collectLeaves().forall(_.stats.sizeInBytes < SQLConf.get.defaultSizeInBytes)
}
