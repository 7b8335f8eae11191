package org.apache.spark.sql.bucketing
package write

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.KnownBugs
import org.apache.spark.sql.bucketing.hash.BucketHash
import org.apache.spark.sql.bucketing.read.{BucketRequirements, BucketTasks}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Add, Ascending, Attribute, Empty2Null, Expression, Literal, NullsFirst, Pmod, SortOrder}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy, UnaryExecNode}
import org.apache.spark.sql.execution.exchange.{ENSURE_REQUIREMENTS, REPARTITION_BY_NUM, ShuffleExchangeExec}
import org.apache.spark.sql.types.StringType

/**
 * Rows on their way into a bucketed table: all rows of a bucket (of a partition) in one task.
 *
 * @param partitionedBy the partition columns whose values the rows bring along
 * @param keys the bucket columns
 * @param wanted tasks that shall write several partitions side by side; a single one is written by a task per bucket
 */
case class BucketedRows(
    partitionedBy: Seq[Attribute], keys: Seq[Attribute], hash: BucketHash, buckets: Int, wanted: Int, child: LogicalPlan)
    extends UnaryNode {

  override def output: Seq[Attribute] = child.output
  override def maxRows: Option[Long] = child.maxRows
  override protected def withNewChildInternal(changed: LogicalPlan): LogicalPlan = copy(child = changed)

  def partitioning: HashPartitioning =
    if (partitionedBy.isEmpty) hash.partitioning(keys, buckets)
    else new WriteTasks(partitionedBy.map(directory), keys, hash.partitioning(keys, buckets), buckets.max(wanted))

  // The empty string and NULL are one partition, with one directory.
  private def directory(column: Attribute): Expression =
    if (column.dataType == StringType && column.nullable) Empty2Null(column) else column
}

/**
 * Rows spread over tasks by partition and bucket. The buckets of a partition have tasks of their own as long as there
 * are enough; each partition starts at another task, so that partitions do not queue up on the first ones.
 */
class WriteTasks(directories: Seq[Expression], keys: Seq[Expression], bucket: HashPartitioning, tasks: Int)
    extends HashPartitioning(directories ++ keys, tasks) {

  override def partitionIdExpression: Expression = {
    val start = HashPartitioning(directories, tasks).partitionIdExpression
    Pmod(Add(start, bucket.partitionIdExpression), Literal(tasks))
  }

  override def copy(expressions: Seq[Expression], numPartitions: Int): HashPartitioning = {
    val (newDirectories, newKeys) = expressions.splitAt(directories.size)
    new WriteTasks(newDirectories, newKeys, bucket.copy(newKeys, bucket.numPartitions), numPartitions)
  }

  override protected def withNewChildrenInternal(children: IndexedSeq[Expression]): HashPartitioning =
    copy(children, numPartitions)

  override def productPrefix: String = "WriteTasks"
  override def prettyName: String = "writetasks"
  override def canEqual(other: Any): Boolean = other.isInstanceOf[WriteTasks]

  override def equals(other: Any): Boolean =
    canEqual(other) && super.equals(other) && other.asInstanceOf[WriteTasks].bucketing == bucketing
  override def hashCode: Int = 31 * super.hashCode + 2

  private def bucketing: HashPartitioning = bucket
}

/**
 * The physical counterpart. It requires of its child what Spark can express, so that no later rule takes rows of one key
 * apart; EnsureBucketedRows sees to the rest.
 */
case class BucketedRowsExec(
    keys: Seq[Attribute], hash: BucketHash, buckets: Int, partitioning: HashPartitioning, child: SparkPlan)
    extends UnaryExecNode {

  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  // Spark's write looks at the columns of an order, and takes a descending one for that of the buckets.
  override def outputOrdering: Seq[SortOrder] =
    child.outputOrdering.takeWhile(order => order.direction == Ascending && order.nullOrdering == NullsFirst)

  override def requiredChildDistribution: Seq[Distribution] =
    ClusteredDistribution(partitioning.expressions, requireAllClusterKeys = false) :: Nil

  /** Whether rows spread like this have all rows of a bucket in one task, also when tasks have several buckets. */
  def isServedBy(found: Partitioning): Boolean = found match {
    case PartitioningCollection(all) => all.exists(isServedBy)
    case CoalescedHashPartitioning(whole, _) => isServedBy(whole)
    case hashed: HashPartitioning => hashed == partitioning || isByBucket(hashed)
    case _ => found.numPartitions == 1
  }

  // Fewer tasks than there are buckets do, as long as they keep the cores busy.
  private def isByBucket(found: HashPartitioning): Boolean =
    found.numPartitions > 0 && buckets % found.numPartitions == 0 &&
      found.numPartitions >= math.min(partitioning.numPartitions, BucketTasks.cores(session)) &&
      hash.partitioning(keys, found.numPartitions).semanticEquals(found)

  override protected def doExecute(): RDD[InternalRow] = child.execute()
  override def simpleString(maxFields: Int): String = s"BucketedRows $buckets $hash buckets"
  override protected def withNewChildInternal(changed: SparkPlan): SparkPlan = copy(child = changed)
}

/** Plans the shuffle as one that the user asked for, which adaptive execution neither coalesces nor splits. */
case class PlanBucketedRows(session: SparkSession) extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case rows: BucketedRows =>
      val partitioning = if (rows.maxRows.exists(_ <= PlanBucketedRows.Few)) SinglePartition else rows.partitioning
      val shuffle = ShuffleExchangeExec(partitioning, planLater(rows.child), REPARTITION_BY_NUM)
      BucketedRowsExec(rows.keys, rows.hash, rows.buckets, rows.partitioning, shuffle) :: Nil
    case _ => Nil
  }
}

object PlanBucketedRows {

  /** So many rows are written by one task: a task for each bucket would cost more than it writes. */
  private val Few = 100L
}

/**
 * Once Spark's exchanges stand: drops the shuffle by bucket where the rows come spread by bucket already, as from a
 * bucketed scan or a join on the bucket columns; and puts it back where Spark put another one in its place.
 */
object EnsureBucketedRows extends Rule[SparkPlan] {

  override def apply(plan: SparkPlan): SparkPlan = dropNeedless(plan).transformUp {
    case write: BucketedRowsExec if !write.isServedBy(write.child.outputPartitioning) =>
      val below = write.child match {
        case shuffle: ShuffleExchangeExec if shuffle.shuffleOrigin == ENSURE_REQUIREMENTS => shuffle.child
        case other => other
      }
      write.copy(child = ShuffleExchangeExec(write.partitioning, below, REPARTITION_BY_NUM))
  }

  /**
   * Also of use before Spark's exchanges stand, so that scans are told that the write needs their buckets: should it
   * turn out that they have none, or that Spark shuffles in between, the shuffle comes back.
   */
  def dropNeedless(plan: SparkPlan): SparkPlan = plan.transformUp {
    case write @ BucketedRowsExec(_, _, _, _, shuffle: ShuffleExchangeExec)
        if KnownBugs.ofUnions.isEmpty && shuffle.shuffleOrigin == REPARTITION_BY_NUM && write.isServedBy(BucketRequirements.partitioning(shuffle.child)) =>
      write.copy(child = shuffle.child)
  }
}
