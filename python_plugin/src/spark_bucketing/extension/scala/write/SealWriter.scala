package org.apache.spark.sql.bucketing
package write

import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path

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
   */
  def after(
      session: SparkSession, planned: CatalogTable, spec: BucketSpec, hash: BucketHash, mode: WriteMode, files: => Written): Unit = {
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
        case Right(of) => sealPartitions(session, table, of, mode, written)
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
          PartitionChange(partition, seals(partition.name), Some(describe(partition, spec, seals(partition.name))))
        })
    } catch {
      case error @ (NonFatal(_) | _: LinkageError) => logWarning(unsealed(name), error)
    }
  }

  private def unsealed(name: String) = s"The files written into $name could not be sealed. The rows are in the table, and Spark reads them " +
    s"with ordinary scans. Instead: run ALTER TABLE $name SEAL BUCKETS"

  private def sealTable(
      session: SparkSession, table: CatalogTable, spec: SealedSpec, mode: WriteMode, written: Written): Unit = {
    val before = Seal.parse(table.properties)
    val found = folder(session, table, table.location.toString, written.values.flatten.toSet)
    val after = sealOf(before, spec, mode, found)
    if (withoutReplaced(session, table, mode, Seq(found)).nonEmpty && after.map(Right(_)) != before) PartitionStore.of(session).sealTable(table, after)
  }

  private def sealPartitions(
      session: SparkSession, table: CatalogTable, spec: SealedSpec, mode: WriteMode, written: Written): Unit = {
    val store = PartitionStore.of(session)
    val names = written.map { case (values, files) => store.nameOf(table, values) -> files }.withDefaultValue(Set.empty[String])
    val listed = Compat.inParallel(store.find(table, written.keys.toSeq)) { partition =>
      partition -> folder(session, table, partition.location, names(partition.name))
    }
    val kept = withoutReplaced(session, table, mode, listed.map(_._2)).toSet
    val found = listed.filter(of => kept(of._2))
    // The metastore can only replace a partition as a whole, so skip a partition that another statement altered during the listing.
    val now = store.find(table, written.keys.toSeq).map(partition => partition.name -> partition).toMap
    val changes = for {
      (before, files) <- found
      // With IF NOT EXISTS, a statement does not write to existing partitions.
      if !mode.onlyNew || names(before.name).nonEmpty && files.missing.isEmpty
      partition <- now.get(before.name) if partition.isSame(before)
    } yield {
      val after = sealOf(partition.seal, spec, mode, files)
      // In the Spark layout, the descriptors of partitions do not contain buckets.
      val described = if (spec.hash.inHiveLayout) Some(describe(partition, spec, after)) else None
      PartitionChange(partition, after, described)
    }
    val undone = changes.filterNot(_.isDone)
    if (undone.nonEmpty) store.change(table, undone)
  }

  /**
   * A directory after a write.
   *
   * @param own the digest of the files of this write that exist
   * @param missing the files of this write that do not exist
   * @param hasOthers whether the directory has other files
   */
  private case class Folder(own: FilesDigest, missing: Set[Path], hasOthers: Boolean)

  private def folder(session: SparkSession, table: CatalogTable, location: String, names: Set[String]): Folder = {
    val (files, folders) = PartitionFiles.children(table, new Path(location), Compat.hadoopConf(session))
    val (own, others) = files.partition(file => names.contains(file.getPath.getName))
    val missing = names -- own.map(_.getPath.getName)
    Folder(PartitionFiles.digest(own), missing.map(new Path(location, _)), others.nonEmpty || folders.nonEmpty)
  }

  private class LostFiles(message: String) extends RuntimeException(message)

  /**
   * Returns directories without those where a later statement has replaced files of an append. That statement has read the appended rows, and seals its own
   * files.
   *
   * Throws an error if other files of an append are missing, because another write deleted them with the _temporary folder that all
   * writes share. For other statements, there is no error: a later INSERT OVERWRITE also deletes files, and other committers may rename files.
   */
  private def withoutReplaced(session: SparkSession, table: CatalogTable, mode: WriteMode, folders: Seq[Folder]): Seq[Folder] = {
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

  private def sealOf(before: Option[Either[String, Seal]], spec: SealedSpec, mode: WriteMode, found: Folder): Option[Seal] =
    if (found.missing.nonEmpty) None
    else if (mode.overwrites || !found.hasOthers) Some(Seal(spec, found.own))
    else before.flatMap(_.toOption).filter(_.spec == spec).map(seal => seal.copy(files = seal.files + found.own))

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

/** Runs Spark's CTAS command for a bucketed table, and seals the files after the table has been created. */
case class SealedCreateTableAsSelect(of: CreateDataSourceTableAsSelectCommand) extends LeafRunnableCommand with CreateWithCtes {
  override def innerChildren: Seq[LogicalPlan] = of.innerChildren
  override def nodeName: String = of.nodeName
  override def run(session: SparkSession): Seq[Row] = SealWriter.create(session, of.table)(of.run(session))
  override def withCreate(changed: CreateDataSourceTableAsSelectCommand): LogicalPlan = copy(of = changed)
}
