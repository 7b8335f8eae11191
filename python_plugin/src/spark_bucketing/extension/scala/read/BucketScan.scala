package org.apache.spark.sql.bucketing
package read

import java.time.Instant

import scala.jdk.CollectionConverters._

import org.apache.spark.SparkException
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.bucketing.compat.{Compat, NotByOneTask, ScanFiles, StockScan}
import org.apache.spark.sql.bucketing.hash.BucketHash
import org.apache.spark.sql.bucketing.read.BucketAwareScan.like
import org.apache.spark.sql.bucketing.metadata.BucketFiles
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, UnknownPartitioning}
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.datasources._
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.apache.spark.util.SerializableConfiguration

/** The buckets of a table as they are sealed. Columns are named as in the table. */
case class SealedBuckets(table: String, hash: BucketHash, buckets: Int, keys: Seq[String], sorts: Seq[String])

/**
 * How a scan reads the buckets of a table.
 *
 * @param of the table's buckets, or those that buckets of several numbers are read as
 * @param folders what is sealed
 * @param partitions partitions of the scan: as many as there are buckets, or a divisor or a multiple of that number
 * @param ordered each partition is read in the order of the table's sort columns
 * @param merged the files of a partition are merged by that order; otherwise they are read one after the other
 */
case class BucketRead(
    of: SealedBuckets, @transient folders: SealedFolders, partitions: Int, ordered: Boolean = false, merged: Boolean = false) {

  /** Several partitions share a bucket, and each has to keep its own rows only. */
  def splits: Boolean = partitions > of.buckets

  /** Whether the buckets can be read as so many partitions: several as one, or each several times. */
  def canBe(partitions: Int): Boolean = partitions % of.buckets == 0 || of.buckets % partitions == 0

  /** The partitions that read a bucket: one, or several that share it when there are more partitions than buckets. */
  def partitionsOf(bucket: Int): Seq[Int] =
    if (partitions <= of.buckets) Seq(bucket % partitions) else bucket until partitions by of.buckets

  override def toString: String = {
    val parts = if (partitions == of.buckets) "" else s" read as $partitions"
    val order = if (merged) ", merged" else if (ordered) ", sorted" else ""
    s"${of.buckets} ${of.hash} buckets$folders$parts$order"
  }
}

/**
 * Spark's file scan with another answer to where the rows lie. A subclass, so that columns, filters, dynamic pruning,
 * batches and metrics stay Spark's.
 */
sealed abstract class BucketAwareScan(stock: FileSourceScanExec) extends StockScan(stock) {

  /** The files that the planner looked at; the seal is of these, so these are read. Null before they are listed. */
  def listing: BucketListing

  /** Shown in EXPLAIN under the key that Spark uses for its own bucketed tables. */
  protected def bucketed: String

  protected def rebuilt(stock: FileSourceScanExec): BucketAwareScan

  // Spark changes a node through its constructor's arguments, which here are those of the stock scan.
  override def makeCopy(newArgs: Array[AnyRef]): SparkPlan =
    like(this, rebuilt(copy().makeCopy(newArgs).asInstanceOf[FileSourceScanExec]))
  override def clone(): SparkPlan = like(this, rebuilt(copy()))

  // A rule that gives back an equal node has changed nothing, to Spark: a claim and a listing are a change.
  override def canEqual(other: Any): Boolean = other.getClass == getClass
  override def equals(other: Any): Boolean = other match {
    case that: BucketAwareScan => super.equals(that) && bucketed == that.bucketed && (listing eq that.listing)
    case _ => false
  }
  override def hashCode: Int = 31 * super.hashCode + bucketed.hashCode

  override lazy val metadata: Map[String, String] = copy().metadata + ("Bucketed" -> bucketed) ++
    Option(listing).flatMap(_.pruned).map("SelectedBucketsCount" -> _)

  @transient override lazy val selectedPartitions: ScanFiles.Listing = {
    val files = if (listing == null) copy().selectedPartitions else listing.stock
    val prefix = if (staticMetrics.isEmpty) Seq("numFiles", "filesSize") else Seq("staticFilesNum", "staticFilesSize")
    prefix.zip(Seq(ScanFiles.number(files), ScanFiles.bytes(files))).foreach { case (name, value) =>
      driverMetrics(name).set(value)
    }
    driverMetrics.get("numPartitions").foreach(_.set(ScanFiles.partitions(files)))
    files
  }
}

object BucketAwareScan {

  /** Give an operator what the planner noted on another one, such as its logical plan. */
  def like[T <: SparkPlan](noted: SparkPlan, operator: T): T = {
    operator.copyTagsFrom(noted)
    operator
  }
}

/** A plain read of a table that is bucketed by its metadata, and why it is read plainly. */
class FallbackScan(stock: FileSourceScanExec, val why: FallbackReason, @transient val listing: BucketListing)
    extends BucketAwareScan(stock) {
  override protected def bucketed: String = s"false $why"
  override protected def rebuilt(stock: FileSourceScanExec): BucketAwareScan = new FallbackScan(stock, why, listing)
}

/** A read of whole buckets: partition i holds the rows whose bucket is i. */
class BucketScan(stock: FileSourceScanExec, val read: BucketRead, @transient val listing: BucketListing)
    extends BucketAwareScan(stock) with NotByOneTask {

  override protected def bucketed: String = s"true ($read)"
  override protected def rebuilt(stock: FileSourceScanExec): BucketAwareScan = new BucketScan(stock, read, listing)

  def copyWith(read: BucketRead = read, listing: BucketListing = listing): BucketScan =
    like(this, new BucketScan(copy(), read, listing))

  /** The same table read as stock Spark would, which lists its files when it runs; or what a filter has left of them. */
  def plain(why: FallbackReason): FallbackScan = like(this, new FallbackScan(copy(), why, Option(listing).filter(_.pruned.isDefined).orNull))

  private def columns(names: Seq[String]): Seq[Attribute] =
    names.toIndexedSeq.map(name => output.find(_.name == name)).takeWhile(_.isDefined).flatten

  def keys: Seq[Attribute] = columns(read.of.keys)

  override lazy val outputPartitioning: Partitioning =
    if (keys.length == read.of.keys.length) read.of.hash.partitioning(keys, read.partitions)
    else UnknownPartitioning(0)

  override lazy val outputOrdering: Seq[SortOrder] =
    if (read.ordered) columns(read.of.sorts).map(SortOrder(_, Ascending)) else Nil

  @transient private lazy val files: BucketListing = Option(listing).getOrElse(new BucketListing(selectedPartitions))

  /** Bytes of all files. */
  def bytes: Long = files.bytes

  /** How many files there are. */
  def numFiles: Long = files.files.length

  /** Files of each partition, by what was listed. */
  private lazy val listedFiles: IndexedSeq[Seq[PartitionedFile]] =
    BucketScan.spread(files.files, read)

  /** The same buckets read as another number of partitions; sorted only where each of them is one file. */
  def as(partitions: Int): BucketScan = {
    require(read.canBe(partitions), s"${read.of.buckets} buckets cannot be read as $partitions")
    val spread = copyWith(read.copy(partitions = partitions, ordered = false, merged = false))
    spread.copyWith(spread.read.copy(ordered = read.of.sorts.nonEmpty && spread.listedFiles.forall(_.length <= 1)))
  }

  /** Bytes of the files of each partition. */
  def bytesOfPartitions: Seq[Long] = listedFiles.map(_.map(_.length).sum)

  /** Whether the files of every partition can be merged by the sort columns: they are all open at the same time. */
  def mergeable: Boolean = read.of.sorts.nonEmpty && listedFiles.forall { files =>
    files.length <= 1 || files.length <= BucketingConf.mergeFiles && opened(files) <= BucketingConf.mergeBytes
  }

  /** Bytes that open files take, about: the columns that are read of a row group each. */
  private def opened(files: Seq[PartitionedFile]): Double =
    files.map(file => math.min(file.length, BucketScan.RowGroup).toDouble).sum *
      requiredSchema.defaultSize / math.max(relation.dataSchema.defaultSize, 1)

  // Whether the files are read in batches, which a merge takes apart again.
  private lazy val batches: Boolean = copy().supportsColumnar
  override lazy val supportsColumnar: Boolean = batches && !read.merged

  override lazy val inputRDD: RDD[InternalRow] = {
    val left = dynamicallySelectedPartitions
    val files = if (left eq selectedPartitions) listedFiles else BucketScan.spread(new BucketListing(left).files, read)
    val rows = if (read.merged) mergedFiles(files) else scanned(files)
    sendDriverMetrics()
    rows
  }

  private def scanned(partitions: Seq[Seq[PartitionedFile]]): RDD[InternalRow] =
    Compat.fileScan(this, reader, partitions.zipWithIndex.map { case (of, i) => FilePartition(i, of.toArray) })

  private def mergedFiles(files: IndexedSeq[Seq[PartitionedFile]]): RDD[InternalRow] = {
    val single = scanned(files.flatten.map(Seq(_))).mapPartitions(BucketScan.rows)
    val first = files.scanLeft(0)(_ + _.length)
    val from = files.indices.map(i => files(i).indices.map(j => (0, first(i) + j)))
    new CombinedPartitionsRDD(sparkContext, Seq(single), from, outputOrdering, output)
  }

  override protected def doExecute(): RDD[InternalRow] =
    if (!read.merged) super.doExecute()
    else {
      val numOutputRows = longMetric("numOutputRows")
      val (columns, rows) = (output, inputRDD)
      rows.mapPartitionsWithIndexInternal { (index, iterator) =>
        val toUnsafe = UnsafeProjection.create(columns, columns)
        toUnsafe.initialize(index)
        iterator.map { row => numOutputRows += 1; toUnsafe(row) }
      }
    }

  private def reader: PartitionedFile => Iterator[InternalRow] = {
    val conf = relation.sparkSession.sessionState.newHadoopConfWithOptions(relation.options)
    val open = relation.fileFormat.buildReaderWithPartitionValues(
      sparkSession = relation.sparkSession,
      dataSchema = relation.dataSchema,
      partitionSchema = relation.partitionSchema,
      requiredSchema = requiredSchema,
      filters = pushedDownFilters,
      options = relation.options + (FileFormat.OPTION_RETURNING_BATCH -> batches.toString),
      hadoopConf = conf)
    val asPlanned = new FileChangeGuard(read.of.table, sparkContext.broadcast(new SerializableConfiguration(conf)))
    file => { asPlanned.check(file); open(file) }
  }
}

/** That a file is still the one that was listed, when it is opened: another one under its name is sealed by nobody. */
private[bucketing] class FileChangeGuard(table: String, conf: Broadcast[SerializableConfiguration]) extends Serializable {

  def check(file: PartitionedFile): Unit = {
    val path = file.toPath
    val found = path.getFileSystem(conf.value.value).getFileStatus(path)
    if (found.getLen != file.fileSize || !isSameTime(found.getModificationTime, file.modificationTime)) throw new SparkException(
      s"A file of table $table was replaced while the query ran: $path was planned with ${file.fileSize} bytes of " +
        s"${Instant.ofEpochMilli(file.modificationTime)}, found ${found.getLen} bytes of " +
        s"${Instant.ofEpochMilli(found.getModificationTime)}. REFRESH TABLE $table, and run the query again.")
  }

  // Some object stores list files with milliseconds, and tell of one file in whole seconds.
  private def isSameTime(one: Long, other: Long): Boolean =
    one == other || (one % 1000 == 0 || other % 1000 == 0) && one / 1000 == other / 1000
}

object BucketScan {

  /** Of how many bytes the parts of a Parquet file are that are read at a time, by default, and at most. */
  private val RowGroup = 128L * 1024 * 1024

  /** Rows of a file that is read in batches or in rows. */
  def rows(found: Iterator[InternalRow]): Iterator[InternalRow] = found.asInstanceOf[Iterator[AnyRef]].flatMap {
    case batch: ColumnarBatch => batch.rowIterator.asScala
    case row: InternalRow => Iterator.single(row)
  }

  /** The files of each partition. */
  def spread(files: Array[PartitionedFile], read: BucketRead): IndexedSeq[Seq[PartitionedFile]] = {
    val spread = Array.fill(read.partitions)(Seq.newBuilder[PartitionedFile])
    for {
      file <- files
      bucket = BucketFiles.bucketOf(BucketFiles.nameOf(file), read.of.hash).get
      partition <- read.partitionsOf(bucket % read.of.buckets)
    } spread(partition) += file
    spread.toIndexedSeq.map(_.result())
  }
}
