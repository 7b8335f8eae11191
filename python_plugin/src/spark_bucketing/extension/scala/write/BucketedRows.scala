package org.apache.spark.sql.bucketing
package write

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.hash.{BucketHash, SaltedPartitioning, PartitionScheme}
import org.apache.spark.sql.bucketing.read.{BucketRequirements, BucketTasks, RepartitionsByBucket}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.catalog.{BucketSpec, CatalogTable}
import org.apache.spark.sql.catalyst.expressions.{Add, Ascending, Attribute, Empty2Null, Expression, Literal, NullsFirst, Pmod, SortOrder}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryNode}
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector.write.WriterCommitMessage
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanExec, QueryStageExec}
import org.apache.spark.sql.execution.datasources._
import org.apache.spark.sql.execution.exchange.{ENSURE_REQUIREMENTS, Exchange, REPARTITION_BY_NUM, ShuffleExchangeExec}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.StringType

/**
 * Distributes the rows of a write into a bucketed table. One task gets all rows of a bucket in a partition.
 *
 * @param partitionedBy the dynamic partition columns
 * @param keys the bucket columns
 * @param wanted the minimum number of tasks if there are dynamic partition columns; otherwise, each bucket has one task. 0 if other rows, which are
 *               distributed by bucket, join them
 */
case class BucketedRows(
    partitionedBy: Seq[Attribute], keys: Seq[Attribute], hash: BucketHash, buckets: Int, wanted: Int, child: LogicalPlan)
    extends UnaryNode {

  override def output: Seq[Attribute] = child.output
  override def maxRows: Option[Long] = child.maxRows
  override protected def withNewChildInternal(changed: LogicalPlan): LogicalPlan = copy(child = changed)

  def partitioning: HashPartitioning =
    if (partitionedBy.isEmpty) hash.partitioning(keys, buckets)
    else new WriteTasks(partitionedBy.map(directory), keys, hash, buckets, buckets.max(wanted))

  // Spark writes rows with an empty string and rows with NULL into the same partition directory.
  private def directory(column: Attribute): Expression =
    if (column.dataType == StringType && column.nullable) Empty2Null(column) else column
}

/**
 * Distributes rows over tasks by partition and bucket. If there are enough tasks, the buckets of a partition go to
 * different tasks. The first task depends on the partition values, so that not all partitions start at task 0.
 */
class WriteTasks(directories: Seq[Expression], by: Seq[Expression], hash: BucketHash, buckets: Int, tasks: Int)
    extends SaltedPartitioning(directories ++ by, WriteScheme(directories.size, hash, buckets), tasks) {

  override protected def like(keys: Seq[Expression], n: Int): WriteTasks = {
    val (newDirectories, newKeys) = keys.splitAt(directories.size)
    new WriteTasks(newDirectories, newKeys, hash, buckets, n)
  }

  override def productPrefix: String = "WriteTasks"
  override def prettyName: String = "writetasks"
}

private case class WriteScheme(directories: Int, hash: BucketHash, buckets: Int) extends PartitionScheme {
  override def partitionId(keys: Seq[Expression], n: Int): Expression = {
    val (folder, by) = keys.splitAt(directories)
    Pmod(Add(HashPartitioning(folder, n).partitionIdExpression, hash.bucketId(by, buckets)), Literal(n))
  }
}

/**
 * The physical operator for [[BucketedRows]]. The operator requires a ClusteredDistribution, so that no later rule separates rows
 * with equal keys. [[EnsureBucketedRows]] enforces the exact partitioning.
 */
case class BucketedRowsExec(
    keys: Seq[Attribute], hash: BucketHash, buckets: Int, partitioning: HashPartitioning, child: SparkPlan)
    extends RepartitionsByBucket {

  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  // Spark's write compares only the columns of an ordering. It would therefore mistake a descending order for the sort order of the buckets.
  override def outputOrdering: Seq[SortOrder] =
    child.outputOrdering.takeWhile(order => order.direction == Ascending && order.nullOrdering == NullsFirst)

  override def requiredChildDistribution: Seq[Distribution] =
    ClusteredDistribution(BucketedRowsExec.keysOf(partitioning), requireAllClusterKeys = false) :: Nil

  override def isSatisfiedBy(found: Partitioning): Boolean = found match {
    case PartitioningCollection(all) => all.exists(isSatisfiedBy)
    case CoalescedHashPartitioning(whole, _) => isSatisfiedBy(whole)
    case hashed: HashPartitioning => hashed == partitioning || isByBucket(hashed)
    case _ => found.numPartitions == 1
  }

  // There may be fewer tasks than buckets, provided that the tasks keep all cores busy.
  private def isByBucket(found: HashPartitioning): Boolean =
    found.numPartitions > 0 && buckets % found.numPartitions == 0 &&
      found.numPartitions >= math.min(partitioning.numPartitions, BucketTasks.cores(session)) &&
      hash.partitioning(keys, found.numPartitions).semanticEquals(found)

  override protected def doExecute(): RDD[InternalRow] = child.execute()
  override def simpleString(maxFields: Int): String = s"BucketedRows $buckets $hash buckets"
  override protected def withNewChildInternal(changed: SparkPlan): SparkPlan = copy(child = changed)
}

object BucketedRowsExec {
  private def keysOf(partitioning: HashPartitioning): Seq[Expression] = partitioning match {
    case keyed: SaltedPartitioning => keyed.keys
    case ofSpark => ofSpark.expressions
  }

  /** Returns whether the rows of a write are distributed by bucket. */
  def isIn(written: SparkPlan): Boolean = find(written) { case rows: BucketedRowsExec => rows }.isDefined

  /** Returns the operator that distributed the rows of a write in another way than planned, or None. Other extensions may replace Spark's exchange. */
  def otherExchange(written: SparkPlan): Option[String] = find(written) { case rows: BucketedRowsExec => rows }.flatMap { rows =>
    find(rows.child) { case exchange: Exchange => exchange }.filter { found =>
      found.getClass != classOf[ShuffleExchangeExec] || !rows.isSatisfiedBy(found.outputPartitioning)
    }
  }.map(found => s"${found.simpleString(MaxFields).take(MaxLength)} (${found.getClass.getName})")

  private val MaxFields = 10
  private val MaxLength = 200

  /** Finds the topmost operator, also in adaptive plans. */
  private def find[A](plan: SparkPlan)(operator: PartialFunction[SparkPlan, A]): Option[A] = operator.lift(plan).orElse(plan match {
    case adaptive: AdaptiveSparkPlanExec => find(adaptive.executedPlan)(operator)
    case stage: QueryStageExec => find(stage.plan)(operator)
    case other => other.children.iterator.map(find(_)(operator)).collectFirst { case Some(found) => found }
  })
}

/**
 * Removes the shuffle by bucket if the rows are already distributed by bucket, for example after a bucketed scan or a join
 * on the bucket columns. Adds the shuffle again if Spark has replaced it. This rule runs after Spark has added its exchanges.
 */
object EnsureBucketedRows extends Rule[SparkPlan] {

  override def apply(plan: SparkPlan): SparkPlan = BucketRequirements.withoutNeedlessShuffles(plan).transformUp {
    case write: BucketedRowsExec if !write.isSatisfiedBy(write.child.outputPartitioning) =>
      val below = write.child match {
        case shuffle: ShuffleExchangeExec if shuffle.shuffleOrigin == ENSURE_REQUIREMENTS => shuffle.child
        case other => other
      }
      write.copy(child = ShuffleExchangeExec(write.partitioning, below, REPARTITION_BY_NUM))
  }
}

/**
 * Spark's file writer with another expression for the bucket id. Spark's `V1WritesUtils` knows only its own hash and Hive's hash
 * of version 1, so this operator replaces the expression in the description of the write.
 */
class BucketWriteExec(
    child: SparkPlan, format: FileFormat, partitions: Seq[Attribute], spec: Option[BucketSpec], writeOptions: Map[String, String],
    static: Map[String, String])
    extends WriteFilesExec(child, format, partitions, spec, writeOptions, static) {

  // For concurrent writers, the description sorts rows by Spark's own bucket id, so this operator does not use concurrent writers.
  override def doExecuteWrite(of: WriteFilesSpec): RDD[WriterCommitMessage] =
    super.doExecuteWrite(of.copy(description = described(of.description), concurrentOutputWriterSpecFunc = _ => None))

  private def described(of: WriteJobDescription): WriteJobDescription = new WriteJobDescription(
    of.uuid, of.serializableHadoopConf, of.outputWriterFactory, of.allColumns, of.dataColumns, of.partitionColumns,
    of.bucketSpec.map(_.copy(bucketIdExpression = BucketWriteExec.bucketId(of.dataColumns, spec.get, writeOptions))), of.path,
    of.customPartitionLocations, of.maxRecordsPerFile, of.timeZoneId, of.statsTrackers)

  override def nodeName: String = "WriteFiles"
  override protected def withNewChildInternal(changed: SparkPlan): BucketWriteExec =
    new BucketWriteExec(changed, format, partitions, spec, writeOptions, static)
}

object BucketWriteExec {

  private def column(columns: Seq[Attribute], name: String): Attribute =
    columns.find(column => SQLConf.get.resolver(column.name, name)).get

  private def bucketId(columns: Seq[Attribute], spec: BucketSpec, options: Map[String, String]): Expression =
    SealedWrites.hashOf(options).bucketId(spec.bucketColumnNames.map(column(columns, _)), spec.numBuckets)

  /** Returns the ordering that the writer requires, so that it has only one open file at a time. */
  def ordering(
      columns: Seq[Attribute], dynamic: Seq[Attribute], spec: BucketSpec, options: Map[String, String]): Seq[SortOrder] =
    (dynamic ++ Seq(bucketId(columns, spec, options)) ++ spec.sortColumnNames.map(column(columns, _))).map(SortOrder(_, Ascending))

  /** Throws an error if Spark's own writer would assign rows to buckets with another hash than the table's. */
  def check(plan: SparkPlan, options: Map[String, String], table: Option[CatalogTable]): Unit = {
    val hash = SealedWrites.hashOf(options)
    if (!hash.isWrittenByStockSpark && !V1WritesUtils.getWriteFilesOpt(plan).exists(_.isInstanceOf[BucketWriteExec])) throw Compat.refusal(
      s"Cannot write into ${table.fold("a new table")(_.identifier.quotedString)}.", s"a file writer that does not support bucket_hash='${hash.name}'",
      "the writer of the session extension", "remove other extensions that replace Spark's writer")
  }
}

/** Plans the operators of writes. */
object PlanWrites extends SparkStrategy {

  /** The maximum number of rows that a single task writes to all buckets. For so few rows, one task per bucket would be slower. */
  private val Few = 100L

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    // A shuffle like that of an explicit repartition, so that adaptive execution neither coalesces nor splits its partitions.
    case rows: BucketedRows =>
      val partitioning = if (rows.wanted > 0 && rows.maxRows.exists(_ <= Few)) SinglePartition else rows.partitioning
      val shuffle = ShuffleExchangeExec(partitioning, planLater(rows.child), REPARTITION_BY_NUM)
      BucketedRowsExec(rows.keys, rows.hash, rows.buckets, rows.partitioning, shuffle) :: Nil
    case rows: RowsBySlot => ShuffleExchangeExec(new SlotPartitioning(rows.slot, rows.tasks), planLater(rows.child), REPARTITION_BY_NUM) :: Nil
    case WriteFiles(child, format, partitions, spec @ Some(_), options, static) if !SealedWrites.hashOf(options).isWrittenByStockSpark =>
      new BucketWriteExec(planLater(child), format, partitions, spec, options, static) :: Nil
    case query: HintedQuery => throw OverwriteHints.unused(query)
    case _ => Nil
  }
}
