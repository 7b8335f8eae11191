package org.apache.spark.sql.bucketing
package read

import java.time.Instant

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.SparkException
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.bucketing.compat.{Compat, NotByOneTask, ScanFiles, StockScan}
import org.apache.spark.sql.bucketing.hash.{BucketCounts, BucketHash, BucketRangePartitioning, BucketRanges}
import org.apache.spark.sql.bucketing.metadata.{BucketFiles, MissingFiles, Seal}
import org.apache.spark.sql.bucketing.read.BucketAwareScan.like
import org.apache.spark.sql.catalyst.{FileSourceOptions, InternalRow}
import org.apache.spark.sql.catalyst.catalog.BucketSpec
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, UnknownPartitioning}
import org.apache.spark.sql.catalyst.util.CaseInsensitiveMap
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.datasources._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.sources.Filter
import org.apache.spark.sql.types.{ArrayType, IntegerType, StructType}
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.apache.spark.util.SerializableConfiguration

/**
 * The sealed buckets of a table.
 *
 * @param table name of the table
 * @param hash hash that assigns rows to buckets
 * @param buckets number of buckets
 * @param keys bucket columns, as the table spells them
 * @param sorts sort columns, as the table spells them
 */
case class SealedBuckets(table: String, hash: BucketHash, buckets: Int, keys: Seq[String], sorts: Seq[String])

/**
 * Describes how a scan reads the buckets of a table.
 *
 * @param of buckets of the table, or the common buckets of partitions with different numbers of buckets
 * @param folders sealed directories
 * @param partitions number of partitions of the scan, which is the number of buckets or a divisor or multiple of it
 * @param ordered whether each partition is sorted by the sort columns of the table
 * @param merged whether the scan merges the sorted files of a partition instead of reading them sequentially
 * @param ranges the ranges of the first sort column, if each of them has its own partition
 * @param slices how several tasks read large partitions
 * @param native whether Comet may replace the scan with a native scan, which neither merges files nor splits buckets
 */
case class BucketRead(
    of: SealedBuckets, @transient folders: SealedFolders, partitions: Int, ordered: Boolean = false, merged: Boolean = false,
    ranges: Option[BucketRanges] = None, @transient slices: Option[BucketSlices] = None, native: Boolean = false) {

  /** Whether several partitions of the scan read the same bucket, so that each of them must filter the rows. */
  def splits: Boolean = ranges.isDefined || partitions > of.buckets

  /** Returns whether a scan with this number of partitions can read the buckets. The number must be a divisor or multiple of the bucket count. */
  def canHave(partitions: Int): Boolean = BucketCounts.areCompatible(partitions, of.buckets) && (!native || partitions <= of.buckets)

  /** Returns the partitions that read a bucket. If there are more partitions than buckets, several partitions read the same bucket. */
  def partitionsOf(bucket: Int): Seq[Int] = {
    val whole = ranges.fold(partitions.min(of.buckets))(_.buckets)
    bucket % whole until partitions by whole
  }

  override def toString: String = {
    val parts = if (partitions == of.buckets) "" else s" read as $partitions${if (ranges.isDefined) " by range" else ""}"
    val sliced = slices.fold("")(of => s", ${of.partitionOfTask.size} tasks")
    val order = if (merged) ", merged" else if (ordered) ", sorted" else ""
    s"${of.buckets} ${of.hash} buckets$folders$parts$order$sliced"
  }
}

/**
 * Spark's file scan with a different output partitioning. This scan inherits columns, filters, dynamic pruning, columnar batches and
 * metrics from Spark.
 */
sealed abstract class BucketAwareScan(stock: FileSourceScanExec) extends StockScan(stock) {

  /** The files that the planner compared with the seal. The scan reads exactly these files. Null until the files are listed. */
  def listing: BucketListing

  /** The value of `Bucketed` in EXPLAIN, or null for a table without buckets. Spark uses the same key for its own bucketed tables. */
  protected def bucketed: String

  protected def rebuilt(stock: FileSourceScanExec): BucketAwareScan

  // Spark copies a node by replacing its constructor arguments. Here, these are the arguments of the stock scan.
  override def makeCopy(newArgs: Array[AnyRef]): SparkPlan =
    like(this, rebuilt(copy().makeCopy(newArgs).asInstanceOf[FileSourceScanExec]))
  override def clone(): SparkPlan = like(this, rebuilt(copy()))

  // Spark ignores a rule that returns an equal node, so scans with different buckets or listings must not be equal.
  override def canEqual(other: Any): Boolean = other.getClass == getClass
  override def equals(other: Any): Boolean = other match {
    case that: BucketAwareScan => super.equals(that) && bucketed == that.bucketed && (listing eq that.listing)
    case _ => false
  }
  override def hashCode: Int = 31 * super.hashCode + bucketed.##

  // EXPLAIN shows the file index below CurrentFiles, because its class tells whether Spark has pruned partitions.
  override lazy val metadata: Map[String, String] =
    copy(relation = relation.copy(location = stockFiles, bucketSpec = None)(relation.sparkSession)).metadata ++ Option(bucketed).map("Bucketed" -> _) ++ prunedBuckets

  override def verboseStringWithOperatorId(): String = {
    def location(index: FileIndex) = s"Location: ${index.getClass.getSimpleName} "
    super.verboseStringWithOperatorId().replace(location(relation.location), location(stockFiles))
  }

  private def stockFiles = CurrentFiles.stock(relation.location)

  /** Returns the listed files as a file index, for an engine that lists the files of a scan itself. */
  protected def listedFiles(of: BucketListing): FileIndex = new ListedFiles(relation.location, of,
    tableIdentifier.fold("")(_.unquotedString), relation.sparkSession.sessionState.newHadoopConfWithOptions(relation.options))

  private def listed: ScanFiles.Listing = copy(dataFilters = dataFilters ++ RuntimeFilters.known(dataFilters)).selectedPartitions

  /** Checks listed files before the scan reads them. */
  protected def checked(files: ScanFiles.Listing): ScanFiles.Listing = files

  /** How to read the buckets of the listed files, or None if the files may be in other buckets. */
  protected def bucketsOf(files: ScanFiles.Listing): Option[BucketRead]

  /** Returns the files without those that run-time filters exclude, or the same object if they exclude none. */
  private def withRuntimeFilters(files: ScanFiles.Listing): ScanFiles.Listing = {
    val filters = RuntimeFilters.known(dataFilters)
    if (filters.isEmpty) files
    else bucketsOf(files).flatMap(WantedBuckets(filters, output, _)).fold(files)(wanted => ScanFiles.kept(files, wanted.contains))
  }

  private def prunedBuckets = Option(listing).flatMap(_.pruned).map("SelectedBucketsCount" -> _)

  @transient override lazy val selectedPartitions: ScanFiles.Listing = {
    val files = withRuntimeFilters(if (listing == null) checked(listed) else listing.stock)
    val prefix = if (staticMetrics.isEmpty) Seq("numFiles", "filesSize") else Seq("staticFilesNum", "staticFilesSize")
    prefix.zip(Seq(ScanFiles.number(files), ScanFiles.bytes(files))).foreach { case (name, value) =>
      driverMetrics(name).set(value)
    }
    driverMetrics.get("numPartitions").foreach(_.set(ScanFiles.partitions(files)))
    files
  }
}

object BucketAwareScan {

  /** Copies the tags of another operator, such as its logical plan, and returns this operator. */
  def like[T <: SparkPlan](noted: SparkPlan, operator: T): T = {
    operator.copyTagsFrom(noted)
    operator
  }

  /** Returns the reason to reject a scan of listed files if sealed files are missing. */
  def missingFiles(scan: FileSourceScanExec, listed: ScanFiles.Listing, seals: Map[String, Seal]): Option[FallbackReason] =
    scan.tableIdentifier.flatMap { table =>
      val suspects = SealedFolders.suspects(new BucketListing(listed).files, seals)
      MissingFiles.certain(scan.relation.sparkSession, table, suspects).toSeq.sortBy(_._1).headOption.map { case (folder, number) =>
        FallbackReason(FallbackReason.FilesMissing, s"${MissingFiles.words(number, seals(folder))} in ${BucketFiles.nameOf(folder)}")
      }
    }

  def ignoresMissingFiles(relation: HadoopFsRelation): Boolean = new FileSourceOptions(CaseInsensitiveMap(relation.options)).ignoreMissingFiles
}

/**
 * An ordinary scan of a table that is bucketed according to its metadata. It fails if sealed files are missing, unless the session ignores missing files.
 *
 * @param why reason for the ordinary scan
 * @param seals seals of the directories that have one
 * @param read how a bucketed scan would read the table if the files match the seals
 */
class FallbackScan(
    stock: FileSourceScanExec, val why: FallbackReason, @transient seals: Map[String, Seal], @transient val listing: BucketListing, @transient read: Option[BucketRead] = None)
    extends BucketAwareScan(stock) {
  override protected def bucketed: String = s"false $why"
  override protected def rebuilt(stock: FileSourceScanExec): BucketAwareScan = new FallbackScan(stock, why, seals, listing, read)

  // Filters have pruned the buckets of an existing listing, and the listing of all buckets matched the seals.
  override protected def bucketsOf(files: ScanFiles.Listing): Option[BucketRead] =
    read.filter(of => listing != null || of.folders.objectionTo(new BucketListing(files), of.of.hash).isEmpty)

  override protected def checked(files: ScanFiles.Listing): ScanFiles.Listing = {
    if (listing == null && seals.nonEmpty && !BucketAwareScan.ignoresMissingFiles(relation)) BucketAwareScan.missingFiles(this, files, seals).foreach { found =>
      val name = tableIdentifier.get
      throw MissingFiles.refusal(s"Cannot read all rows of ${name.quotedString}.", name, found.words,
        s"; to read the remaining rows, set ${SQLConf.IGNORE_MISSING_FILES.key}=true")
    }
    files
  }
}

/** A scan of a table with file statistics that skips files at run time. See [[RuntimeFilters]]. */
class FilteredScan(stock: FileSourceScanExec) extends BucketAwareScan(stock) {
  override def listing: BucketListing = null
  override protected def bucketed: String = null
  override protected def bucketsOf(files: ScanFiles.Listing): Option[BucketRead] = None
  override protected def rebuilt(stock: FileSourceScanExec): BucketAwareScan = new FilteredScan(stock)
}

/** A bucketed scan. Partition i contains the rows of bucket i. */
class BucketScan(stock: FileSourceScanExec, val read: BucketRead, @transient val listing: BucketListing)
    extends BucketAwareScan(stock) with NotByOneTask {

  override protected def bucketed: String = s"true ($read)"
  override protected def bucketsOf(files: ScanFiles.Listing): Option[BucketRead] = Some(read)
  override protected def rebuilt(stock: FileSourceScanExec): BucketAwareScan = new BucketScan(stock, read, listing)

  // Scans with other cuts return other rows in a partition.
  override def equals(other: Any): Boolean = other match {
    case that: BucketScan => super.equals(that) && read.native == that.read.native && read.ranges == that.read.ranges && read.slices == that.read.slices
    case _ => false
  }
  override def hashCode: Int = super.hashCode

  def copyWith(read: BucketRead = read, listing: BucketListing = listing): BucketScan =
    like(this, new BucketScan(copy(), read, listing))

  /** Returns an ordinary scan, which lists its files when it runs. If buckets were pruned, the scan keeps the pruned listing. */
  def plain(why: FallbackReason): FallbackScan = {
    val pruned = Option(listing).filter(_.pruned.isDefined)
    val files = relation.location match {
      case listed: ListedFiles => listed.all
      case other => other
    }
    val location = pruned.filter(_ => NativeReads.isIn(session)).fold(files)(listedFiles)
    val ordinary = copy(relation = relation.copy(location = location, bucketSpec = None)(relation.sparkSession), optionalNumCoalescedBuckets = None)
    NativeReads.allow(like(this, new FallbackScan(ordinary, why, read.folders.seals, pruned.orNull, Some(read))))
  }

  /** Returns this scan in the form that Comet replaces with a native scan with the same partitions. See [[NativeReads]]. */
  def forComet: BucketScan = if (relation.bucketSpec.isDefined) this else {
    val spec = BucketSpec(read.of.buckets, read.of.keys, Nil)
    val native = relation.copy(location = listedFiles(listing), bucketSpec = Some(spec))(relation.sparkSession)
    val formed = like(this, new BucketScan(copy(relation = native, optionalNumCoalescedBuckets = Some(read.partitions)), read, listing))
    // The relation's session may have other settings.
    if (formed.bucketedScan) NativeReads.allow(formed) else this
  }

  private def columns(names: Seq[String]): Seq[Attribute] =
    names.toIndexedSeq.map(name => output.find(_.name == name)).takeWhile(_.isDefined).flatten

  def keys: Seq[Attribute] = columns(read.of.keys)

  override lazy val outputPartitioning: Partitioning =
    if (keys.length != read.of.keys.length) UnknownPartitioning(0)
    else if (read.slices.isDefined) UnknownPartitioning(read.slices.get.partitionOfTask.size)
    else read.ranges.fold[Partitioning](read.of.hash.partitioning(keys, read.partitions))(new BucketRangePartitioning((keys ++ rangeColumn).distinct, _))

  /** The column whose ranges can divide the buckets: the first sort column. */
  def rangeColumn: Option[Attribute] = columns(read.of.sorts.take(1)).headOption

  /** Returns a condition for the rows of a task, because several tasks read the same files. */
  def isOfTask: Expression = {
    val partition = read.slices.fold[Expression](SparkPartitionID()) { of =>
      GetArrayItem(Literal.create(of.partitionOfTask.toArray, ArrayType(IntegerType, containsNull = false)), SparkPartitionID(), failOnError = false)
    }
    EqualTo(read.ranges.fold(read.of.hash.bucketId(keys, read.partitions)) { ranges =>
      ranges.partitionId(Pmod(partition, Literal(ranges.buckets)), rangeColumn.get)
    }, partition)
  }

  override lazy val outputOrdering: Seq[SortOrder] =
    if (read.ordered) columns(read.of.sorts).map(SortOrder(_, Ascending)) else Nil

  @transient private lazy val files: BucketListing = Option(listing).getOrElse(new BucketListing(selectedPartitions))

  /** The total size of all files in bytes. */
  def bytes: Long = files.bytes

  /** Whether filters exclude some buckets. */
  def isPruned: Boolean = files.pruned.isDefined

  /** The number of files. */
  def numFiles: Long = files.files.length

  /** The files that each partition reads, from the listing. */
  def filesOfPartitions: IndexedSeq[Seq[PartitionedFile]] = files.ofPartitions(read)

  /** Returns a copy with another number of partitions. The copy is sorted only if each partition has at most one file. */
  def as(partitions: Int): BucketScan = {
    require(read.canHave(partitions), s"Cannot read ${read.of.buckets} buckets as $partitions partitions")
    spreadOver(partitions, None)
  }

  /** Returns a copy that reads each range of each bucket in a partition of its own. */
  def by(ranges: BucketRanges): BucketScan = spreadOver(ranges.partitions, Some(ranges))

  private def spreadOver(partitions: Int, ranges: Option[BucketRanges]): BucketScan = {
    val spread = copyWith(read.copy(partitions = partitions, ordered = false, merged = false, ranges = ranges))
    spread.copyWith(spread.read.copy(ordered = !read.native && spread.hasSortedPartitions))
  }

  /** Returns whether each partition has at most one sorted file. */
  def hasSortedPartitions: Boolean = read.of.sorts.nonEmpty && filesOfPartitions.forall(_.length <= 1)

  /** Returns whether the rows of each bucket have an order, unless its files turn out to need a merge. */
  def isSortedBy(order: Seq[SortOrder]): Boolean =
    !read.native && SortOrder.orderingSatisfies(columns(read.of.sorts).map(SortOrder(_, Ascending)), order) && (listing == null || hasSortedPartitions)

  /** Returns a copy in which several tasks read large partitions, or each of them reads the whole partition. */
  def in(slices: BucketSlices): BucketScan = copyWith(read.copy(slices = Some(slices)))

  /** Returns the largest files. */
  def largest(number: Int): Seq[PartitionedFile] = files.files.sortBy(-_.length).take(number).toSeq

  /** Returns the size of each partition in bytes. */
  lazy val bytesOfPartitions: Seq[Long] = filesOfPartitions.map(BucketListing.bytes)

  /**
   * Returns whether the scan can merge the files of every partition by the sort columns. A merge opens all files of a
   * partition at the same time, so the number of files and their memory are limited.
   */
  def mergeable: Boolean = !read.native && read.of.sorts.nonEmpty && filesOfPartitions.forall { files =>
    files.length <= 1 || files.length <= BucketingConf.mergeFiles && opened(files) <= BucketingConf.mergeBytes
  }

  /** Estimates the memory for open files in bytes. Each file needs one row group with the columns that the query reads. */
  private def opened(files: Seq[PartitionedFile]): Double =
    files.map(file => math.min(file.length, BucketScan.RowGroup).toDouble).sum *
      requiredSchema.defaultSize / math.max(relation.dataSchema.defaultSize, 1)

  // Whether the reader returns columnar batches. A merge converts them to rows.
  private lazy val batches: Boolean = copy().supportsColumnar
  override lazy val supportsColumnar: Boolean = batches && !read.merged

  override lazy val inputRDD: RDD[InternalRow] = {
    val left = dynamicallySelectedPartitions
    val files = if (listing != null && (left eq listing.stock)) filesOfPartitions else new BucketListing(left).ofPartitions(read)
    val rows = if (read.merged) mergedFiles(files) else scanned(files)
    sendDriverMetrics()
    rows
  }

  private def scanned(partitions: Seq[Seq[PartitionedFile]]): RDD[InternalRow] =
    Compat.fileScan(this, reader, partitions.zipWithIndex.map { case (of, i) => FilePartition(i, of.toArray) })

  private def mergedFiles(files: IndexedSeq[Seq[PartitionedFile]]): RDD[InternalRow] = {
    val single = scanned(files.flatten.map(Seq(_))).mapPartitions(BucketScan.rows)
    val first = files.scanLeft(0)(_ + _.length)
    new CombinedPartitionsRDD(single, files.indices.map(i => files(i).indices.map(first(i) + _)), outputOrdering, output)
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
    def open(more: Seq[Filter]) = BucketScan.reader(relation, read.of.table, relation.partitionSchema, requiredSchema, pushedDownFilters ++ more, batches)
    read.ranges.fold(open(Nil)) { ranges =>
      // Row groups, stripes and pages outside of the range are skipped.
      val readers = (0 until ranges.number).map { range =>
        open(DataSourceStrategy.translateFilter(ranges.condition(range, rangeColumn.get), supportNestedPredicatePushdown = true).toSeq)
      }
      BucketScan.byRange(readers)
    }
  }
}

object BucketScan {

  /** The default size of a Parquet row group in bytes, which memory estimates use as the upper limit. */
  private val RowGroup = 128L * 1024 * 1024

  /**
   * Returns a function that reads files, and fails if a file has changed since it was listed.
   *
   * @param table the name of the table
   * @param batches whether the function returns columnar batches
   */
  def reader(relation: HadoopFsRelation, table: String, partitionSchema: StructType, schema: StructType, filters: Seq[Filter], batches: Boolean)
      : PartitionedFile => Iterator[InternalRow] = {
    val session = relation.sparkSession
    val conf = session.sessionState.newHadoopConfWithOptions(relation.options)
    val open = relation.fileFormat.buildReaderWithPartitionValues(session, relation.dataSchema, partitionSchema, schema, filters,
      relation.options + (FileFormat.OPTION_RETURNING_BATCH -> batches.toString), conf)
    val shared = session.sparkContext.broadcast(new SerializableConfiguration(conf))
    RetainedReads.reading(relation.fileFormat, file => {
      val (path, conf) = (file.toPath, shared.value.value)
      if (BucketFiles.mayChange(path, conf)) checkUnchanged(path, file.fileSize, file.modificationTime, table, conf)
      open(file)
    })
  }

  /** Checks that a file has not changed since it was listed, because the seal does not cover a new file with the same name. */
  def checkUnchanged(path: Path, bytes: Long, time: Long, table: String, conf: Configuration): Unit = {
    val found = path.getFileSystem(conf).getFileStatus(path)
    if (found.getLen != bytes || !isSameTime(found.getModificationTime, time)) throw new SparkException(
      Compat.message(s"A file of table $table was replaced while the query ran.",
        s"$path with ${found.getLen} bytes, modified at ${Instant.ofEpochMilli(found.getModificationTime)}",
        s"$bytes bytes, modified at ${Instant.ofEpochMilli(time)}",
        s"run `REFRESH TABLE $table`, and then the query again"))
  }

  // Some object stores return milliseconds in a listing, but whole seconds for a single file.
  private def isSameTime(one: Long, other: Long): Boolean =
    one == other || (one % 1000 == 0 || other % 1000 == 0) && one / 1000 == other / 1000

  /** Converts the output of a file reader, which may be columnar batches, to rows. */
  def rows(found: Iterator[InternalRow]): Iterator[InternalRow] = found.asInstanceOf[Iterator[AnyRef]].flatMap {
    case batch: ColumnarBatch => batch.rowIterator.asScala
    case row: InternalRow => Iterator.single(row)
  }

  /** Assigns files to partitions by bucket id, and returns the files of each partition. */
  def spread(files: Array[PartitionedFile], read: BucketRead): IndexedSeq[Seq[PartitionedFile]] = {
    val spread = Array.fill(read.partitions)(Vector.newBuilder[PartitionedFile])
    for {
      file <- files
      bucket = BucketFiles.bucketOf(BucketFiles.nameOf(file), read.of.hash).get
      partition <- read.partitionsOf(bucket % read.of.buckets)
    } spread(partition) += read.ranges.fold(file)(ranges => inRange(file, partition / ranges.buckets))
    val found: IndexedSeq[Seq[PartitionedFile]] = spread.toIndexedSeq.map(_.result())
    read.slices.fold(found)(_.filesOfTasks(found).toIndexedSeq)
  }

  private val Range = "__spark_bucketing_range"

  private def inRange(file: PartitionedFile, range: Int): PartitionedFile =
    file.copy(otherConstantMetadataColumnValues = file.otherConstantMetadataColumnValues + (Range -> range))

  /** Returns a function that reads each file with the reader of its range. */
  private def byRange(readers: IndexedSeq[PartitionedFile => Iterator[InternalRow]]): PartitionedFile => Iterator[InternalRow] =
    file => readers(file.otherConstantMetadataColumnValues(Range).asInstanceOf[Int])(file)
}
