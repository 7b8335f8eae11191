package org.apache.spark.sql.bucketing
package read

import java.util.IdentityHashMap

import scala.collection.mutable

import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.metrics.source.HiveCatalogMetrics
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.compat.SparkVersion.ClassicSession
import org.apache.spark.sql.bucketing.metadata.Seal
import org.apache.spark.sql.catalyst.catalog.{CatalogStorageFormat, CatalogTablePartition, ExternalCatalogUtils}
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.FileSourceScanExec
import org.apache.spark.sql.execution.datasources._

/** An index that keeps the seals of the partitions that a query selects, which Spark's own index drops. */
trait KeptSeals extends FileIndex with ListedIndex {

  @volatile private var areOutdated = false

  protected def selected(filters: Seq[Expression]): Seq[CatalogTablePartition]

  /** Returns the partitions with the seals that they had when Spark selected them, or None if these are outdated. */
  def partitions(filters: Seq[Expression]): Option[Seq[CatalogTablePartition]] = if (areOutdated) None else Some(selected(filters))

  /** Returns false if it has been called before. */
  def forget(): Boolean = {
    val first = !areOutdated
    areOutdated = true
    first
  }
}

object KeptSeals {
  def in(scan: FileSourceScanExec): Option[KeptSeals] = Some(CurrentFiles.stock(scan.relation.location)).collect { case kept: KeptSeals => kept }
}

/**
 * Spark's index of a partitioned table, for one query. To ask the metastore for the seals again would take a second for 10,000 partitions.
 *
 * @param stock Spark's index, which later queries of the session also use
 * @param own the listing of its directories
 */
class SealedCatalogIndex(session: ClassicSession, stock: CatalogFileIndex, own: => SharedListing) extends CatalogFileIndex(session, stock.table, stock.sizeInBytes) with KeptSeals {

  def this(session: ClassicSession, stock: CatalogFileIndex) = this(session, stock, SharedListing.of(session, stock.table, stock))

  override lazy val shared: SharedListing = own

  /** The partitions that filters select. Their files are listed when Spark asks for the index. */
  private class Selection(filters: Seq[Expression]) {
    // Before Spark selects the partitions, because a statement may create one.
    val listing: TableListing = shared.listing
    private val (start, conf) = (System.nanoTime(), session.sessionState.conf)
    private val found = ExternalCatalogUtils.listPartitionsByFilter(conf, session.sessionState.catalog, table, filters)
    val partitions: Seq[CatalogTablePartition] = found.map(SealedCatalogIndex.onlySeal)
    private val spec = PartitionSpec(partitionSchema, found.map { partition =>
      val path = new Path(partition.location)
      PartitionPath(partition.toRow(partitionSchema, conf.sessionLocalTimeZone), path.getFileSystem(hadoopConf).makeQualified(path))
    })
    private val nanos = System.nanoTime() - start
    lazy val index = new SelectedPartitions(session, SealedCatalogIndex.this, filters, spec, partitions, listing, nanos)
  }

  private val selections = mutable.Map.empty[Set[Expression], Selection]

  private def selection(filters: Seq[Expression], isKept: Selection => Boolean = _ => true): Selection = synchronized {
    val key = PerQueryCache.comparable(filters)
    selections.get(key).filter(isKept).getOrElse {
      val found = new Selection(filters)
      selections(key) = found
      found
    }
  }

  override protected def selected(filters: Seq[Expression]): Seq[CatalogTablePartition] = selection(filters).partitions

  override def filterPartitions(filters: Seq[Expression]): InMemoryFileIndex = selection(filters).index

  override def directories(filters: Seq[Expression], isAgain: Boolean): (TableListing, FileIndex) = {
    val found = selection(filters, known => !isAgain || (known.listing eq shared.listing))
    (found.listing, found.index)
  }

  override def refresh(): Unit = synchronized {
    selections.clear()
    stock.refresh()
  }
}

/**
 * Spark's index of some partitions, which Spark has selected before it plans the scan. Spark's own class puts the files of all partitions into three hash tables
 * when it is created, which takes seconds for 300,000 files. This one keeps the files of each directory as they are listed.
 *
 * @param all the index that has selected them
 * @param filters the filters that select them
 */
class SelectedPartitions(
    session: ClassicSession, all: SealedCatalogIndex, filters: Seq[Expression], spec: PartitionSpec, of: Seq[CatalogTablePartition], listing: TableListing, nanos: Long)
  extends InMemoryFileIndex(session, spec.partitions.map(_.path), Map.empty, Some(spec.partitionColumns), listing, Some(spec), Some(nanos)) with KeptSeals {

  // False while the constructor of Spark's class runs.
  private val isMade = true

  /** The files in each directory, and in those below it. */
  private lazy val listed: Map[Path, Array[FileStatus]] = {
    val paths = rootPaths.distinct
    val cached = Compat.onAllCores(paths)(path => listing.getLeafFiles(path).map(path -> _)).flatten.toMap
    HiveCatalogMetrics.incrementFileCacheHits(cached.valuesIterator.map(_.length).sum)
    val missing = paths.filterNot(cached.contains)
    if (missing.isEmpty) cached else cached ++ super.listLeafFiles(missing).toArray.groupBy(_.getPath.getParent)
  }

  override def listLeafFiles(paths: Seq[Path]): mutable.LinkedHashSet[FileStatus] = if (isMade) super.listLeafFiles(paths) else mutable.LinkedHashSet.empty

  override protected lazy val leafFiles: mutable.LinkedHashMap[Path, FileStatus] = mutable.LinkedHashMap.empty[Path, FileStatus] ++= listed.valuesIterator.flatten.map(file => file.getPath -> file)

  override protected lazy val leafDirToChildrenFiles: Map[Path, Array[FileStatus]] = Compat.onAllCores(listed.toSeq) { case (path, files) =>
    val directory = s"${path.toUri.getPath.stripSuffix("/")}/"
    def isChild(status: FileStatus) = {
      val file = status.getPath.toUri.getPath
      file.startsWith(directory) && file.indexOf('/', directory.length) < 0
    }
    // The files of a packed directory are in the same one.
    path -> (if (!files.forall(_.isInstanceOf[UnpackedFile])) files.filter(isChild) else if (files.headOption.forall(isChild)) files else Array.empty[FileStatus])
  }.toMap

  // As in Spark's class, but without the path of each file.
  override def listFiles(partitionFilters: Seq[Expression], dataFilters: Seq[Expression]): Seq[PartitionDirectory] = {
    val selectsAll = PerQueryCache.comparable(partitionFilters).subsetOf(PerQueryCache.comparable(filters)) && !dataFilters.exists(CurrentFiles.ofFiles)
    lazy val directories = spec.partitions.map { case PartitionPath(values, path) =>
      PartitionDirectory(values, leafDirToChildrenFiles.getOrElse(path, Array.empty[FileStatus]).filter { case file: UnpackedFile => file.isData; case _ => true })
    }
    if (selectsAll && directories.forall(_.files.forall(_.fileStatus.isInstanceOf[UnpackedFile]))) directories else super.listFiles(partitionFilters, dataFilters)
  }

  override lazy val sizeInBytes: Long = rootPaths.distinct.iterator.flatMap(leafDirToChildrenFiles.get).flatten.map(_.getLen).sum

  override def refresh(): Unit = {
    listing.invalidateAll()
    all.refresh()
  }
  override def shared: SharedListing = all.shared
  override protected def selected(others: Seq[Expression]): Seq[CatalogTablePartition] = of
  override def directories(others: Seq[Expression], isAgain: Boolean): (TableListing, FileIndex) = if (isAgain) all.directories(filters, isAgain) else (listing, this)
}

object SealedCatalogIndex {

  // A query may be kept, so keep little of its partitions.
  private def onlySeal(of: CatalogTablePartition) = CatalogTablePartition(
    of.spec, CatalogStorageFormat.empty.copy(locationUri = of.storage.locationUri), of.parameters.filter { case (key, _) => Seal.Keys.exists(_ == key) })
}

/** Gives the tables of a query whose files statements may replace an index that keeps seals, before Spark selects partitions. Relations of the same table share it, except in subqueries. */
object KeepSeals extends Rule[LogicalPlan] {

  // Spark's index equals the new one, and transform() keeps an equal node. Therefore, another node is in its place for a moment.
  private case class Changed(relation: LogicalRelation) extends LeafNode {
    override def output: Seq[Attribute] = relation.output
  }

  override def apply(plan: LogicalPlan): LogicalPlan = if (!BucketingConf.enabled) plan else {
    val made = new IdentityHashMap[CatalogFileIndex, SealedCatalogIndex]
    plan.transform { case relation: LogicalRelation =>
      relation.relation match {
        case files @ HadoopFsRelation(stock: CatalogFileIndex, partition, _, _, _, _) if partition.nonEmpty && (stock.table.bucketSpec.isDefined || CurrentReads.isChangeable(stock.table)) && !stock.isInstanceOf[KeptSeals] =>
          val index = made.computeIfAbsent(stock, new SealedCatalogIndex(files.sparkSession.asInstanceOf[ClassicSession], _))
          Changed(relation.copy(relation = files.copy(location = index)(files.sparkSession)))
        case _ => relation
      }
    }.transform { case Changed(relation) => relation }
  }
}
