package org.apache.spark.sql.bucketing
package read

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.plans.physical.ClusteredDistribution
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.internal.SQLConf

/**
 * Whether buckets are enough tasks for the bytes that they hold.
 *
 * A bucket is read by one task, and whatever is joined to it comes into as many. A shuffle costs a few times what reading
 * costs, so it is the better way where buckets would leave three quarters of the cores idle; or where one bucket is so
 * much larger than the others that everybody waits for it, which adaptive execution splits after a shuffle.
 */
object BucketTasks {

  private val IdleFactor = 4

  /** The cores that a query may have, those that dynamic allocation has not asked for yet among them. */
  def cores(session: SparkSession): Int = {
    val conf = session.sparkContext.getConf
    val later =
      if (!conf.getBoolean("spark.dynamicAllocation.enabled", false)) 0L
      else math.min(SQLConf.get.numShufflePartitions.toLong,
        conf.getInt("spark.dynamicAllocation.maxExecutors", Int.MaxValue).toLong * conf.getInt("spark.executor.cores", 1))
    math.max(session.sparkContext.defaultParallelism, later.toInt)
  }

  /** Whether so many tasks, the largest of so many bytes, leave most of the cores idle for long. */
  def areTooFew(tasks: Int, largest: Long, cores: Int): Boolean =
    largest > BucketingConf.maxPartitionBytes && tasks.toLong * IdleFactor < cores

  /** Why the buckets of a scan are better not made use of, if so. */
  def objection(scan: BucketScan): Option[PlainRead] = {
    val bytes = scan.bytesOfPartitions.filter(_ > 0).sorted
    if (bytes.isEmpty || bytes.last <= BucketingConf.maxPartitionBytes) None
    else {
      val (largest, median, available) = (bytes.last, bytes(bytes.length / 2), cores(scan.session))
      val found = s"${bytes.length} buckets, the largest of $largest bytes"
      if (areTooFew(bytes.length, largest, available))
        Some(PlainRead(PlainRead.TooFewBuckets, s"$found, for $available cores"))
      else if (largest > median * SQLConf.get.getConf(SQLConf.SKEW_JOIN_SKEWED_PARTITION_FACTOR))
        Some(PlainRead(PlainRead.SkewedBuckets, s"$found, the median of $median"))
      else None
    }
  }

  /** The scans with buckets that are too few for the plain input of a join, which would be moved into them. */
  def tooFewForOthers(plan: SparkPlan): Map[BucketScan, PlainRead] = plan.flatMap { join =>
    val inputs = join.children.zip(join.requiredChildDistribution)
    if (inputs.length < 2 || !inputs.forall(_._2.isInstanceOf[ClusteredDistribution])) Nil
    else {
      val (inPlace, moved) = inputs.partition { case (child, required) => BucketNeeds.serves(child, required) }
      val bytes = moved.map { case (child, _) => bytesOf(child) }.sum
      for {
        (child, _) <- inPlace
        scan <- BucketNeeds.scansOf(child)
        available = cores(scan.session)
        if areTooFew(scan.read.partitions, bytes / scan.read.partitions, available)
      } yield scan -> PlainRead(PlainRead.TooFewBuckets,
        s"${scan.read.partitions} buckets, for $bytes bytes that are joined to them, and $available cores")
    }
  }.toMap

  /** Bytes of the tables below that are not read by their buckets. */
  def bytesOf(plan: SparkPlan): Long = plan.collectLeaves().filterNot(_.isInstanceOf[BucketScan])
    .flatMap(_.logicalLink).map(_.stats.sizeInBytes).foldLeft(BigInt(0))(_ + _).min(Long.MaxValue).toLong
}
