package org.apache.spark.sql.bucketing
package read

import scala.annotation.tailrec
import scala.util.control.NonFatal

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
import org.apache.spark.sql.execution.datasources.{FileIndex, PartitionDirectory}
import org.apache.spark.sql.types.StructType

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

  private def current(scan: FileSourceScanExec, known: CatalogTable): FileSourceScanExec = {
    val session = scan.relation.sparkSession
    // Another session may have changed the location, where the records are, since this one cached the table. Partitions keep their directories.
    val (table, index) = SealedSpecs.current(scan, known) match {
      case now if now.location != known.location && ListedIndex.isPartitioned(now) =>
        val moved = known.copy(storage = now.storage)
        (moved, ListedIndex.ofPartitions(session, moved))
      case _ => (known, scan.relation.location)
    }
    val prunes = FileStatistics.isKept(table.properties) && scan.dataFilters.nonEmpty && SealedSpecs.otherColumns(scan.relation).isEmpty
    val map = if (prunes) FileStatistics.read(session, table) else None
    val files = CurrentFiles(index)(session, table, scan.relation.options, map)
    val read = scan.copy(relation = scan.relation.copy(location = files, fileFormat = RetainedReads.of(session, table, scan.relation.fileFormat))(session))
    BucketAwareScan.like(scan, if (table.bucketSpec.isEmpty && RuntimeFilters.areIn(scan)) new FilteredScan(read) else read)
  }
}

/**
 * The file index of a table whose files a statement may replace. If the files have statistics, the index lists only files that may contain rows matching the
 * filters.
 *
 * @param all Spark's file index of the table
 * @param options the options of the relation
 * @param map statistics of the files, or None to list all files
 */
case class CurrentFiles(all: FileIndex)(session: SparkSession, table: CatalogTable, options: Map[String, String], map: Option[FileStatistics]) extends FileIndex with Logging {

  override def listFiles(partitionFilters: Seq[Expression], dataFilters: Seq[Expression]): Seq[PartitionDirectory] = {
    val listed = CurrentFiles.asOfOneMoment(session, table, ListedIndex(session, table, all, options), partitionFilters, dataFilters)
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

object CurrentFiles {

  /** Returns Spark's own file index. */
  def stock(index: FileIndex): FileIndex = index match {
    case current: CurrentFiles => current.all
    case listed: ListedFiles => stock(listed.all)
    case other => other
  }

  // Each attempt fails only if another statement commits during it, and lists only the directories that the statement has changed.
  private val Attempts = 20

  /** Lists the current files of a table, without cached listings. */
  def now(session: SparkSession, table: CatalogTable, partitionFilters: Seq[Expression] = Nil): Seq[PartitionDirectory] = {
    Compat.requireFiles(session, table)
    asOfOneMoment(session, table, ListedIndex.fresh(session, table), partitionFilters, Nil)
  }

  /**
   * Lists the files of a table as of a single moment between two replacements. Spark lists directories one after another, and may cache the result. Therefore,
   * this method reads the replacement records after the listing, and lists the directories again that a replacement has changed since the listing began. It
   * excludes two kinds of files: new files of a replacement that is not committed, and old files of a committed replacement that is not done.
   */
  private def asOfOneMoment(
      session: SparkSession, table: CatalogTable, index: ListedIndex, partitionFilters: Seq[Expression], dataFilters: Seq[Expression]): Seq[PartitionDirectory] = {
    val names = TableFiles(new Path(table.location))
    @tailrec
    def list(attempts: Int): Seq[PartitionDirectory] = {
      val (listing, of) = index.directories(partitionFilters, isAgain = attempts < Attempts)
      def files(filters: Seq[Expression]) = of.listFiles(partitionFilters, filters)
      val listed = files(dataFilters.filter(ofFiles))
      def replacements = ReplacementsAt.now(session, table)
      // While the records of an old listing are read, another statement may delete one. Then, the second time, there is its own record.
      val first = replacements
      val now = if (listing.isOld(first) && !first.all.exists(listing.isNews)) replacements else first
      val news = now.all.filter(listing.isNews)
      if (news.nonEmpty || listing.isOfOtherTable(now)) index.shared.advance(now) else listing.confirm(now)
      lazy val folders = of.rootPaths.map(folder => names.folderOf(new Path(folder, "file"))).toSet
      // A new partition may be one that the query selects. The root of an index may be the table's, with the directories of partitions below it.
      // Readers ignore the files of an undone replacement as long as its record exists.
      def isRead(change: Replacement) = change.isOfAnyFiles || change.isCommitted && (change.created.nonEmpty || folders("") || change.folders.exists(folders))
      if (listing.isOfOtherTable(now) && attempts > 0) list(attempts - 1)
      else if (news.isEmpty || !listing.isOld(now) && !news.exists(isRead)) {
        lazy val found = files(Nil).iterator.flatMap(_.files).map(file => names.nameOf(file.getPath)).toSet
        now.all.foreach(_.checkRestored(name => found(name)))
        val gone = now.all.flatMap(_.hidden).toSet
        if (gone.isEmpty) listed else only(listed)(file => !gone(names.nameOf(file.getPath)))
      } else if (attempts > 0) list(attempts - 1)
      else throw Compat.refusal(
        s"The files of ${table.identifier.quotedString} cannot be listed.", "repeated replacements of files during the listing",
        "no replacement of files during the listing", "run the query again")
    }
    list(Attempts)
  }

  /** Returns whether Spark itself uses a filter to skip files, such as a filter on file names. */
  def ofFiles(filter: Expression): Boolean = filter.references.exists(_.name.startsWith("file_"))

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
