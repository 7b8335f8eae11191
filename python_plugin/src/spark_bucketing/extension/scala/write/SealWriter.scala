package org.apache.spark.sql.bucketing
package write

import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import scala.util.control.NonFatal

import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.internal.Logging
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.bucketing.compat.{Compat, CreateWithCtes}
import org.apache.spark.sql.bucketing.hash.BucketHash
import org.apache.spark.sql.bucketing.metadata._
import org.apache.spark.sql.catalyst.catalog.{BucketSpec, CatalogTable}
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.command.{CreateDataSourceTableAsSelectCommand, LeafRunnableCommand}

/**
 * Seals the files of a write after the commit. The rows are already in the table. Therefore, if sealing fails, the statement
 * only logs a warning, and Spark reads the files with ordinary scans. A statement fails only if files that it appended are missing.
 *
 * An append adds its files to the existing seal. If the table also has unsealed files, readers detect that the seal is stale.
 */
object SealWriter extends Logging {

  /**
   * The names of the written files by partition values. For an unpartitioned table, the key is empty. A partition that the
   * statement fully specifies is included even if the write creates no files in it.
   */
  type Written = Map[TablePartitionSpec, Set[String]]

  /**
   * Seals the files of a committed write.
   *
   * @param planned the table as it was when the write was planned, without columns if the table is new
   * @param hash the hash that assigned the rows to buckets
   * @param files the written files
   * @param partitions the partitions of the files, if the statement has looked them up after its commit
   */
  def after(
      session: SparkSession, planned: CatalogTable, spec: BucketSpec, hash: BucketHash, mode: WriteMode, files: => Written,
      partitions: Option[Seq[StoredPartition]] = None): Unit = {
    val name = planned.identifier.quotedString
    try {
      val (table, written) = (Compat.current(session, planned), files)
      val ofRows = if (planned.schema.isEmpty) table.dataSchema else planned.dataSchema
      val reliable = SealedFormats.objectionTo(table, Compat.hadoopConf(session)).toLeft(()).flatMap { _ =>
        SealedSpec.ofFiles(spec, hash, ofRows).filter(_.fits(table.dataSchema))
          .toRight("the table's columns changed during the write, or a bucket column has a type that engines hash differently")
      }
      reliable match {
        case Right(of) if table.partitionColumnNames.isEmpty => sealTable(session, table, of, mode, written)
        case Right(of) => sealPartitions(session, table, of, mode, written, partitions)
        case Left(why) => logInfo(s"The files written into $name are not sealed: $why.")
      }
    } catch {
      case lost: LostFiles => throw Compat.refusal(lost.getMessage)
      case error @ (NonFatal(_) | _: LinkageError) => logWarning(unsealed(name), error)
    }
  }

  /**
   * Seals partitions whose files a statement has replaced.
   *
   * @param digests the digest of all files of each partition; None if they cannot be sealed. For an unpartitioned table, the key is empty.
   */
  def afterReplacement(session: SparkSession, table: CatalogTable, spec: SealedSpec, digests: Map[TablePartitionSpec, Option[FilesDigest]]): Unit = {
    val name = table.identifier.quotedString
    try SealedFormats.objectionTo(table, Compat.hadoopConf(session)) match {
      case Some(why) => logInfo(s"The files written into $name are not sealed: $why.")
      case None if table.partitionColumnNames.isEmpty =>
        PartitionStore.of(session).sealTable(Compat.current(session, table), digests.values.head.map(Seal(spec, _)))
      case None =>
        val store = PartitionStore.of(session)
        val seals = digests.map { case (values, digest) => store.nameOf(table, values) -> digest.map(Seal(spec, _)) }
        store.change(table, store.find(table, digests.keys.toSeq).map { partition =>
          change(partition, spec, seals(partition.name))
        })
    } catch {
      case error @ (NonFatal(_) | _: LinkageError) => logWarning(unsealed(name), error)
    }
  }

  /**
   * Removes the seals of partitions some of whose files a statement is about to replace. After a crash between its commit and its seal, the old files would
   * otherwise be missing.
   */
  def beforeReplacement(session: SparkSession, table: CatalogTable, partitions: Seq[TablePartitionSpec]): Unit = {
    unseal(session, table, PartitionStore.of(session).find(table, partitions))
  }

  /** Removes the seals of partitions, or of an unpartitioned table, whose files a statement is about to delete. */
  def unseal(session: SparkSession, table: CatalogTable, partitions: => Seq[StoredPartition]): Unit = {
    val store = PartitionStore.of(session)
    if (table.partitionColumnNames.isEmpty) store.sealTable(Compat.current(session, table), None)
    else {
      val changes = partitions.filter(_.seal.isDefined).map(PartitionChange(_, None, None))
      if (changes.nonEmpty) store.change(table, changes)
    }
  }

  /** Throws an error before an append to an unpartitioned table or to a single partition whose sealed files are missing. */
  def beforeAppend(session: SparkSession, planned: CatalogTable, static: TablePartitionSpec): Unit =
    if (static.size == planned.partitionColumnNames.size) {
      val table = Compat.current(session, planned)
      val partitions = if (static.isEmpty) Nil else PartitionStore.of(session).find(table, Seq(static))
      MissingFiles.check(table.identifier, PartitionFiles.list(session, table, partitions), "append to")
    }

  private def unsealed(name: String) = s"The files written into $name could not be sealed. The rows are in the table, and Spark reads them " +
    s"with ordinary scans. Instead: run ALTER TABLE $name SEAL BUCKETS"

  private def sealTable(
      session: SparkSession, table: CatalogTable, spec: SealedSpec, mode: WriteMode, written: Written): Unit = {
    val before = Seal.parse(table.properties)
    val found = folder(session, table, new Path(table.location).toString, spec.hash, written.values.flatten.toSet)
    val after = sealOf(before, spec, mode, found)
    val isKept = withoutReplaced(session, table, mode, Seq(found)).nonEmpty
    // Another statement may have sealed or replaced files during the listing.
    if (isKept && after.map(Right(_)) != before && Seal.parse(Compat.current(session, table).properties) == before) PartitionStore.of(session).sealTable(table, after)
    warnUnsealed(session, table, Seq(found).filter(_ => after.isEmpty))
  }

  private def sealPartitions(
      session: SparkSession, table: CatalogTable, spec: SealedSpec, mode: WriteMode, written: Written, partitions: Option[Seq[StoredPartition]]): Unit = {
    val store = PartitionStore.of(session)
    val names = written.map { case (values, files) => store.nameOf(table, values) -> files }.withDefaultValue(Set.empty[String])
    val listed = Compat.inParallel(partitions.getOrElse(store.find(table, written.keys.toSeq))) { partition =>
      partition -> folder(session, table, partition.location, spec.hash, names(partition.name))
    }
    val kept = withoutReplaced(session, table, mode, listed.map(_._2)).toSet
    val found = listed.filter(of => kept(of._2))
    // The metastore can only replace a partition as a whole, so skip a partition that another statement altered during the listing.
    val now = store.find(table, written.keys.toSeq).map(partition => partition.name -> partition).toMap
    val changes = for {
      (before, files) <- found
      // With IF NOT EXISTS, a statement does not write to existing partitions.
      if !mode.onlyNew || names(before.name).nonEmpty && files.own.isDefined
      partition <- now.get(before.name) if partition.isSame(before)
    } yield {
      change(partition, spec, sealOf(partition.seal, spec, mode, files))
    }
    val undone = changes.filterNot(_.isDone)
    if (undone.nonEmpty) store.change(table, undone)
    warnUnsealed(session, table, found.collect { case (partition, files) if names(partition.name).nonEmpty => files })
  }

  /**
   * The files in the directory of a partition after a write.
   *
   * @param own the digest of the files of this write; None if a file is missing, or has a name without a bucket
   * @param missing the files of this write that do not exist under their names
   * @param others the other files
   * @param isMixed whether the directory has other files or subdirectories
   */
  private case class Found(own: Option[FilesDigest], missing: Set[Path], others: Seq[FileStatus], isMixed: Boolean)

  private def folder(session: SparkSession, table: CatalogTable, location: String, hash: BucketHash, names: Set[String]): Found = {
    val (files, folders) = PartitionFiles.children(table, new Path(location), Compat.hadoopConf(session))
    val committed = new CommittedNames(names)
    val (own, others) = files.partition(file => committed.contains(file.getPath.getName))
    val isNamed = own.forall(file => BucketFiles.bucketOf(file.getPath.getName, hash).isDefined)
    val digest = if (own.length == names.size && isNamed) Some(PartitionFiles.digest(own)) else None
    val missing = names -- own.map(_.getPath.getName)
    Found(digest, missing.map(new Path(location, _)), others, others.nonEmpty || folders.nonEmpty)
  }

  private class LostFiles(message: String) extends RuntimeException(message)

  /** Names the cause if files are not sealed because the committer has changed their names. */
  private def warnUnsealed(session: SparkSession, table: CatalogTable, found: Seq[Found]): Unit =
    if (found.exists(_.own.isEmpty) && !Compat.keepsFileNames(session, table)) {
      val name = table.identifier.quotedString
      logWarning(s"The files written into $name are not sealed: found a committer that changes file names (" +
        s"${Compat.otherCommitters(session, table).mkString(", ")}). Expected the names that the tasks reported. In the Hive layout, the committer may add a hyphen and an id. " +
        s"Instead: use another committer, or run ALTER TABLE $name SEAL BUCKETS after each write")
    }

  /**
   * Returns directories without those where a later statement has replaced files of an append. That statement has read the appended rows, and seals its own
   * files.
   *
   * Throws an error if other files of an append are missing, because another write deleted them with the _temporary folder that all
   * writes share. For other statements, there is no error: a later INSERT OVERWRITE also deletes files, and other committers may rename files.
   */
  private def withoutReplaced(session: SparkSession, table: CatalogTable, mode: WriteMode, folders: Seq[Found]): Seq[Found] = {
    val missing = folders.flatMap(_.missing)
    if (missing.isEmpty || mode.overwrites || mode.onlyNew || !Compat.keepsFileNames(session, table)) folders
    else {
      val (location, name) = (new Path(table.location), table.identifier.quotedString)
      val replaced = Replacement.records(location, Compat.hadoopConf(session)).filter(_.isCommitted).flatMap(_.removed).toSet
      if (!missing.map(TableFiles(location).nameOf).forall(replaced)) throw new LostFiles(Compat.message(s"Files of $name are missing after the commit.",
        "another statement, which wrote to the table at the same time and deleted them", SealedWrites.OneWrite, SealedWrites.AfterConcurrentWrite))
      folders.filter(_.missing.isEmpty)
    }
  }

  private def sealOf(before: Option[Either[String, Seal]], spec: SealedSpec, mode: WriteMode, found: Found): Option[Seal] = {
    val old = before.flatMap(_.toOption)
    def isComplete = !old.exists(_.missing(found.others) > 0)
    found.own match {
      case Some(own) if mode.overwrites || !found.isMixed && isComplete => Some(Seal(spec, own))
      case Some(own) if old.exists(_.spec == spec) => old.map(seal => seal.copy(files = seal.files + own))
      // The seal stays as a record of missing files.
      case _ => old.filter(_ => !mode.overwrites && !isComplete)
    }
  }

  // In the Spark layout, the descriptors of partitions do not contain buckets.
  private def change(partition: StoredPartition, spec: SealedSpec, after: Option[Seal]): PartitionChange =
    PartitionChange(partition, after, if (spec.hash.inHiveLayout) Some(describe(partition, spec, after)) else None)

  /** Returns the descriptor for Hive and Trino. A partition that was never sealed keeps its descriptor if it has the same spec. */
  private def describe(partition: StoredPartition, spec: SealedSpec, after: Option[Seal]): BucketDescriptor = {
    val wanted = BucketDescriptor.of(Some(spec.bucketSpec))
    if (after.isDefined || partition.described.contains(wanted) && partition.seal.isEmpty) wanted else BucketDescriptor.Unbucketed
  }

  private val Creating = "bucketing.creating"
  private val created = new ConcurrentHashMap[String, () => Written]

  /** Stores a function that returns the written files of a table that does not exist yet. */
  def ofCreated(session: SparkSession, written: => Written): Unit =
    Option(session.sparkContext.getLocalProperty(Creating)).foreach(created.put(_, () => written))

  /** Runs a CTAS, and then seals its files. A nested command writes the files in another thread. */
  def create(session: SparkSession, table: CatalogTable)(run: => Seq[Row]): Seq[Row] = {
    val id = UUID.randomUUID().toString
    session.sparkContext.setLocalProperty(Creating, id)
    try {
      val rows = run
      Option(created.get(id)).foreach { written =>
        after(session, table, table.bucketSpec.get, BucketHash.Spark, WriteMode(overwrites = true, onlyNew = false, Map.empty), written())
      }
      rows
    } finally {
      session.sparkContext.setLocalProperty(Creating, null)
      created.remove(id)
    }
  }
}

/**
 * The names of written files after the commit. Some committers insert an id before the extension of a name.
 *
 * @param reported the names that the tasks reported, which contain the ids of the job, the task and the bucket
 */
private class CommittedNames(reported: Set[String]) {

  private val byStem = reported.map(name => stemOf(name) -> name).toMap

  private def stemOf(name: String): String = name.takeWhile(_ != '.')

  def contains(name: String): Boolean = reported(name) || {
    val stem = stemOf(name)
    stem.indices.reverseIterator.filter(stem(_) == '-').map(end => byStem.get(stem.take(end))).collectFirst { case Some(of) =>
      of.drop(stemOf(of).length) == name.drop(stem.length)
    }.getOrElse(false)
  }
}

/** Runs Spark's CTAS command for a bucketed table, and seals the files after the table has been created. */
case class SealedCreateTableAsSelect(of: CreateDataSourceTableAsSelectCommand) extends LeafRunnableCommand with CreateWithCtes {
  override def innerChildren: Seq[LogicalPlan] = of.innerChildren
  override def nodeName: String = of.nodeName
  override def run(session: SparkSession): Seq[Row] = SealWriter.create(session, of.table)(of.run(session))
  override def withCreate(changed: CreateDataSourceTableAsSelectCommand): LogicalPlan = copy(of = changed)
}
