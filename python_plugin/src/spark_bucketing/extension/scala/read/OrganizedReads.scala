package org.apache.spark.sql.bucketing
package read

import java.util.Collections

import scala.annotation.tailrec
import scala.util.control.NonFatal

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.metadata.{FileStatistics, ColumnStats, FileStats, Replacement, TableFiles}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet, Expression, GenericInternalRow}
import org.apache.spark.sql.columnar.{CachedBatch, SimpleMetricsCachedBatch}
import org.apache.spark.sql.execution.{FileSourceScanExec, SparkPlan}
import org.apache.spark.sql.execution.columnar.DefaultCachedBatchSerializer
import org.apache.spark.sql.execution.datasources.{FileIndex, PartitionDirectory}
import org.apache.spark.sql.types.{DataType, StructType, TimestampType}
import org.apache.spark.util.ThreadUtils

/**
 * Reads of organized tables: the files of before or after a replacement, and none whose range the filters of a query rule
 * out, which are not opened.
 */
object OrganizedReads {

  def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
    case scan: FileSourceScanExec if !scan.isInstanceOf[BucketAwareScan] => organized(scan).getOrElse(scan)
  }

  private def organized(scan: FileSourceScanExec): Option[FileSourceScanExec] = for {
    relation <- SealedSpecs.relationOf(scan)
    table <- relation.catalogTable
    if FileStatistics.isKept(table.properties)
  } yield {
    val session = scan.relation.sparkSession
    val prunes = scan.dataFilters.nonEmpty && SealedSpecs.otherColumns(scan.relation).isEmpty
    val map = if (prunes) FileStatistics.read(session, new Path(table.location), table.partitionColumnNames.size) else None
    val files = OrganizedFiles(scan.relation.location)(session, table, map)
    BucketAwareScan.like(scan, scan.copy(relation = scan.relation.copy(location = files)(session)))
  }
}

/** The files of an organized table, of which those are listed that may have rows for a query's filters. */
case class OrganizedFiles(all: FileIndex)(session: SparkSession, table: CatalogTable, map: Option[FileStatistics]) extends FileIndex with Logging {

  override def listFiles(partitionFilters: Seq[Expression], dataFilters: Seq[Expression]): Seq[PartitionDirectory] = {
    val listed = OrganizedFiles.asOfOneMoment(session, table, all, partitionFilters, dataFilters)
    // No query is to fail for what only makes it faster.
    try map.fold(listed) { known =>
      val mayMatch = FileRangeFilter.mayMatch(dataFilters.filter(_.references.forall(attribute => isTheSameForAll(attribute.dataType))))
      OrganizedFiles.only(listed) { file =>
        val mapped = known.of(file)
        mapped.isEmpty || mapped.exists(mayMatch)
      }
    } catch {
      case NonFatal(error) =>
        logWarning("All files of an organized table are read, since its ranges could not be compared with the filters.", error)
        listed
    }
  }

  /** ORC keeps the wall clock of the writer: in another time zone its timestamps are other ones than the map has. */
  private def isTheSameForAll(dataType: DataType): Boolean =
    dataType != TimestampType || !table.provider.exists(_.equalsIgnoreCase("orc"))

  override def rootPaths: Seq[Path] = all.rootPaths
  override def inputFiles: Array[String] = all.inputFiles
  override def refresh(): Unit = all.refresh()
  override def sizeInBytes: Long = all.sizeInBytes
  override def partitionSchema: StructType = all.partitionSchema
  override def metadataOpsTimeNs: Option[Long] = all.metadataOpsTimeNs
  override def toString: String = all.toString
}

object OrganizedFiles {

  private val Attempts = 5
  // Longer than a query is planned, and than clocks differ.
  private val Recent = 600000L

  /** All files that a table has now. */
  def now(session: SparkSession, table: CatalogTable): Seq[PartitionDirectory] =
    asOfOneMoment(session, table, Compat.filesAnew(session, table), Nil, Nil)

  /**
   * What is listed as it was at a moment between two replacements. Folders are not listed at one moment, and maybe
   * long ago: the records that are read *after* them tell which of their files count. Those do not that come with a replacement which is
   * not committed, and those that go with one that is, and is not done. They are listed again where they may be older than the last one that is
   * committed, and not a second time for it, unless they have old files that are gone now, when it is done.
   *
   * @param index what lists them, and may keep what it has listed
   */
  @tailrec
  def asOfOneMoment(
      session: SparkSession, table: CatalogTable, index: FileIndex, partitionFilters: Seq[Expression], dataFilters: Seq[Expression],
      listedFor: Option[Path] = None, attempts: Int = Attempts): Seq[PartitionDirectory] = {
    val names = TableFiles(new Path(table.location))
    val all = index.listFiles(partitionFilters, Nil)
    val listed = if (dataFilters.exists(ofFiles)) index.listFiles(partitionFilters, dataFilters) else all
    val found = all.iterator.flatMap(_.files).map(file => names.nameOf(file.fileStatus.getPath)).toSet
    val conf = Compat.hadoopConf(session)
    val records = Replacement.records(new Path(table.location), conf)
    val older = records.filter(_.isCommitted).lastOption.filter { last =>
      hasGone(last, found, names, conf) || !listedFor.contains(last.folder) && mayBeOlder(session, found, last)
    }
    older match {
      case None =>
        records.foreach(_.checkRestored(found))
        without(listed, records.flatMap(_.hidden).toSet, names)
      case Some(last) if attempts > 0 =>
        // What the query, and the session, list from now on is of this replacement or of a later one.
        index.refresh()
        listedSince.put(session, listedSince.getOrDefault(session, Map.empty) + (last.folder.getParent -> last.folder))
        asOfOneMoment(session, table, Compat.filesAnew(session, table), partitionFilters, dataFilters, Some(last.folder), attempts - 1)
      case Some(_) => throw Compat.refusal(
        s"The files of ${table.identifier.quotedString} are being replaced again and again. Run the query again.")
    }
  }

  /** Whether Spark leaves out files by a filter: one on their names, or the like. */
  private def ofFiles(filter: Expression): Boolean = filter.references.exists(_.name.startsWith("file_"))

  // The last replacements, long ago, since which a session has listed tables anew. What it kept before may be older than several.
  private val listedSince = Collections.synchronizedMap(new java.util.WeakHashMap[SparkSession, Map[Path, Path]])

  private def mayBeOlder(session: SparkSession, found: Set[String], last: Replacement): Boolean =
    if (isShownByFiles(last)) !last.added.subsetOf(found)
    else !listedSince.getOrDefault(session, Map.empty).get(last.folder.getParent).contains(last.folder)

  /** Whether an old file was listed before it was deleted. One that is there after the replacement is done has been restored. */
  private def hasGone(last: Replacement, found: Set[String], names: TableFiles, conf: Configuration): Boolean = last.done.nonEmpty && {
    val old = last.removed.filter(found).toSeq.map(names.pathOf)
    ThreadUtils.parmap(old, "replaced-files", 16)(file => file.getFileSystem(conf).exists(file)).contains(false)
  }

  /**
   * Whether its new files show that a listing is not older. There may be none, or others may have replaced them by now, or a query selects
   * partitions without any: then it counts whether the session has listed since.
   */
  private def isShownByFiles(last: Replacement): Boolean = last.added.nonEmpty && !isOld(last)

  private def without(listed: Seq[PartitionDirectory], gone: Set[String], names: TableFiles): Seq[PartitionDirectory] =
    only(listed)(file => !gone(names.nameOf(file.getPath)))

  private def isOld(of: Replacement): Boolean = of.done.exists(time => math.abs(System.currentTimeMillis - time) > Recent)

  def only(listed: Seq[PartitionDirectory])(keep: FileStatus => Boolean): Seq[PartitionDirectory] =
    listed.map(directory => directory.copy(files = directory.files.filter(file => keep(file.fileStatus)))).filter(_.files.nonEmpty)}

/**
 * Whether a file whose columns have these least and greatest values may have rows that filters let pass: as Spark asks
 * of the batches of a cached table, whose statistics are just these.
 */
object FileRangeFilter {

  private case class Statistics(numRows: Int, stats: InternalRow) extends SimpleMetricsCachedBatch

  def mayMatch(filters: Seq[Expression]): FileStats => Boolean = {
    // Spark's own code for them, made once for all files that know the same columns in the same types.
    val made = scala.collection.mutable.Map.empty[Seq[Attribute], Iterator[CachedBatch] => Iterator[CachedBatch]]
    val asked = filters.flatMap(_.references).distinct
    file => {
      val columns = asked.flatMap(attribute => columnOf(file, attribute).map(attribute -> _))
      val attributes = columns.map(_._1)
      columns.isEmpty || {
        val kept = made.getOrElseUpdate(attributes, {
          val known = filters.filter(_.references.subsetOf(AttributeSet(attributes)))
          new DefaultCachedBatchSerializer().buildFilter(known, attributes)(0, _)
        })
        kept(Iterator(statistics(file, columns.map(_._2)))).hasNext
      }
    }
  }

  private def columnOf(file: FileStats, attribute: Attribute): Option[ColumnStats] =
    file.columns.collectFirst { case (name, column) if name.equalsIgnoreCase(attribute.name) && column.dataType == attribute.dataType => column }

  /** In the order of Spark's ColumnStatisticsSchema: least and greatest value, NULLs, rows, bytes. */
  private def statistics(file: FileStats, columns: Seq[ColumnStats]): Statistics = {
    def count(rows: Long) = math.min(rows, Int.MaxValue).toInt
    // Where both are cut off, there are other rows than NULLs all the same.
    def nulls(column: ColumnStats) = if (column.nulls < file.rows) math.min(column.nulls, Int.MaxValue - 1).toInt else count(file.rows)
    val values = columns.flatMap { column =>
      Seq[Any](column.lower, column.last, nulls(column), count(file.rows), 0L)
    }
    Statistics(count(file.rows), new GenericInternalRow(values.toArray))
  }
}
