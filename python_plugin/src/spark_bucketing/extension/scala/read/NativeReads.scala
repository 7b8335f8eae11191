package org.apache.spark.sql.bucketing
package read

import java.util.Properties
import java.util.concurrent.ConcurrentHashMap

import scala.util.Try

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, LocatedFileStatus}

import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.{Compat, ScanFiles}
import org.apache.spark.sql.bucketing.metadata.BucketFiles
import org.apache.spark.sql.catalyst.expressions.{Expression, SortOrder}
import org.apache.spark.sql.catalyst.plans.physical.ClusteredDistribution
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.aggregate.{HashAggregateExec, ObjectHashAggregateExec}
import org.apache.spark.sql.execution.command.DataWritingCommandExec
import org.apache.spark.sql.execution.datasources._
import org.apache.spark.sql.execution.exchange.Exchange
import org.apache.spark.sql.execution.joins.SortMergeJoinExec

/**
 * Bucketed scans that Apache DataFusion Comet replaces with native scans.
 *
 * Comet's CometScanRule replaces each FileSourceScanExec, also if it is a subclass. If its relation has a bucket spec, the native scan has the output
 * partitioning and ordering of the scan that it replaces. It lists the files with the relation's file index, and partition i reads the files with the bucket
 * ids b for which b % optionalNumCoalescedBuckets = i (CometScanExec.createFilePartitionsForBucketedScan). It takes the bucket id from the end of a file name.
 * It reads the files of a partition sequentially, so it cannot merge them, and it reads all rows of a bucket, so it cannot split the bucket.
 *
 * This object uses no class of Comet.
 */
object NativeReads {

  /** The versions of Comet and of Spark that the tests use. */
  private val Tested = Seq("1.2.0" -> "4.1")

  private val Comet = "org.apache.comet."

  /** Comet keeps Spark's operator if a scan has this tag. */
  private val Skip = TreeNodeTag[Unit]("comet.skipCometScan")

  private val versions = new ConcurrentHashMap[ClassLoader, String]

  /** Returns whether Comet replaces the scans of the session, or why the session must use ordinary scans. */
  def engine(session: SparkSession): Either[String, Boolean] = {
    val rules = Compat.columnarRules(session)
    val others = rules.filterNot(Compat.isOurs)
    if (others.isEmpty) Right(false)
    else others.find(!_.getClass.getName.startsWith(Comet)).map(rule => s"${rule.getClass.getName} may replace bucketed scans.").orElse {
      val (spark, found) = (SPARK_VERSION.split('.').take(2).mkString("."), version(others.head))
      if (!Tested.contains(found -> spark)) Some(s"Comet $found with Spark $spark may replace bucketed scans in another way than the tested versions: " +
        s"${Tested.map { case (comet, of) => s"Comet $comet with Spark $of" }.mkString(", ")}.")
      else if (rules.lastIndexWhere(Compat.isOurs) > rules.indexWhere(!Compat.isOurs(_)))
        Some("Comet would replace bucketed scans too early. List its extension after this one in spark.sql.extensions.")
      else None
    }.toLeft(true)
  }

  private def version(rule: ColumnarRule): String = versions.computeIfAbsent(rule.getClass.getClassLoader, loader => {
    val all = new Properties
    Try(loader.getResourceAsStream("comet-git-info.properties")).foreach(in => Try(try all.load(in) finally in.close()))
    all.getProperty("git.build.version", "of unknown version")
  })

  /** Whether Comet replaces bucketed scans of the session. */
  def isIn(session: SparkSession): Boolean = engine(session).getOrElse(false)

  /** Returns the scan with what a native scan can do, or the reason for an ordinary scan. Without Comet, returns the scan itself. */
  def adapted(scan: BucketScan): Either[FallbackReason, BucketScan] =
    if (!isIn(scan.session)) Right(scan)
    else objection(scan).map(FallbackReason(FallbackReason.UnsupportedReader, _)).toLeft(scan.copyWith(scan.read.copy(native = true)))

  val OneSided: FallbackReason = FallbackReason(FallbackReason.UnsupportedReader, "Comet cannot shuffle the other input of a join by Hive's hash")

  /** Returns scans in the Hive layout to whose partitions Spark would shuffle the other input of a join. Comet shuffles both inputs faster by Spark's hash. */
  def oneSided(plan: SparkPlan): Set[BucketScan] = plan.collect {
    case join if join.children.length > 1 && join.requiredChildDistribution.forall(_.isInstanceOf[ClusteredDistribution]) && !BucketAlignment.coPartitioned(join) =>
      join.children.zip(join.requiredChildDistribution).collect { case (child, required) if BucketRequirements.satisfies(child, required) => child }
        .flatMap(BucketRequirements.scansOf).filter(scan => scan.read.native && scan.read.of.hash.inHiveLayout)
  }.flatten.toSet

  private def objection(scan: BucketScan): Option[String] =
    if (scan.relation.location.isInstanceOf[SealedFileIndex]) Some("Comet reads the rows that a statement changes with an ordinary scan") else
    if (scan.relation.fileFormat.getClass != classOf[parquet.ParquetFileFormat]) Some("Comet reads only Parquet files natively")
    else PerQueryCache(("native", scan.listing, scan.read.of.hash)) {
      scan.listing.files.iterator.map(file => BucketFiles.nameOf(file)).find { name =>
        !BucketFiles.isUnique(name) || BucketingUtils.getBucketId(name) != BucketFiles.bucketOf(name, scan.read.of.hash)
      }
    }.map(name => s"Comet cannot find the bucket of $name, because Spark has not named this file")

  /**
   * Removes needless sorts, and gives scans the form that Comet replaces with native scans. This must be the last change, because Spark's rules would change
   * bucketed scans.
   */
  def apply(plan: SparkPlan): SparkPlan = if (!plan.exists(isNative)) plan else withoutSorts(plan, isFree = true).transformUp {
    case scan: BucketScan if scan.read.native => scan.forComet
  }

  private def isNative(plan: SparkPlan): Boolean = plan match {
    case scan: BucketScan => scan.read.native
    case _ => false
  }

  /**
   * Removes sorts of sorted scans below sort-merge joins. DataFusion does not know that a native scan is sorted. Its join only reads the rows in their order. But
   * its window would fail, and its hash join and its sorted aggregate could return rows in another order than Spark expects.
   *
   * @param isFree whether no operator other than a sort-merge join uses the order of these rows
   */
  private def withoutSorts(plan: SparkPlan, isFree: Boolean): SparkPlan = plan match {
    case join: SortMergeJoinExec if isFree => join.mapChildren {
      case sort: SortExec if !sort.global =>
        val sorted = withOrder(sort.child)
        if ((sorted ne sort.child) && SortOrder.orderingSatisfies(sorted.outputOrdering, sort.sortOrder)) sorted else withoutSorts(sort, isFree)
      case child => withoutSorts(child, isFree)
    }
    case _: FilterExec | _: ProjectExec | _: DataWritingCommandExec | _: WriteFilesExec => plan.mapChildren(withoutSorts(_, isFree))
    case _: HashAggregateExec | _: ObjectHashAggregateExec | _: Exchange | _: SortExec => plan.mapChildren(withoutSorts(_, isFree = true))
    case _ => plan.mapChildren(withoutSorts(_, isFree = false))
  }

  private def withOrder(plan: SparkPlan): SparkPlan = plan match {
    case scan: BucketScan if scan.read.native && scan.hasSortedPartitions => scan.copyWith(scan.read.copy(ordered = true))
    case _: FilterExec | _: ProjectExec => plan.mapChildren(withOrder)
    case _ => plan
  }

  /** Keeps Comet from replacing a scan. */
  def refuse[T <: SparkPlan](scan: T): T = {
    scan.setTagValue(Skip, ())
    scan
  }

  /** Lets Comet replace a scan. */
  def allow[T <: SparkPlan](scan: T): T = {
    scan.unsetTagValue(Skip)
    scan
  }
}

/**
 * The listed files of a scan, for an engine that lists the files of a scan itself. Checks that the files of a directory have not changed when the engine assigns
 * them to tasks.
 */
class ListedFiles(val all: FileIndex, val listing: BucketListing, table: String, conf: Configuration)
    extends FixedFiles(all.rootPaths, all.partitionSchema, ScanFiles.directories(listing.stock).map(ListedFiles.checked(_, table, conf))) {

  // The listing contains exactly the directories that the filters select.
  override def listFiles(partitionFilters: Seq[Expression], dataFilters: Seq[Expression]): Seq[PartitionDirectory] = super.listFiles(Nil, Nil)

  override def equals(other: Any): Boolean = other match {
    case that: ListedFiles => all == that.all && (listing eq that.listing)
    case _ => false
  }
  override def hashCode: Int = 31 * all.hashCode + System.identityHashCode(listing)
}

object ListedFiles {

  private def checked(directory: PartitionDirectory, table: String, conf: Configuration): PartitionDirectory = {
    val files = directory.files.filter(_.getLen > 0)
    lazy val areUnchanged = Compat.inParallel(files.filter(file => BucketFiles.mayChange(file.getPath, conf))) { file =>
      BucketScan.checkUnchanged(file.getPath, file.getLen, file.getModificationTime, table, conf)
    }
    directory.copy(files = files.map(file => file.copy(fileStatus = new Checked(file.fileStatus, () => areUnchanged))))
  }

  /** The status of a file. Spark reads the modification time only to assign the file to a task. */
  private class Checked(of: FileStatus, check: () => Any) extends LocatedFileStatus(of, of match {
    case located: LocatedFileStatus => located.getBlockLocations
    case _ => Array.empty
  }) {
    override def getModificationTime: Long = { check(); super.getModificationTime }
  }
}
