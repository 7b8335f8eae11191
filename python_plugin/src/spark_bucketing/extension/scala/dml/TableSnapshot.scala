package org.apache.spark.sql.bucketing
package dml

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.FileStatus

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.hash.BucketHash
import org.apache.spark.sql.bucketing.metadata._
import org.apache.spark.sql.bucketing.read._
import org.apache.spark.sql.bucketing.write.{FileSizes, GroupKey}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.expressions.{Expression, InSet, Literal}
import org.apache.spark.sql.execution.command.DDLUtils
import org.apache.spark.sql.execution.datasources.HadoopFsRelation
import org.apache.spark.sql.types.{StringType, StructType}

/**
 * A file of a table.
 *
 * @param id its position in the snapshot
 * @param partition its partition values
 * @param known its statistics; None if they are missing or ambiguous, so that the file may contain any row of its partition
 * @param cell the place of its rows
 */
case class TableFile(id: Int, status: FileStatus, partition: InternalRow, known: Option[FileStats], cell: Cell)

/** The files of a table at the start of a statement. */
abstract class TableSnapshot(val table: CatalogTable, val partition: StructType, val files: IndexedSeq[TableFile]) {

  /** Finds the places of rows. */
  def places: RowPlaces

  /** Returns the bucket spec and the seals of some files, or None if a file has no valid seal. */
  def sealsOf(files: Seq[TableFile]): Option[(SealedSpec, Map[String, Seal])] = None

  /** Returns whether rows of a file may meet conditions on the columns of the target. */
  def mayMatch(conditions: Seq[Expression]): TableFile => Boolean

  /**
   * Returns lookups of the files that may contain a row with certain values.
   *
   * @param key returns the value that a row of the source requires in a column of the target, if there is one
   */
  def lookup(files: Seq[TableFile], key: String => Option[Expression]): Option[KeyLookup]

  /** The average size of a row in a file. */
  def bytesPerRow: Double = table.schema.defaultSize.toDouble

  /** The number of rows after which a range is sampled once. */
  def sampleStep: Option[Long] = None
}

/** The files of an organized table. */
class OrganizedSnapshot(
    table: CatalogTable, val columns: FileStatisticsColumns, files: IndexedSeq[TableFile], ranges: FileRanges) extends TableSnapshot(table, columns.partition, files) {

  private val SamplesPerFile = 20L

  override val places: OrganizedPlaces = new OrganizedPlaces(columns, ranges)

  private val (knownRows, knownBytes, knownFiles) = files.foldLeft((0L, 0L, 0L)) { case ((rows, bytes, number), file) =>
    file.known.fold((rows, bytes, number))(stats => (rows + stats.rows, bytes + stats.bytes, number + 1))
  }

  /** The average size of a row in a file. Without files, an estimate from the column types. */
  override val bytesPerRow: Double = if (knownRows > 0) math.max(0.01, knownBytes.toDouble / knownRows) else super.bytesPerRow

  /** The target number of rows of a file. Without a property, files keep their average size. */
  val rowsPerFile: Long = new FileSizes(table).rowsPerFile(bytesPerRow)
    .getOrElse(if (knownFiles > 0) math.max(1, knownRows / knownFiles) else FileSizes.defaultRowsPerFile(bytesPerRow))

  override def sampleStep: Option[Long] = if (columns.organized.isEmpty) None else Some(math.max(1, rowsPerFile / SamplesPerFile))

  override def mayMatch(conditions: Seq[Expression]): TableFile => Boolean = {
    val mayMatch = FileRangeFilter.mayMatch(conditions)
    _.known.forall(mayMatch)
  }

  override def lookup(files: Seq[TableFile], key: String => Option[Expression]): Option[KeyLookup] = {
    val groups = (partition ++ columns.implicitPartition).map(_.name).zipWithIndex.flatMap { case (name, i) => key(name).map(i -> _) }
    val range = columns.organized.headOption.flatMap(column => key(column.name).map(column -> _))
    if (groups.isEmpty && range.isEmpty) None
    else Some(KeyLookup(KeyCandidates(files, groups.map(_._1), range.map(_._1)), groups.map(_._2), range.map(_._2)))
  }
}

/**
 * The files of a bucketed table. If the seal of a partition is valid and has the table's bucket spec, its files contain the rows of their buckets. In
 * other partitions, rows may be in any file.
 *
 * @param isSealable whether all engines agree on the buckets of rows
 */
class BucketedSnapshot(table: CatalogTable, val spec: SealedSpec, val isSealable: Boolean, files: IndexedSeq[TableFile], conf: Configuration)
    extends TableSnapshot(table, table.partitionSchema, files) {

  override val places: BucketPlaces = new BucketPlaces(partition, spec, table.dataSchema)

  override def sealsOf(files: Seq[TableFile]): Option[(SealedSpec, Map[String, Seal])] =
    if (files.exists(_.cell.range == Cell.Unknown)) None
    else Some(spec -> files.map(_.status).groupBy(file => BucketFiles.folderOf(file.getPath.getParent, conf)).map { case (folder, of) =>
      folder -> Seal(spec, PartitionFiles.digest(of))
    })

  override def mayMatch(conditions: Seq[Expression]): TableFile => Boolean = {
    val keys = spec.columns.map(name => conditions.flatMap(_.references).find(_.name.equalsIgnoreCase(name)))
    val buckets = if (keys.contains(None)) None
      else BucketPruning.wanted(conditions, keys.flatten, SealedBuckets(table.identifier.table, spec.hash, spec.numBuckets, spec.columns, Nil))
    file => file.cell.range == Cell.Unknown || buckets.forall(_.contains(BucketPlaces.bucketOf(file.cell)))
  }

  override def lookup(files: Seq[TableFile], key: String => Option[Expression]): Option[KeyLookup] = {
    val ofPartition = partition.fieldNames.toSeq.zipWithIndex.flatMap { case (name, i) => key(name).map(i -> _) }
    val keys = spec.columns.map(key)
    val bucket = if (keys.contains(None)) None else Some(partition.size -> places.bucketOf(keys.flatten))
    val groups = ofPartition ++ bucket
    if (groups.isEmpty) None else Some(KeyLookup(KeyCandidates(files, groups.map(_._1), None), groups.map(_._2), None))
  }
}

object TableSnapshot {

  /** Lists the files of the partitions that a statement may touch. */
  def now(session: SparkSession, table: CatalogTable, statement: ChangeRows, conditions: Seq[Expression]): TableSnapshot = {
    val partitionFilters = conditions.filterNot(isMisread)
    val listed = for (directory <- CurrentFiles.now(session, table, partitionFilters); file <- directory.files) yield (directory.values, file.fileStatus)
    listed.groupBy(_._2.getPath).collectFirst { case (path, of) if of.size > 1 => path.getParent -> of.size }.foreach { case (folder, number) =>
      throw Compat.refusal(s"Cannot change rows of ${table.identifier.quotedString}.", s"$number partitions in the directory $folder",
        "a separate directory for each partition", "move the rows of each partition into a separate directory, for example with INSERT OVERWRITE, and run " +
        "it again; nothing has been replaced")
    }
    if (FileStatistics.isKept(table.properties)) organized(session, table, statement.files, listed) else bucketed(session, table, statement, partitionFilters, listed)
  }

  /** Returns whether the metastore cannot parse a filter: it has no escapes for quotes, and takes a backslash for one. Without the filter, more files are listed. */
  private def isMisread(filter: Expression): Boolean = filter.exists {
    case Literal(value, _: StringType) => value != null && value.toString.exists(char => char == '"' || char == '\\')
    case of: InSet => of.set.exists(value => value != null && value.toString.exists(char => char == '"' || char == '\\'))
    case _ => false
  }

  private def organized(session: SparkSession, table: CatalogTable, relation: HadoopFsRelation, listed: Seq[(InternalRow, FileStatus)]): TableSnapshot = {
    val columns = FileStatisticsColumns(table)
    // As for queries, statistics do not count if this session may read other values.
    val isSame = SealedSpecs.otherColumns(relation).isEmpty && columns.organized.forall(column => SealedFormats.isTheSameForAll(table, column.dataType))
    val statistics = if (isSame) FileStatistics.read(session, table) else None
    val known = listed.map { case (_, status) =>
      statistics.fold(Seq.empty[FileStats])(_.of(status)) match {
        case Seq(one) if columns.describe(one) => Some(one)
        case _ => None
      }
    }
    val groups = listed.zip(known).map { case ((partition, _), stats) => GroupKey.of(columns, partition, stats) }
    val column = columns.organized.headOption
    val ranges = FileRanges(column, groups.zip(known).collect { case (group, Some(stats)) => group -> stats })
    val files = listed.zip(known).zip(groups).zipWithIndex.map { case ((((partition, status), stats), group), id) =>
      val range = stats.fold(Cell.Unknown)(of => column.fold(1)(range => ranges.rangeOf(group, of.column(range))))
      TableFile(id, status, partition, stats, Cell(group, range))
    }
    new OrganizedSnapshot(table, columns, files.toIndexedSeq, ranges)
  }

  private def bucketed(session: SparkSession, table: CatalogTable, statement: ChangeRows, partitionFilters: Seq[Expression], listed: Seq[(InternalRow, FileStatus)]): TableSnapshot = {
    val hash = if (DDLUtils.isHiveTable(table)) BucketValidation.statedHash(table, "change rows of") else BucketHash.Spark
    def refused(found: String, expected: String, instead: String) = ResolveRowChanges.refusal(table.identifier.quotedString, found, expected, instead)
    val buckets = table.bucketSpec.getOrElse(throw refused("a table without buckets", "a bucketed table", "run REFRESH TABLE, and then the statement again"))
    val spec = SealedSpec.of(buckets, hash, table.dataSchema).getOrElse(throw refused(s"the columns ${table.dataSchema.fieldNames.mkString(", ")}",
      s"exactly one of each bucket and sort column: ${(buckets.bucketColumnNames ++ buckets.sortColumnNames).mkString(", ")}", "change the buckets with ALTER TABLE ... CLUSTERED BY"))
    for (hive <- hash.asHiveHash if !hash.isWrittenByStockSpark; key <- BucketValidation.unlikeHive(table, hive, buckets.bucketColumnNames))
      throw refused(s"the bucket column ${key.name} of type ${key.dataType.sql}", s"a column of type ${hive.types}", "bucket the table by another column")
    val isSealable = SealedSpec.ofFiles(buckets, hash, table.dataSchema).isDefined
    val readsSealed = isSealable && SealedSpecs.otherColumns(statement.files).isEmpty
    val conf = Compat.hadoopConf(session)
    def folderOf(file: FileStatus) = BucketFiles.folderOf(file.getPath.getParent, conf)
    // A file of zero bytes has no rows, and Spark cannot read it.
    val files = listed.filter(_._2.getLen > 0)
    val (seals, byFolder) = (SealedSpecs.seals(session, table, partitionFilters), files.map(_._2).groupBy(folderOf))
    checkMissing(session, table, seals, byFolder)
    val valid = byFolder.collect { case (folder, of) if readsSealed && seals.get(folder).exists(seal => seal.spec == spec && isSealed(of, seal)) => folder }.toSet
    val placed = files.zipWithIndex.map { case ((values, status), id) =>
      val partition = GroupKey.of(values.copy().toSeq(table.partitionSchema))
      val bucket = if (valid(folderOf(status))) BucketFiles.bucketOf(status.getPath.getName, hash) else None
      TableFile(id, status, values, None, bucket.fold(BucketPlaces.unknown(partition))(BucketPlaces.cell(partition, _)))
    }
    new BucketedSnapshot(table, spec, isSealable, placed.toIndexedSeq, conf)
  }

  private def checkMissing(session: SparkSession, table: CatalogTable, seals: Map[String, Seal], files: Map[String, Seq[FileStatus]]): Unit = {
    val suspects = seals.filter { case (folder, seal) => seal.missing(files.getOrElse(folder, Nil)) > 0 }
    MissingFiles.certain(session, table.identifier, suspects).toSeq.sortBy(_._1).headOption.foreach { case (folder, number) =>
      throw MissingFiles.refusal(s"Cannot change rows of ${table.identifier.quotedString}.", table.identifier,
        s"${MissingFiles.words(number, seals(folder))} in ${BucketFiles.nameOf(folder)}", "; nothing has been replaced")
    }
  }

  private def isSealed(files: Seq[FileStatus], seal: Seal): Boolean = PartitionFiles.digest(files) == seal.files &&
    files.forall(file => BucketFiles.bucketOf(file.getPath.getName, seal.spec.hash).exists(_ < seal.spec.numBuckets))
}
