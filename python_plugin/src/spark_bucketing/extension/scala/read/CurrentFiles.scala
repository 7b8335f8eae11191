package org.apache.spark.sql.bucketing
package read

import scala.annotation.tailrec
import scala.util.control.NonFatal

import com.google.common.collect.MapMaker
import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.metadata.{FileStatistics, Replacement, SealedFormats, TableFiles}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.expressions.{And, AttributeReference, BoundReference, Expression, Literal, Predicate}
import org.apache.spark.sql.execution.{FileSourceScanExec, SparkPlan}
import org.apache.spark.sql.execution.command.DDLUtils
import org.apache.spark.sql.execution.datasources.{FileIndex, InMemoryFileIndex, PartitionDirectory}
import org.apache.spark.sql.types.StructType
import org.apache.spark.util.ThreadUtils

/**
 * Plans scans of tables whose files MERGE INTO, UPDATE and DELETE replace. A scan reads the files from either before or after a replacement, never a
 * mixture. If the files have statistics, a scan skips files that cannot match the filters.
 */
object CurrentReads {

  def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
    case scan: FileSourceScanExec if !scan.relation.location.isInstanceOf[AssumedFileIndex] => SealedSpecs.relationOf(scan).flatMap(_.catalogTable).filter(isChangeable).fold(scan)(current(scan, _))
  }

  /** Returns whether statements may replace files of a table while queries read them. */
  def isChangeable(table: CatalogTable): Boolean =
    FileStatistics.isKept(table.properties) || table.bucketSpec.isDefined && (DDLUtils.isHiveTable(table) || SealedFormats.has(table))

  private def current(scan: FileSourceScanExec, table: CatalogTable): FileSourceScanExec = {
    val session = scan.relation.sparkSession
    val prunes = FileStatistics.isKept(table.properties) && scan.dataFilters.nonEmpty && SealedSpecs.otherColumns(scan.relation).isEmpty
    val map = if (prunes) FileStatistics.read(session, table) else None
    val files = CurrentFiles(scan.relation.location)(session, table, map)
    val read = scan.copy(relation = scan.relation.copy(location = files, fileFormat = RetainedReads.of(session, table, scan.relation.fileFormat))(session))
    BucketAwareScan.like(scan, if (table.bucketSpec.isEmpty && RuntimeFilters.areIn(scan)) new FilteredScan(read) else read)
  }
}

/**
 * The file index of a table whose files a statement may replace. If the files have statistics, the index lists only files that may contain rows matching the
 * filters.
 *
 * @param all Spark's file index of the table
 * @param map statistics of the files, or None to list all files
 */
case class CurrentFiles(all: FileIndex)(session: SparkSession, table: CatalogTable, map: Option[FileStatistics]) extends FileIndex with Logging {

  override def listFiles(partitionFilters: Seq[Expression], dataFilters: Seq[Expression]): Seq[PartitionDirectory] = {
    val listed = CurrentFiles.asOfOneMoment(session, table, all, partitionFilters, dataFilters)
    // Skipping files is only an optimization, so an error here must not make the query fail.
    try map.fold(listed) { known =>
      val mayMatch = FileRangeFilter.mayMatch(dataFilters.filter(_.references.forall(attribute => SealedFormats.isTheSameForAll(table, attribute.dataType))))
      CurrentFiles.only(listed) { file =>
        val mapped = known.of(file)
        mapped.isEmpty || mapped.exists(mayMatch)
      }
    } catch {
      case NonFatal(error) =>
        logWarning("Failed to compare the filters with the file statistics of an organized table. Reading all of its files.", error)
        listed
    }
  }

  override def rootPaths: Seq[Path] = all.rootPaths
  override def inputFiles: Array[String] = all.inputFiles
  override def refresh(): Unit = all.refresh()
  override def sizeInBytes: Long = all.sizeInBytes
  override def partitionSchema: StructType = all.partitionSchema
  override def metadataOpsTimeNs: Option[Long] = all.metadataOpsTimeNs
  override def toString: String = all.toString
}

/**
 * When directories were listed. A listing takes some time, during which statements may commit.
 *
 * @param nanos a moment before the listing began, or None if it is unknown, because Spark has listed the directories
 * @param committed the names of the replacements that were committed at this moment
 */
case class ListingTime(nanos: Option[Long], committed: Set[String]) {

  /** Whether the records of statements that have committed since then may have been deleted. */
  def isOld: Boolean = nanos.exists(began => System.nanoTime - began > Replacement.KeptMillis * 1000000 / 2)

  /** Notes the time at which an index or a cache of listings was emptied. */
  def note(of: AnyRef): Unit = ListingTime.times.put(of, this)
}

object ListingTime {

  private val times: java.util.concurrent.ConcurrentMap[AnyRef, ListingTime] = new MapMaker().weakKeys().makeMap()

  def now(session: SparkSession, table: CatalogTable): ListingTime =
    ListingTime(Some(System.nanoTime), Replacement.forReader(new Path(table.location), Compat.hadoopConf(session)).filter(_.isCommitted).map(_.name).toSet)

  def known(index: FileIndex): ListingTime = times.getOrDefault(index, ListingTime(None, Set.empty))

  /** Returns when the directories of an index are listed: now, unless they are in its cache. Spark caches listings across queries, by partition. */
  def of(session: SparkSession, table: CatalogTable, index: FileIndex): ListingTime = {
    def empty() = {
      index.refresh()
      now(session, table)
    }
    // Nobody has noted when Spark filled the cache.
    Compat.listingCache(index).fold(now(session, table))(times.computeIfAbsent(_, _ => empty()))
  }
}

object CurrentFiles {

  /** Returns Spark's own file index. */
  def stock(index: FileIndex): FileIndex = index match {
    case current: CurrentFiles => current.all
    case listed: ListedFiles => stock(listed.all)
    case other => other
  }

  // Each attempt fails only if another statement commits during it, and a commit takes longer than most listings.
  private val Attempts = 20

  /** Lists the current files of a table. */
  def now(session: SparkSession, table: CatalogTable, partitionFilters: Seq[Expression] = Nil): Seq[PartitionDirectory] =
    asOfOneMoment(session, table, Compat.refreshedFiles(session, table), partitionFilters, Nil)

  /**
   * Lists the files of a table as of a single moment between two replacements. Spark lists directories one after another, and
   * may cache the result. Therefore, this method reads the replacement records after the listing, and excludes two kinds of
   * files: new files of a replacement that is not committed, and old files of a committed replacement that is not done.
   *
   * Lists the files again if the listing may be older than a committed replacement. An index lists them only once for the same
   * replacement, unless the replacement is done and some listed old files no longer exist.
   *
   * @param index file index, which may cache its listing
   * @param attempts number of remaining attempts
   */
  @tailrec
  def asOfOneMoment(
      session: SparkSession, table: CatalogTable, index: FileIndex, partitionFilters: Seq[Expression], dataFilters: Seq[Expression],
      attempts: Int = Attempts): Seq[PartitionDirectory] = {
    val names = TableFiles(new Path(table.location))
    val shared = SealedCatalogIndex.stock(index)
    val all = index.listFiles(partitionFilters, Nil)
    val listed = if (dataFilters.exists(ofFiles)) index.listFiles(partitionFilters, dataFilters) else all
    val (conf, now) = (Compat.hadoopConf(session), System.nanoTime)
    val records = Replacement.forReader(new Path(table.location), conf)
    // The names of the files in the directories of the records. A table may have 100,000 other files.
    lazy val found = {
      val changed = records.flatMap(of => of.added ++ of.removed).map(TableFiles.folderOf).toSet
      def isChanged(directory: PartitionDirectory) =
        table.partitionColumnNames.isEmpty || directory.files.headOption.exists(file => changed(names.folderOf(file.fileStatus.getPath)))
      all.iterator.filter(isChanged).flatMap(_.files).map(file => names.nameOf(file.fileStatus.getPath)).toSet
    }
    val committed = records.filter(_.isCommitted)
    val removed = committed.flatMap(_.removed).toSet
    // If Spark has pruned partitions, the index has only the directories of the others.
    val pruned = Some(index).collect { case of: InMemoryFileIndex => of }
    lazy val folders = pruned.map(_.rootPaths.map(folder => names.folderOf(new Path(folder, "file"))).toSet)
    def isListed(name: String) = folders.forall(_.contains(TableFiles.folderOf(name)))
    val time = index match {
      case kept: KeptSeals => kept.listed(partitionFilters)
      case _ => ListingTime.known(shared)
    }
    def isOlder(than: Replacement) = than.removed.nonEmpty && hasGone(than, found, names, conf) || !time.committed(than.name) && {
      val (added, gone) = (than.added.filter(isListed), than.removed.filter(isListed))
      // If later statements have removed all new files, the records of these statements decide.
      val current = added.filterNot(removed)
      // A record without files is about a statement of Spark, which may have changed any files.
      def isOfListed = gone.nonEmpty || than.added.isEmpty && than.removed.isEmpty
      // The records of some statements may have been deleted since an old listing. A new partition may be one that the query selects.
      time.isOld || pruned.isDefined && than.created.nonEmpty || !current.forall(found) || added.isEmpty && isOfListed
    }
    if (!committed.exists(isOlder)) {
      records.foreach(_.checkRestored(name => found(name)))
      val gone = records.flatMap(_.hidden).toSet
      if (gone.isEmpty) listed else only(listed)(file => !gone(names.nameOf(file.getPath)))
    } else if (attempts > 0) {
      // From now on, the listings of this index and of the session's next index reflect these replacements.
      val relisted = ListingTime(Some(now), committed.map(_.name).toSet)
      index.refresh()
      val refreshed = Compat.refreshedFiles(session, table)
      Seq(shared, refreshed).flatMap(of => of +: Compat.listingCache(of).toSeq).foreach(relisted.note)
      asOfOneMoment(session, table, refreshed, partitionFilters, dataFilters, attempts - 1)
    } else throw Compat.refusal(
      s"The files of ${table.identifier.quotedString} cannot be listed.", "repeated replacements of files during the listing",
      "no replacement of files during the listing", "run the query again")
  }

  /** Returns whether Spark itself uses a filter to skip files, such as a filter on file names. */
  private def ofFiles(filter: Expression): Boolean = filter.references.exists(_.name.startsWith("file_"))

  /**
   * Returns whether an old file has been deleted since the files were listed. If an old file exists although the replacement is
   * done, the file was restored from a backup.
   */
  private def hasGone(of: Replacement, found: Set[String], names: TableFiles, conf: Configuration): Boolean = of.done.nonEmpty && {
    val old = of.removed.filter(found).toSeq.map(names.pathOf)
    ThreadUtils.parmap(old, "replaced-files", 16)(file => file.getFileSystem(conf).exists(file)).contains(false)
  }

  def only(listed: Seq[PartitionDirectory])(keep: FileStatus => Boolean): Seq[PartitionDirectory] =
    listed.map(directory => directory.copy(files = directory.files.filter(file => keep(file.fileStatus)))).filter(_.files.nonEmpty)
}

/**
 * An index of given files, which lists nothing.
 *
 * @param rootPaths the location of the table
 * @param directories the files by partition
 */
class FixedFiles(override val rootPaths: Seq[Path], override val partitionSchema: StructType, directories: => Seq[PartitionDirectory]) extends FileIndex {

  private lazy val known = directories

  override def listFiles(partitionFilters: Seq[Expression], dataFilters: Seq[Expression]): Seq[PartitionDirectory] = {
    val isSelected = FixedFiles.predicate(partitionSchema, partitionFilters)
    known.filter(directory => isSelected(directory.values))
  }

  override def inputFiles: Array[String] = known.flatMap(_.files.map(_.getPath.toString)).toArray
  override def refresh(): Unit = ()
  override def sizeInBytes: Long = known.flatMap(_.files.map(_.getLen)).sum
}

object FixedFiles {

  /** Returns a predicate on partition values from conditions on partition columns. */
  def predicate(partition: StructType, conditions: Seq[Expression]): InternalRow => Boolean = {
    val bound = Predicate.createInterpreted(conditions.reduceOption(And).getOrElse(Literal.TrueLiteral).transform { case column: AttributeReference =>
      val at = partition.indexWhere(_.name.equalsIgnoreCase(column.name))
      BoundReference(at, partition(at).dataType, nullable = true)
    })
    bound.eval(_)
  }
}
