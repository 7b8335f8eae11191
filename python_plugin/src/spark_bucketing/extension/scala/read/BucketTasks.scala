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

  /** Whether so many tasks, the largest of so many bytes, leave most of the cores idle for long. */
  def areTooFew(tasks: Int, largest: Long, session: SparkSession): Boolean =
    largest > BucketingConf.maxPartitionBytes && tasks.toLong * IdleFactor < cores(session)

  /** Why the buckets of a scan are better not made use of, if so. Those of Spark's own layout are what stock Spark uses. */
  def objection(scan: BucketScan): Option[PlainRead] = {
    val bytes = scan.bytesOfPartitions.filter(_ > 0)
    if (bytes.isEmpty || scan.read.of.hash == BucketHash.Spark || !areTooFew(bytes.length, bytes.max, scan.session)) None
    else Some(PlainRead(PlainRead.TooFewBuckets,
      s"${bytes.length} buckets, the largest of ${bytes.max} bytes, for ${cores(scan.session)} cores"))
  }

  /**
   * The scans with buckets that are too few for the other input of a join, which would be moved into them. Decided once:
   * when adaptive execution plans anew, it knows other sizes, and has shuffled already.
   */
  def tooFewForOthers(plan: SparkPlan): Map[BucketScan, PlainRead] = plan.flatMap { join =>
    val inputs = join.children.zip(join.requiredChildDistribution)
    if (inputs.length < 2 || !inputs.forall(_._2.isInstanceOf[ClusteredDistribution])) Nil
    else {
      val (inPlace, moved) = inputs.partition { case (child, required) => BucketNeeds.serves(child, required) }
      for {
        (child, _) <- inPlace
        scan <- BucketNeeds.scansOf(child) if scan.read.of.hash == BucketHash.Hive
        why <- OncePerQuery(("others", scan.output.map(_.exprId)))(forBytes(scan, moved.map(input => bytesOf(input._1)).sum))
      } yield scan -> why
    }
  }.toMap

  private def forBytes(scan: BucketScan, bytes: Long): Option[PlainRead] =
    if (!areTooFew(scan.read.partitions, bytes / scan.read.partitions, scan.session)) None
    else Some(PlainRead(PlainRead.TooFewBuckets, s"${scan.read.partitions} buckets, for $bytes bytes that are joined to " +
      s"them, and ${cores(scan.session)} cores"))

  /** Bytes that come from tables that are not read by their buckets, as far as they are known. */
  def bytesOf(plan: SparkPlan): Long = {
    val tables = plan.collectLeaves().filterNot(_.isInstanceOf[BucketScan]).flatMap(_.logicalLink).map(known)
    (plan.logicalLink.map(known).filter(_ > 0).toSeq :+ tables.sum).min.min(Long.MaxValue).toLong
  }

  // Spark takes what it does not know for very large.
  private def known(plan: LogicalPlan): BigInt =
    if (plan.collectLeaves().exists(_.stats.sizeInBytes >= SQLConf.get.defaultSizeInBytes)) 0 else plan.stats.sizeInBytes
}
