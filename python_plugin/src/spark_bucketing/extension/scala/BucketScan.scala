package org.apache.spark.sql.bucketing

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.bucketing.ScanOfBuckets.like
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, UnknownPartitioning}
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.datasources._

/** The buckets of a table by its metadata. Columns are named as in the table. */
case class BucketsOf(table: String, hash: BucketHash, buckets: Int, keys: Seq[String], sorts: Seq[String])

/**
 * How a scan reads the buckets of a table.
 *
 * @param of the table's buckets
 * @param partitions partitions of the scan: as many as there are buckets, or a divisor or a multiple of that number
 * @param ordered each partition is read in the order of the table's sort columns
 */
case class BucketRead(of: BucketsOf, partitions: Int, ordered: Boolean = false) {

  /** The partitions that read a bucket: one, or several that share it when there are more partitions than buckets. */
  def partitionsOf(bucket: Int): Seq[Int] =
    if (partitions <= of.buckets) Seq(bucket % partitions) else bucket until partitions by of.buckets

  override def toString: String = {
    val parts = if (partitions == of.buckets) "" else s" read as $partitions"
    s"${of.buckets} ${of.hash} buckets$parts${if (ordered) ", sorted" else ""}"
  }
}

/**
 * Spark's file scan with another answer to where the rows lie. A subclass, so that columns, filters, dynamic pruning,
 * batches and metrics stay Spark's.
 */
sealed abstract class ScanOfBuckets(stock: FileSourceScanExec) extends StockScan(stock) {

  /** The files that the planner looked at; the proof is about these, so these are read. Null before they are listed. */
  def listing: ScanFileListing

  /** Shown in EXPLAIN under the key that Spark uses for its own bucketed tables. */
  protected def bucketed: String

  protected def rebuilt(stock: FileSourceScanExec): ScanOfBuckets

  // Spark changes a node through its constructor's arguments, which here are those of the stock scan.
  override def makeCopy(newArgs: Array[AnyRef]): SparkPlan =
    like(this, rebuilt(copy().makeCopy(newArgs).asInstanceOf[FileSourceScanExec]))
  override def clone(): SparkPlan = like(this, rebuilt(copy()))

  // A rule that gives back an equal node has changed nothing, to Spark: a claim and a listing are a change.
  override def canEqual(other: Any): Boolean = other.getClass == getClass
  override def equals(other: Any): Boolean = other match {
    case that: ScanOfBuckets => super.equals(that) && bucketed == that.bucketed && (listing eq that.listing)
    case _ => false
  }
  override def hashCode: Int = 31 * super.hashCode + bucketed.hashCode

  override lazy val metadata: Map[String, String] = copy().metadata + ("Bucketed" -> bucketed)

  @transient override lazy val selectedPartitions: ScanFileListing = {
    val files = if (listing == null) copy().selectedPartitions else listing
    val prefix = if (staticMetrics.isEmpty) Seq("numFiles", "filesSize") else Seq("staticFilesNum", "staticFilesSize")
    prefix.zip(Seq(files.totalNumberOfFiles, files.totalFileSize)).foreach { case (name, value) =>
      driverMetrics(name).set(value)
    }
    driverMetrics.get("numPartitions").foreach(_.set(files.partitionCount))
    files
  }
}

object ScanOfBuckets {

  /** Give a scan what the planner noted on another one, such as its logical plan. */
  def like[T <: ScanOfBuckets](noted: SparkPlan, scan: T): T = {
    scan.copyTagsFrom(noted)
    scan
  }
}

/** A plain read of a table that is bucketed by its metadata, and why it is read plainly. */
class PlainScan(stock: FileSourceScanExec, val why: String, @transient val listing: ScanFileListing)
    extends ScanOfBuckets(stock) {
  override protected def bucketed: String = s"false ($why)"
  override protected def rebuilt(stock: FileSourceScanExec): ScanOfBuckets = new PlainScan(stock, why, listing)
}

/** A read of whole buckets: partition i holds the rows whose bucket is i. */
class BucketScan(stock: FileSourceScanExec, val read: BucketRead, @transient val listing: ScanFileListing)
    extends ScanOfBuckets(stock) {

  override protected def bucketed: String = s"true ($read)"
  override protected def rebuilt(stock: FileSourceScanExec): ScanOfBuckets = new BucketScan(stock, read, listing)

  def copyWith(read: BucketRead = read, listing: ScanFileListing = listing): BucketScan =
    like(this, new BucketScan(copy(), read, listing))

  /** The same table read as stock Spark would, from the same listing. */
  def plain(why: String): PlainScan = like(this, new PlainScan(copy(), why, listing))

  private def columns(names: Seq[String]): Seq[Attribute] =
    names.map(name => output.find(_.name == name)).takeWhile(_.isDefined).flatten

  def keys: Seq[Attribute] = columns(read.of.keys)

  override lazy val outputPartitioning: Partitioning =
    if (keys.length == read.of.keys.length) read.of.hash.partitioning(keys, read.partitions)
    else UnknownPartitioning(0)

  override lazy val outputOrdering: Seq[SortOrder] =
    if (read.ordered) columns(read.of.sorts).map(SortOrder(_, Ascending)) else Nil

  override lazy val inputRDD: RDD[InternalRow] = {
    val files = BucketScan.spread(dynamicallySelectedPartitions.toPartitionArray, read)
    val partitions = files.zipWithIndex.map { case (of, i) => FilePartition(i, of.toArray) }
    val rows = Compat.fileScan(this, reader, partitions)
    sendDriverMetrics()
    rows
  }

  private def reader: PartitionedFile => Iterator[InternalRow] =
    relation.fileFormat.buildReaderWithPartitionValues(
      sparkSession = relation.sparkSession,
      dataSchema = relation.dataSchema,
      partitionSchema = relation.partitionSchema,
      requiredSchema = requiredSchema,
      filters = pushedDownFilters,
      options = relation.options + (FileFormat.OPTION_RETURNING_BATCH -> supportsColumnar.toString),
      hadoopConf = relation.sparkSession.sessionState.newHadoopConfWithOptions(relation.options))
}

object BucketScan {

  /** The files of each partition. Files without a byte hold no rows, and no footer that a reader could open. */
  def spread(files: Array[PartitionedFile], read: BucketRead): IndexedSeq[Seq[PartitionedFile]] = {
    val spread = Array.fill(read.partitions)(Seq.newBuilder[PartitionedFile])
    for {
      file <- files if file.length > 0
      bucket = BucketFiles.bucketOf(file.toPath.getName, read.of.hash).get
      partition <- read.partitionsOf(bucket)
    } spread(partition) += file
    spread.toIndexedSeq.map(_.result())
  }
}
