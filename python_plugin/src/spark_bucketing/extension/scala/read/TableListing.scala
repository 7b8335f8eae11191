package org.apache.spark.sql.bucketing
package read

import java.util.concurrent.{ConcurrentHashMap, ConcurrentMap}
import java.util.concurrent.atomic.{AtomicLong, AtomicReference}

import com.google.common.collect.MapMaker
import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.compat.SparkVersion.ClassicSession
import org.apache.spark.sql.bucketing.metadata.{Replacement, TableFiles}
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.execution.datasources.{CatalogFileIndex, FileIndex, FileStatusCache, InMemoryFileIndex}

/**
 * The replacements of a table at a moment.
 *
 * @param began the moment before the records were read
 * @param ended the moment after the records were read
 */
case class ReplacementsAt(began: Moment, ended: Moment, all: Seq[Replacement])

object ReplacementsAt {
  def now(session: SparkSession, table: CatalogTable): ReplacementsAt = {
    val began = Moment.now()
    val all = Replacement.forReader(new Path(table.location), Compat.hadoopConf(session))
    ReplacementsAt(began, Moment.now(), all)
  }
}

/** A moment by two clocks: the first one never goes back, but may stand still while the machine sleeps. */
case class Moment(nanos: Long, millis: Long) {
  def millisUntil(later: Moment): Long = ((later.nanos - nanos) / 1000000).max(later.millis - millis)
}

object Moment {
  def now(): Moment = Moment(System.nanoTime, System.currentTimeMillis)
}

/**
 * The listed directories of a table. Every directory was listed after `began`, or has not changed between its listing and this moment. So a directory is as it
 * was at `began`, except for the replacements of which [[isNews]] is true. If there are any, use the listing [[after]] them.
 *
 * A listing does not change: if a thread lists a directory late, the directory is part of the thread's own listing only, not of a newer one.
 *
 * @param cache cache of directories, for all listings of the table
 * @param known the states of the replacements at this moment
 * @param id identifies this listing in the cache
 * @param changed the directories that a newer listing has listed again, with its id
 * @param isFirst whether the table had no replacements before this listing
 */
class TableListing private (
    files: TableFiles, cache: FileStatusCache, @volatile private var began: Moment, known: Set[String], id: String, changed: Map[String, String], val isFirst: Boolean = false)
  extends FileStatusCache {

  private def key(directory: Path) =
    new Path(directory, if (changed.isEmpty) id else changed.getOrElse(files.folderOf(new Path(directory, "file")), id))

  override def getLeafFiles(directory: Path): Option[Array[FileStatus]] = cache.getLeafFiles(key(directory)).map(PackedFiles.unpack)
  override def putLeafFiles(directory: Path, found: Array[FileStatus]): Unit = cache.putLeafFiles(key(directory), PackedFiles.pack(found))
  override def invalidateAll(): Unit = cache.invalidateAll()

  /** Whether a replacement has been decided, or its files have been deleted, since this listing. Until an undone one is done, readers ignore its files. */
  def isNews(of: Replacement): Boolean = (of.isCommitted || of.done.isDefined) && !known(TableListing.stateOf(of))

  /** Whether later statements may have deleted the records of statements since this listing. */
  def isOld(now: ReplacementsAt): Boolean = began.millisUntil(now.ended) > Replacement.KeptMillis * 9 / 10

  /** Whether the table has been created again since this listing, because the last record of a table stays. */
  def isOfOtherTable(now: ReplacementsAt): Boolean = known.nonEmpty && now.all.isEmpty

  /** Notes that there were no news at a moment. */
  def confirm(now: ReplacementsAt): Unit = if (began.nanos < now.began.nanos) began = now.began

  /** Returns a listing that lists again only the directories that replacements have changed since this listing. */
  def after(now: ReplacementsAt): TableListing = {
    val (news, next) = (now.all.filter(isNews), TableListing.newId())
    def states = now.all.map(TableListing.stateOf).toSet
    if (news.isEmpty && !isOfOtherTable(now) || began.nanos >= now.began.nanos) this
    else if (isOld(now) || isOfOtherTable(now) || news.exists(_.isOfAnyFiles)) {
      invalidateAll()
      new TableListing(files, cache, now.began, states, next, Map.empty)
    } else {
      // A listed directory may contain others.
      val folders = news.flatMap(_.folders).flatMap(Iterator.iterate(_)(folder => TableFiles.folderOf(folder.stripSuffix("/"))).takeWhile(_.nonEmpty)) :+ ""
      new TableListing(files, cache, now.began, states, id, changed ++ folders.map(_ -> next))
    }
  }
}

object TableListing {

  // Short names, because Spark's cache counts their length for each directory.
  private val ids = new AtomicLong
  private def newId(): String = s"#${java.lang.Long.toString(ids.incrementAndGet, Character.MAX_RADIX)}"

  /** The state of a replacement. The time of its end changes if files of an undone one are deleted late. */
  private def stateOf(of: Replacement) = s"${of.name} ${of.decision} ${of.done}"

  def apply(table: CatalogTable, cache: FileStatusCache, now: ReplacementsAt): TableListing =
    new TableListing(TableFiles(new Path(table.location)), cache, now.began, now.all.map(stateOf).toSet, TableListing.newId(), Map.empty, isFirst = now.all.isEmpty)
}

/** The newest listing of a table. Queries share it, so that only the first one lists a directory. */
class SharedListing(session: SparkSession, table: CatalogTable, cache: FileStatusCache) {
  private val newest = new AtomicReference(TableListing(table, cache, ReplacementsAt.now(session, table)))

  def listing: TableListing = newest.get
  def advance(now: ReplacementsAt): Unit = newest.updateAndGet(_.after(now))
}

object SharedListing {

  private val known: ConcurrentMap[FileIndex, SharedListing] = new MapMaker().weakKeys().makeMap()

  /** Returns the listing that queries share for Spark's index of the table. REFRESH TABLE empties its cache. If Spark has no cache, queries share nothing. */
  def of(session: SparkSession, table: CatalogTable, index: FileIndex): SharedListing =
    Compat.listingCache(index).fold(fresh(session, table))(cache => known.computeIfAbsent(index, _ => new SharedListing(session, table, cache)))

  /** Returns a listing for one statement. */
  def fresh(session: SparkSession, table: CatalogTable): SharedListing = new SharedListing(session, table, new OwnCache)

  private class OwnCache extends FileStatusCache {
    private val known = new ConcurrentHashMap[Path, Array[FileStatus]]
    override def getLeafFiles(path: Path): Option[Array[FileStatus]] = Option(known.get(path))
    override def putLeafFiles(path: Path, found: Array[FileStatus]): Unit = known.put(path, found)
    override def invalidateAll(): Unit = known.clear()
  }
}

/** An index that knows with which listing it has listed its directories. */
trait ListedIndex {

  def shared: SharedListing

  /**
   * Returns the directories of the partitions that filters select, and their listing.
   *
   * @param isAgain whether the listing must be the newest of the table
   */
  def directories(filters: Seq[Expression], isAgain: Boolean): (TableListing, FileIndex)
}

object ListedIndex {

  /** Returns the index of a query. */
  def apply(session: SparkSession, table: CatalogTable, index: FileIndex, options: Map[String, String]): ListedIndex = index match {
    case listed: ListedIndex => listed
    case all: CatalogFileIndex => new SealedCatalogIndex(session.asInstanceOf[ClassicSession], all)
    // Spark has listed all partitions if `spark.sql.hive.manageFilesourcePartitions` is false.
    case _: InMemoryFileIndex if isPartitioned(table) => fresh(session, table)
    case _ => new WholeIndex(session, table, options, Some(index), SharedListing.of(session, table, index))
  }

  /** Returns an index that lists the directories itself, for a statement. */
  def fresh(session: SparkSession, table: CatalogTable): ListedIndex =
    if (isPartitioned(table)) ofPartitions(session, table)
    else new WholeIndex(session, table, table.storage.properties, None, SharedListing.fresh(session, table))

  /** Returns an index of a partitioned table that lists the directories itself. */
  def ofPartitions(session: SparkSession, table: CatalogTable): SealedCatalogIndex = {
    val of = session.asInstanceOf[ClassicSession]
    new SealedCatalogIndex(of, new CatalogFileIndex(of, table, 0), SharedListing.fresh(session, table))
  }

  /** Returns whether the metastore knows the partitions of a table. */
  def isPartitioned(table: CatalogTable): Boolean = table.tracksPartitionsInCatalog && table.partitionColumnNames.nonEmpty
}

/**
 * The files of a table without partitions in the metastore.
 *
 * @param first Spark's own index, which has listed the files at an unknown time. It is right for a table that never had a replacement
 */
private class WholeIndex(session: SparkSession, table: CatalogTable, options: Map[String, String], first: Option[FileIndex], val shared: SharedListing) extends ListedIndex {
  override def directories(filters: Seq[Expression], isAgain: Boolean): (TableListing, FileIndex) = {
    val listing = shared.listing
    def listed = new InMemoryFileIndex(session, first.fold(Seq(new Path(table.location)))(_.rootPaths), options, Some(table.partitionSchema), listing)
    // The index of a table that a stream writes lists the files in the log of the stream.
    (listing, first.filter(of => listing.isFirst || !of.isInstanceOf[InMemoryFileIndex]).getOrElse(listed))
  }
}
