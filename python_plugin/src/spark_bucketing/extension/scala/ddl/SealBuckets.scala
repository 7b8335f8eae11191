package org.apache.spark.sql.bucketing
package ddl

import org.apache.hadoop.fs.FileStatus

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.hash.{BucketHash, HiveBucketHash}
import org.apache.spark.sql.bucketing.read.{FileValidation, BucketFileValidator, SealedSpecs}
import org.apache.spark.sql.bucketing.metadata._
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryCommand}
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.execution.datasources.HadoopFsRelation
import org.apache.spark.sql.types._

/** The parsed statement ALTER TABLE ... SEAL BUCKETS. */
case class SealBuckets(child: LogicalPlan, partition: Option[TablePartitionSpec], asked: SealOptions) extends UnaryCommand {
  override def output: Seq[Attribute] = SealBuckets.columns
  override protected def withNewChildInternal(changed: LogicalPlan): LogicalPlan = copy(child = changed)
}

object SealBuckets {
  import PartitionSpecs.{attributes, Names}

  val columns: Seq[Attribute] = attributes(
    ("partition", StringType, false), ("status", StringType, false), ("num_buckets", IntegerType, true),
    ("bucket_columns", Names, true), ("sort_columns", Names, true), ("hash", StringType, true), ("files", LongType, false), ("bytes", LongType, false),
    ("files_read", LongType, false), ("problem", StringType, true))
}

/**
 * A partition, or an unpartitioned table, that the statement may seal.
 *
 * @param specs the bucket specs that the files may match, most likely first
 * @param unread files that no earlier seal covers
 */
private case class SealCandidate(part: PartitionFiles, specs: Seq[SealedSpec], unread: Seq[FileStatus])

/**
 * Seals existing files. Spark reads their bucket and sort columns once. The command reports for each partition whether its
 * files match the bucket spec. The command skips files that are already sealed.
 */
case class SealBucketsCommand(name: TableIdentifier, partition: Option[TablePartitionSpec], asked: SealOptions)
    extends LeafRunnableCommand {
  import SealBucketsCommand._

  override val output: Seq[Attribute] = SealBuckets.columns

  override def run(session: SparkSession): Seq[Row] = {
    Compat.refresh(session, name)
    val table = Compat.catalog(session).getTableMetadata(name)
    val relation = checked(session, table)
    val hashes = PartitionFiles.hashesOf(table)
    val selected = SealPartitions.selected(session, table, partition, asked.where)
    val candidates = PartitionFiles.list(session, table, selected).map(candidate(_, table, relation, hashes))
    val specs = candidates.flatMap(_.specs).distinct
    val unread = candidates.filter(_.specs.nonEmpty).flatMap(_.unread)
    val verdicts = new BucketFileValidator(relation, table.identifier.unquotedString, specs).of(unread)
    val verdictOf = unread.map(_.getPath).zip(verdicts.map(specs.zip(_).toMap)).toMap
    val outcomes = candidates.map { candidate =>
      SealOutcome.of(candidate, candidate.unread.map(file => verdictOf.getOrElse(file.getPath, Map.empty)), table.properties)
    }
    (if (asked.dryRun) outcomes else write(session, table, outcomes)).map(_.row)
  }

  /**
   * Writes the new seals. The metastore can only replace a partition's metadata as a whole. Therefore, this method skips a
   * partition that another statement has altered in the meantime.
   */
  private def write(
      session: SparkSession, table: CatalogTable, outcomes: Seq[SealOutcome]): Seq[SealOutcome] = {
    val store = PartitionStore.of(session)
    lazy val now = store.list(table).map(partition => partition.name -> partition).toMap
    def isAltered(partition: StoredPartition) = !now.get(partition.name).exists(_.isSame(partition))
    val kept = outcomes.map { outcome =>
      if (outcome.isNew && outcome.part.partition.exists(isAltered)) outcome.altered else outcome
    }
    val (ofTable, ofPartitions) = kept.filter(_.isNew).partition(_.part.partition.isEmpty)
    ofTable.foreach(outcome => store.sealTable(table, outcome.seal))
    if (ofPartitions.nonEmpty) store.change(table, ofPartitions.map { outcome =>
      val described = outcome.seal.map(_.spec).filter(_.hash.inHiveLayout).map(spec => BucketDescriptor.of(Some(spec.bucketSpec)))
      PartitionChange(now(outcome.part.name), outcome.seal, described)
    })
    if (ofTable.nonEmpty || ofPartitions.nonEmpty) Compat.refresh(session, table.identifier)
    kept
  }
}

private object SealBucketsCommand {
  import SealPartitions.refused

  /** Returns the files of a table, or throws an error if they cannot be sealed. */
  private def checked(session: SparkSession, table: CatalogTable): HadoopFsRelation = {
    if (table.bucketSpec.isEmpty) throw refused(table, "found a table without buckets", "a bucketed table",
      s"declare the bucket spec of its files with ALTER TABLE ${table.identifier.quotedString} CLUSTERED BY (...) INTO n BUCKETS")
    if (table.partitionColumnNames.nonEmpty && !table.tracksPartitionsInCatalog) throw refused(table,
      "found partitions that are not in the metastore", "partitions in the metastore",
      s"run MSCK REPAIR TABLE ${table.identifier.quotedString}, and then this statement again")
    if (!SealedFormats.has(table)) throw refused(table, s"found files in the format ${SealedFormats.of(table)}",
      "PARQUET or ORC, whose readers return rows exactly as they were written", "write its rows into a table with one of these formats")
    val relation = Compat.filesOf(session, table.identifier).getOrElse(throw refused(table,
      "found files that Spark reads with Hive's SerDe",
      "spark.sql.hive.convertMetastoreParquet and spark.sql.hive.convertMetastoreOrc to be true", "set both to true"))
    SealedSpecs.otherColumns(relation).foreach { why =>
      throw refused(table, s"found that ${why.words}", "the default reader, which returns the same rows in every session", "set the option to its default")
    }
    relation
  }

  private def candidate(part: PartitionFiles, table: CatalogTable, relation: HadoopFsRelation, hashes: Seq[BucketHash]): SealCandidate = {
    val before = part.seal.flatMap(_.toOption).filter(seal => hashes.contains(seal.spec.hash) && seal.spec.fits(relation.dataSchema))
    // An append keeps the sealed files, and the files that it adds are newer.
    val (older, later) = part.files.sortBy(file => (file.getModificationTime, file.getPath.getName))
      .splitAt(before.fold(0)(_.files.count.toInt))
    before.filter(_ => older.nonEmpty).filter(_.files == PartitionFiles.digest(older)) match {
      case Some(seal) => SealCandidate(part, Seq(seal.spec), later)
      case None =>
        val specs = hashes.flatMap { hash =>
          (table.bucketSpec.toSeq ++ part.described).flatMap(SealedSpec.ofFiles(_, hash, relation.dataSchema)) ++
            before.map(_.spec).filter(_.hash == hash)
        }
        SealCandidate(part, specs.distinct, part.files)
    }
  }
}

/** The result of SEAL BUCKETS for one partition. */
private case class SealOutcome(part: PartitionFiles, status: String, seal: Option[Seal], read: Int, problem: Option[String]) {

  def isNew: Boolean = status == SealOutcome.NewlySealed

  def altered: SealOutcome = copy(status = SealOutcome.Refused, seal = None,
    problem = Some("a change to the partition while its files were read; run the statement again"))

  def row: Row = {
    val spec = seal.map(_.spec)
    Row(part.name, status, spec.map(_.numBuckets).orNull, spec.map(_.columns).orNull, spec.map(_.sortColumns).orNull,
      spec.map(_.hash.name).orNull, part.files.length.toLong, part.bytes, read.toLong, problem.orNull)
  }
}

private object SealOutcome {

  val NewlySealed = "sealed"
  private val Unchanged = "unchanged"
  private val Refused = "refused"

  /**
   * Returns the result for a partition.
   *
   * @param verdicts for each bucket spec, the validation results of the files that were read
   * @param properties the table properties, which state a bucketing version
   */
  def of(
      candidate: SealCandidate, verdicts: Seq[Map[SealedSpec, FileValidation]], properties: Map[String, String]): SealOutcome = {
    val SealCandidate(part, specs, unread) = candidate
    def refused(problem: String) = SealOutcome(part, Refused, None, unread.length, Some(problem))
    def misplaced(spec: SealedSpec) = verdicts.flatMap(_(spec).misplaced)
    if (part.folders.nonEmpty) refused(s"a directory among the files: ${part.folders.head}")
    else if (part.files.isEmpty) SealOutcome(part, PartitionFiles.Empty, None, 0, None)
    else if (specs.isEmpty) refused("bucket columns that are not in the table, or of a type that engines hash differently")
    else specs.find(spec => misplaced(spec).isEmpty) match {
      case None =>
        val (spec, problems) = specs.map(spec => spec -> misplaced(spec)).minBy(_._2.length)
        refused(s"${problems.head}${if (problems.length > 1) s" (and ${problems.length - 1} more files)" else ""}, " +
          s"checked against ${spec.numBuckets} buckets by ${spec.columns.mkString(", ")}")
      case Some(spec) =>
        val unsorted = verdicts.flatMap(_(spec).unsorted)
        val seal = Seal(if (unsorted.isEmpty) spec else spec.unsorted, PartitionFiles.digest(part.files))
        val status = if (part.seal.contains(Right(seal))) Unchanged else NewlySealed
        val problems = spec.hash.asHiveHash.flatMap(otherVersion(_, properties)) ++ unsorted.headOption
        SealOutcome(part, status, Some(seal), unread.length, Some(problems.mkString("; ")).filter(_.nonEmpty))
    }
  }
  /** Returns a problem if the rows have another bucketing version than the table states. Hive and Trino rely on the stated version. */
  private def otherVersion(found: HiveBucketHash, properties: Map[String, String]): Option[String] =
    if (BucketHash.stated(properties).contains(found)) None else Some(
      s"rows in buckets of bucketing_version ${found.bucketingVersion}, but the table states " +
        s"${properties.getOrElse(BucketHash.VersionProperty, "none, which means 1")}. Set the table property " +
        s"'${BucketHash.VersionProperty}' = '${found.bucketingVersion}'")
}
