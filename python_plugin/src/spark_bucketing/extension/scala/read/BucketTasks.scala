package org.apache.spark.sql.bucketing
package read

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.hash.BucketCounts
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.plans.physical.ClusteredDistribution
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.internal.SQLConf

/**
 * Decides whether a scan has enough buckets for its size.
 *
 * A single task reads a bucket and the rows that are joined with it. A shuffle costs several times as much as a read. Therefore,
 * a shuffle is faster only if the buckets would leave three quarters of the cores idle.
 */
object BucketTasks {

  private val IdleFactor = 4

  /** Returns the number of cores that a query can use, including cores that dynamic allocation has not requested yet. */
  def cores(session: SparkSession): Int = {
    val conf = session.sparkContext.getConf
    val later =
      if (!conf.getBoolean("spark.dynamicAllocation.enabled", false)) 0L
      else math.min(SQLConf.get.getConf(SQLConf.SHUFFLE_PARTITIONS).toLong,
        conf.getInt("spark.dynamicAllocation.maxExecutors", Int.MaxValue).toLong * conf.getInt("spark.executor.cores", 1))
    math.max(session.sparkContext.defaultParallelism, later.toInt)
  }

  /**
   * Returns whether the tasks leave most cores idle for too long. The more cores are idle, the smaller is the maximum size of a task.
   *
   * @param tasks number of tasks
   * @param largest size of the largest task in bytes
   */
  def areTooFew(tasks: Int, largest: Long, session: SparkSession): Boolean = {
    val busy = tasks.toDouble * IdleFactor / cores(session)
    busy < 1 && largest > BucketingConf.maxBucketBytes * busy
  }

  /**
   * Returns the reason for an ordinary scan if a scan has too few buckets, otherwise None. For the Spark layout, returns None,
   * because stock Spark would use the same buckets.
   */
  def objection(scan: BucketScan): Option[FallbackReason] = {
    val bytes = scan.bytesOfPartitions.filter(_ > 0)
    val ranges = scan.read.ranges.fold(1)(_.number)
    if (bytes.isEmpty || !scan.read.of.hash.inHiveLayout || !areTooFew(bytes.length, bytes.max / ranges, scan.session)) None
    else Some(FallbackReason(FallbackReason.TooFewBuckets,
      s"${bytes.length / ranges} buckets for ${cores(scan.session)} cores, and the largest has ${bytes.max} bytes"))
  }

  /**
   * The inputs of a join that requires clustered children.
   *
   * @param inPlace inputs that already satisfy the required distribution
   * @param moved inputs that Spark will shuffle
   */
  case class Join(inPlace: Seq[SparkPlan], moved: Seq[SparkPlan])

  def joins(plan: SparkPlan): Seq[Join] = plan.collect {
    case join if join.children.length > 1 && join.requiredChildDistribution.forall(_.isInstanceOf[ClusteredDistribution]) =>
      val (inPlace, moved) = join.children.zip(join.requiredChildDistribution).partition { case (child, required) =>
        BucketRequirements.satisfies(child, required)
      }
      Join(inPlace.map(_._1), moved.map(_._1))
  }

  /**
   * Returns the scans whose buckets are too few for the other input of a join, which Spark would shuffle. The decision is made
   * only once per query, because adaptive execution plans again, with new sizes, after the shuffle has run.
   */
  def tooFewForOthers(plan: SparkPlan): Map[BucketScan, FallbackReason] = (for {
    join <- joins(plan)
    scan <- join.inPlace.flatMap(BucketRequirements.scansOf) if scan.read.of.hash.inHiveLayout
    why <- PerQueryCache(("others", scan.output.map(_.exprId)))(forBytes(scan, join.moved.flatMap(bytesOf).sum))
  } yield scan -> why).toMap

  private def forBytes(scan: BucketScan, bytes: Long): Option[FallbackReason] =
    if (!areTooFew(scan.read.partitions, bytes / scan.read.partitions, scan.session)) None
    else Some(FallbackReason(FallbackReason.TooFewBuckets, s"${scan.read.partitions} buckets for ${cores(scan.session)} cores, " +
      s"and the joined inputs have $bytes bytes"))

  /** Returns the estimated size in bytes of the ordinary scans below an input, or None if it is unknown. */
  def bytesOf(input: SparkPlan): Option[Long] = {
    val tables = input.collectLeaves().filterNot(_.isInstanceOf[BucketScan]).flatMap(_.logicalLink)
    if (tables.exists(!isKnown(_))) None
    else {
      val all = tables.map(_.stats.sizeInBytes).sum
      // Spark's statistics estimate the output of filters, limits and aggregates.
      Some(input.logicalLink.filter(isKnown).fold(all)(_.stats.sizeInBytes.min(all)).min(Long.MaxValue / 2).toLong)
    }
  }

  // Spark assumes defaultSizeInBytes for a relation of unknown size.
  private def isKnown(plan: LogicalPlan): Boolean =
    plan.collectLeaves().forall(_.stats.sizeInBytes < SQLConf.get.defaultSizeInBytes)
}

/**
 * Reads several small buckets in one task. Otherwise, 1,000 buckets with a few rows each would need 1,000 tasks. Similarly,
 * Spark's own scan combines small files, and adaptive execution combines small shuffle partitions.
 *
 * There is at least one task per core, and there are enough tasks for the rows that joins shuffle. Each task must be able to
 * merge its files, so that Spark adds no sort. Tables with compatible numbers of buckets get the same number of partitions, so that
 * they stay compatible.
 */
object SmallBucketCoalescing {

  def apply(plan: SparkPlan): SparkPlan = if (BucketingConf.partitionBytes <= 0 || PerQueryCache("native and sorted")(plan.exists(isNativeAndSorted))) plan else {
    // Use the same number of tasks for the whole query, because later stages must match stages that have already run.
    val wanted = PerQueryCache("tasks")((1L +: plan.collect { case scan: BucketScan => tasks(scan) } ++: ofOthers(plan) ++: ofUnions(plan)).max)
    val numbers = plan.collect { case scan: BucketScan => scan.read.of.buckets }.toSet
    plan.transformUp {
      case scan: BucketScan if scan.read.partitions > wanted =>
        val common = BucketCounts.common(compatible(Set(scan.read.of.buckets), numbers))
        divisor(common, wanted).fold(scan)(scan.as)
    }
  }

  // A native scan cannot merge the files of several buckets, and tasks are cheaper than a sort.
  private def isNativeAndSorted(plan: SparkPlan): Boolean = plan match {
    case scan: BucketScan => scan.read.native && scan.hasSortedPartitions
    case _ => false
  }

  /**
   * Returns the number of tasks for each input that Spark shuffles into buckets. An input of unknown size may be large, so it
   * gets one task per bucket.
   */
  private def ofOthers(plan: SparkPlan): Seq[Long] = {
    val advised = SQLConf.get.getConf(SQLConf.ADVISORY_PARTITION_SIZE_IN_BYTES)
    BucketTasks.joins(plan).filter(_.inPlace.nonEmpty).flatMap(_.moved).map(BucketTasks.bytesOf(_).fold(Long.MaxValue)(tasks(_, advised)))
  }

  /** Returns the number of tasks of each input of a union that Spark shuffles into buckets. */
  private def ofUnions(plan: SparkPlan): Seq[Long] = plan.collect { case union: BucketUnionExec =>
    union.children.filterNot(_.exists(_.isInstanceOf[BucketScan])).map(_.outputPartitioning.numPartitions.toLong)
  }.flatten

  /** Returns the minimum number of tasks for a scan. */
  private def tasks(scan: BucketScan): Long = {
    Seq(BucketTasks.cores(scan.session).toLong, tasks(scan.bytes, BucketingConf.partitionBytes),
      if (scan.read.of.sorts.isEmpty) 1L else tasks(scan.numFiles, BucketingConf.mergeFiles.max(1))).max
  }

  private def tasks(all: Long, most: Long): Long = all / most + (if (all % most == 0) 0 else 1)

  /** Extends the given numbers by all numbers that divide, or are multiples of, a number already in the result. */
  @scala.annotation.tailrec
  private def compatible(these: Set[Int], all: Set[Int]): Set[Int] = {
    val more = all.filter(n => these.exists(BucketCounts.areCompatible(_, n)))
    if (more == these) these else compatible(more, all)
  }

  private def divisor(buckets: Int, atLeast: Long): Option[Int] =
    (1 to buckets).find(n => n >= atLeast && buckets % n == 0)
}
