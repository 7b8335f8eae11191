package org.apache.spark.sql.bucketing

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.catalyst.catalog.{BucketSpec, CatalogTable, CatalogTablePartition}
import org.apache.spark.sql.execution.FileSourceScanExec
import org.apache.spark.sql.execution.datasources.PartitioningUtils
import org.apache.spark.sql.internal.SQLConf

/**
 * For how many buckets the files of a scan were written.
 *
 * @param common divides the numbers of all files
 * @param byFolder the numbers by the folder (BucketFiles.folderOf), where they are not all the same
 */
case class BucketCounts(common: Int, byFolder: Map[String, Int] = Map.empty) {

  /** The number for a file, by its URL. */
  def of(file: String): Int = if (byFolder.isEmpty) common else byFolder.getOrElse(BucketFiles.folderOf(file), common)

  lazy val distinct: Seq[Int] = (byFolder.values.toSeq :+ common).distinct.sorted

  override def toString: String =
    if (byFolder.isEmpty) "" else s" of partitions with ${byFolder.values.toSeq.distinct.sorted.mkString(", ")}"
}

/** The files of a scan, listed when they are asked for. Who relies on what they are reads them, and no others. */
class FilesOnDemand(scan: FileSourceScanExec) {

  private lazy val all = BucketListing.of(scan)
  private var asked = false

  def listing: BucketListing = { asked = true; all }

  /** The listing if somebody relies on it; nothing is listed for this. */
  def listed: Option[BucketListing] = if (asked) Some(all) else None
}

/** By which spec the partitions that a query selects can be read together, as the metastore has it. */
object SelectedPartitions {

  /** Why partitions are not read by a spec: of one of them, and of several. */
  private case class Objection(ofOne: String, ofSeveral: String)

  /** What the metastore says of a partition: its spec, or why it is not read by one. */
  private case class Said(name: String, folder: String, spec: Either[Objection, BucketSpec])

  /**
   * The spec of the selected partitions, of as many buckets as divide the number of each, and these numbers; or why they
   * are read plainly. None for a table without buckets.
   *
   * A partition without files fits every spec. Files are looked for only when the partitions do not fit together by the
   * metastore.
   */
  def of(
      scan: FileSourceScanExec, table: CatalogTable,
      files: FilesOnDemand): Option[Either[String, (BucketSpec, BucketCounts)]] = {
    val now = current(scan, table)
    def tables = now.bucketSpec.map(spec => Right(spec -> BucketCounts(spec.numBuckets)))
    def read(selected: Seq[Said]): Option[Either[String, (BucketSpec, BucketCounts)]] =
      if (selected.isEmpty) tables
      else if (now.bucketSpec.isEmpty && selected.forall(_.spec.isLeft)) None
      else Some(together(selected, scan.relation.sparkSession.sparkContext.defaultParallelism))
    if (!isEvolved(now)) tables
    else {
      val selected = partitions(scan, now)
      read(selected) match {
        case Some(Left(why)) => read(withFiles(selected, files.listing)).orElse(Some(Left(why)))
        case found => found
      }
    }
  }

  /**
   * The partitions that have files; all, where there are files of which it cannot be told which partition's they are, so
   * that no partition is taken for an empty one that is not.
   */
  private def withFiles(selected: Seq[Said], listing: BucketListing): Seq[Said] = {
    val folders = listing.files.iterator.map(file => BucketFiles.folderOf(file)).toSet
    if (folders.subsetOf(selected.map(_.folder).toSet)) selected.filter(said => folders.contains(said.folder))
    else selected
  }

  /** As another session may have altered it since this one put it into its cache. */
  private def current(scan: FileSourceScanExec, table: CatalogTable): CatalogTable =
    if (table.partitionColumnNames.isEmpty) table
    else OncePerPlanning(table.identifier)(Compat.current(scan.relation.sparkSession, table))

  /** Only then do partitions have specs that may differ from the table's, so that others are never asked for. */
  private def isEvolved(table: CatalogTable): Boolean =
    table.partitionColumnNames.nonEmpty && PartitionRecord.isEvolved(table)

  /** The selected partitions, by one call to the metastore. Those left out while the query runs are among them. */
  private def partitions(scan: FileSourceScanExec, table: CatalogTable): Seq[Said] = {
    val session = scan.relation.sparkSession
    val filters = OncePerPlanning.known(scan.partitionFilters).filter(_.deterministic)
    val conf = Compat.hadoopConf(session)
    OncePerPlanning(table.identifier -> OncePerPlanning.comparable(filters)) {
      val found = Compat.externalCatalog(session)
        .listPartitionsByFilter(table.database, table.identifier.table, filters, SQLConf.get.sessionLocalTimeZone)
      found.map { partition =>
        val name = PartitioningUtils.getPathFragment(partition.spec, table.partitionSchema)
        Said(name, folderOf(partition, conf), spec(table, partition))
      }
    }
  }

  private def spec(table: CatalogTable, partition: CatalogTablePartition): Either[Objection, BucketSpec] =
    PartitionRecord.parse(partition.parameters) match {
      case Some(Right(record)) if record.isBucketed => Right(specOf(record))
      case Some(Right(_)) =>
        Left(Objection("is recorded as one without buckets", "are recorded as ones without buckets"))
      case Some(Left(why)) => Left(Objection(s"has a broken record: $why", s"have broken records: $why"))
      case None =>
        val ofTable = table.bucketSpec.map(spec => specOf(PartitionRecord.of(spec)))
        ofTable.toRight(Objection("has no record", "have no record"))
    }

  // Names in the records' spelling, so that specs can be compared.
  private def specOf(record: PartitionRecord): BucketSpec =
    BucketSpec(record.numBuckets, record.columns, record.sortColumns)

  private def folderOf(partition: CatalogTablePartition, conf: Configuration): String = {
    val path = new Path(partition.location)
    BucketFiles.folder(SparkPath.fromPath(path.getFileSystem(conf).makeQualified(path)).urlEncoded)
  }

  private def together(selected: Seq[Said], cores: Int): Either[String, (BucketSpec, BucketCounts)] = {
    lazy val specs = selected.collect { case Said(name, _, Right(spec)) => name -> spec }
    lazy val counts = specs.map(_._2.numBuckets)
    lazy val common = counts.map(BigInt(_)).reduce(_ gcd _).toInt
    refusal(selected).toLeft(()).flatMap(_ => byColumns(specs)).flatMap { columns =>
      if (!BucketAlignment.worthMerging(common, counts.max, cores)) Left(differing(specs, _.numBuckets, _ + " buckets"))
      else {
        val folders = if (counts.forall(_ == common)) Map.empty[String, Int]
          else selected.map(_.folder).zip(counts).toMap
        Right(BucketSpec(common, columns, sortColumns(specs.map(_._2))) -> BucketCounts(common, folders))
      }
    }
  }

  /** Why some of them are read by no spec: the first reason, and of how many partitions it is one. */
  private def refusal(selected: Seq[Said]): Option[String] =
    selected.collectFirst { case Said(name, _, Left(why)) =>
      val more = selected.count(_.spec == Left(why)) - 1
      if (more == 0) s"partition $name ${why.ofOne}" else s"partitions $name${others(more)} ${why.ofSeveral}"
    }

  private def byColumns(specs: Seq[(String, BucketSpec)]): Either[String, Seq[String]] =
    if (specs.map(_._2.bucketColumnNames).distinct.length == 1) Right(specs.head._2.bucketColumnNames)
    else Left(differing(specs, _.bucketColumnNames.mkString(", "), "by " + _))

  private def sortColumns(specs: Seq[BucketSpec]): Seq[String] =
    specs.map(_.sortColumnNames).reduce((a, b) => a.zip(b).takeWhile { case (x, y) => x == y }.map(_._1))

  /** Names a partition of each kind, as an example. */
  private def differing[T](specs: Seq[(String, BucketSpec)], kind: BucketSpec => T, words: String => String): String = {
    val kinds = specs.map { case (name, spec) => kind(spec) -> name }
    val examples = kinds.map(_._1).distinct.take(3).map { found =>
      val names = kinds.filter(_._1 == found).map(_._2)
      s"${words(found.toString)} in ${names.head}${others(names.length - 1)}"
    }
    s"its bucket specs differ: ${examples.mkString(", ")}"
  }

  private def others(more: Int): String = if (more == 0) "" else s" and $more more"
}
