package org.apache.spark.sql.bucketing
package write

import java.util.UUID
import java.util.concurrent.ConcurrentHashMap

import scala.annotation.tailrec
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
 * The files of a partition after a commit.
 *
 * @param own the files that the statement has written
 * @param kept the other files that it has found in their buckets; None if the seal of the partition covers the other files
 * @param isReliable whether all readers return the rows of `own` as they were written
 */
case class CommittedFiles(own: Seq[FileStatus], kept: Option[Seq[FileStatus]], isReliable: Boolean = true)

/**
 * Seals the files of a statement after its commit.
 *
 * A seal covers a file only if it is proven to be in its bucket: this statement has written it or found it there, the seal covered it before, or the record of
 * another statement names it with the same bucket spec. So statements may commit at the same time, and the last of them seals the files of all. The metastore
 * cannot compare a seal before it replaces it, so a statement may replace the seal of a later one. Then it finds the other commit, and seals again. Without a
 * proof for all files, the seal of an appended partition with the same spec stays, and readers find that it is stale.
 */
object SealWriter extends Logging {

  /** Returns the spec of files that a statement writes. Returns the reason (Left) if they cannot be sealed. */
  def specOf(session: SparkSession, table: CatalogTable, spec: BucketSpec, hash: BucketHash): Either[String, SealedSpec] =
    SealedFormats.objectionTo(table, Compat.hadoopConf(session)).toLeft(()).flatMap { _ =>
      SealedSpec.ofFiles(spec, hash, table.dataSchema).toRight("a bucket column has a type that engines hash differently")
    }

  /** Returns a spec as text for the record of a statement. */
  def textOf(spec: SealedSpec): String = spec.toString

  /**
   * Seals the partitions of a statement.
   *
   * @param own the directory of the statement's record
   * @param partitions the files of each partition. For an unpartitioned table, the key is empty
   */
  def seal(session: SparkSession, planned: CatalogTable, spec: SealedSpec, own: Path, partitions: Map[TablePartitionSpec, CommittedFiles]): Unit = locking(planned) {
    val (table, conf) = (own.getParent.getParent, Compat.hadoopConf(session))
    @tailrec def untilAlone(records: Seq[Replacement], attempts: Int): Unit = {
      seal(session, planned, spec, own, partitions, records, isFirst = attempts == Attempts)
      // Most statements are alone, and need only one listing to see it.
      if (Replacement.folders(table, own.getFileSystem(conf)).exists(_.getName != own.getName)) {
        val now = Replacement.records(table, conf)
        val known = records.filter(_.isCommitted).map(_.name).toSet
        if (attempts > 1 && now.exists(record => record.isCommitted && !known(record.name))) untilAlone(now, attempts - 1)
      }
    }
    untilAlone(Replacement.records(table, conf), Attempts)
  }

  private def seal(
      session: SparkSession, planned: CatalogTable, spec: SealedSpec, own: Path, partitions: Map[TablePartitionSpec, CommittedFiles], records: Seq[Replacement],
      isFirst: Boolean): Unit = {
    val store = PartitionStore.of(session)
    val table = if (planned.partitionColumnNames.isEmpty) Compat.current(session, planned) else planned
    val names = TableFiles(new Path(table.location))
    val hidden = records.flatMap(_.hidden).toSet
    val others = records.filter(of => of.isCommitted && of.folder.getName != own.getName)
    val ofOthers = others.filter(_.statement.spec.contains(textOf(spec))).map(_.added)
    // A later statement that has replaced files of this one seals the partition itself.
    val replaced = others.flatMap(_.removed).toSet

    def sealOf(before: Option[Seal], location: String, files: CommittedFiles): Option[Seal] = {
      val all = PartitionFiles.children(table, new Path(location), Compat.hadoopConf(session))
      val current = all._1.filterNot(file => hidden(names.nameOf(file.getPath)))
      val (ours, rest) = (PartitionFiles.identities(files.own).toSet, PartitionFiles.identities(current).toSet)
      // The files of each other statement.
      lazy val named = ofOthers.map(added => PartitionFiles.identities(current.filter(file => added(names.nameOf(file.getPath)))).toSet).filter(_.nonEmpty)
      // The seal may cover the files of some statements already, also those of this one.
      def isProven(others: Set[FileIdentity]) = others.isEmpty || (files.kept match {
        case Some(kept) => others.subsetOf(PartitionFiles.identities(kept).toSet)
        case None => before.exists(seal => seal.spec == spec &&
          (ours +: named).toSet.subsets().take(MaxSubsets).exists(covered => seal.files == FilesDigest.of(covered.foldLeft(others)(_ ++ _))))
      })
      val digest = FilesDigest.of(rest)
      val isSealed = all._2.isEmpty && files.isReliable && ours.subsetOf(rest) && spec.fits(table.dataSchema) &&
        current.forall(file => BucketFiles.bucketOf(file.getPath.getName, spec.hash).isDefined)
      // The seal may be that of this statement, from the first time. Without files that another statement has replaced since, readers would take them for lost.
      def earlier = before.filter(seal => isFirst || seal.missing(current) == 0)
      if (before.exists(_.files == digest)) before
      else if (files.own.exists(file => replaced(names.nameOf(file.getPath)))) earlier
      else if (isSealed && (isProven(rest -- ours) || isProven(named.foldLeft(rest -- ours)(_ -- _)))) Some(Seal(spec, digest))
      else if (files.kept.isEmpty || !isFirst) earlier.filter(_.spec == spec)
      else None
    }

    if (table.partitionColumnNames.isEmpty) partitions.values.foreach { files =>
      val before = Seal.parse(table.properties)
      val after = sealOf(before.flatMap(_.toOption), new Path(table.location).toString, files)
      if (after.map(Right(_)) != before) store.sealTable(table, after)
    } else {
      val byName = partitions.map { case (values, files) => store.nameOf(table, values) -> files }
      val changes = Compat.inParallel(store.find(table, partitions.keys.toSeq)) { partition =>
        change(partition, spec, sealOf(partition.seal.flatMap(_.toOption), partition.location, byName(partition.name)))
      }.filterNot(_.isDone)
      if (changes.nonEmpty) store.change(table, changes)
    }
  }

  private val Attempts = 10
  private val MaxSubsets = 256

  /** Removes the seals of partitions, or of an unpartitioned table, whose files a statement is about to delete. */
  def unseal(session: SparkSession, table: CatalogTable, partitions: => Seq[StoredPartition]): Unit = locking(table) {
    val store = PartitionStore.of(session)
    if (table.partitionColumnNames.isEmpty) store.sealTable(Compat.current(session, table), None)
    else {
      val changes = partitions.filter(_.seal.isDefined).map(PartitionChange(_, None, None))
      if (changes.nonEmpty) store.change(table, changes)
    }
  }

  /**
   * Removes the seals that name old files of a committed replacement, whose statement has not sealed the new files.
   *
   * @param removed the old files, by directory
   */
  def unsealRemoved(session: SparkSession, planned: CatalogTable, removed: Map[Path, Seq[Path]]): Unit = if (removed.nonEmpty && planned.bucketSpec.isDefined) {
    val table = Compat.current(session, planned)
    val gone = removed.map { case (folder, files) => folder.toUri.getPath -> files.map(_.getName).toSet }
    def isStale(seal: Option[Either[String, Seal]], location: String) = seal.isDefined && gone.get(new Path(location).toUri.getPath).exists { names =>
      val files = PartitionFiles.children(table, new Path(location), Compat.hadoopConf(session))._1.filterNot(file => names(file.getPath.getName))
      !seal.exists(_.exists(_.files == PartitionFiles.digest(files)))
    }
    if (table.partitionColumnNames.nonEmpty) unseal(session, table, PartitionStore.of(session).list(table).filter(of => isStale(of.seal, of.location)))
    else if (isStale(Seal.parse(table.properties), new Path(table.location).toString)) unseal(session, table, Nil)
  }

  // The metastore replaces the metadata of a table or a partition as a whole, so only one thread of this process changes the seals of a table at a time.
  private val locks = Array.fill(64)(new Object)
  private def locking[A](table: CatalogTable)(change: => A): A = locks(Math.floorMod(table.location.hashCode, locks.length)).synchronized(change)

  // In the Spark layout, the descriptors of partitions do not contain buckets.
  private def change(partition: StoredPartition, spec: SealedSpec, after: Option[Seal]): PartitionChange =
    PartitionChange(partition, after, if (spec.hash.inHiveLayout) Some(describe(partition, spec, after)) else None)

  /** Returns the descriptor for Hive and Trino. A partition that was never sealed keeps its descriptor if it has the same spec. */
  private def describe(partition: StoredPartition, spec: SealedSpec, after: Option[Seal]): BucketDescriptor = {
    val wanted = BucketDescriptor.of(Some(spec.bucketSpec))
    if (after.isDefined || partition.described.contains(wanted) && partition.seal.isEmpty) wanted else BucketDescriptor.Unbucketed
  }

  private val Creating = "bucketing.creating"
  private val created = new ConcurrentHashMap[String, java.lang.Boolean]

  /** Notes whether the files of a table that does not exist yet can be sealed. */
  def ofCreated(session: SparkSession, isReliable: Boolean): Unit =
    Option(session.sparkContext.getLocalProperty(Creating)).foreach(created.put(_, isReliable))

  /** Runs a CTAS, and then seals all files of the new table. A nested command writes the files in another thread. */
  def create(session: SparkSession, planned: CatalogTable)(run: => Seq[Row]): Seq[Row] = {
    val id = UUID.randomUUID().toString
    session.sparkContext.setLocalProperty(Creating, id)
    try {
      val rows = run
      if (java.lang.Boolean.TRUE == created.get(id)) try {
        val table = Compat.catalog(session).getTableMetadata(planned.identifier)
        specOf(session, table, planned.bucketSpec.get, BucketHash.Spark).foreach(sealCreated(session, table, _))
      } catch {
        case error @ (NonFatal(_) | _: LinkageError) => logWarning(s"The files of ${planned.identifier.quotedString} could not be sealed. The rows are in the table, " +
          s"and Spark reads them with ordinary scans. Instead: run ALTER TABLE ${planned.identifier.quotedString} SEAL BUCKETS", error)
      }
      rows
    } finally {
      session.sparkContext.setLocalProperty(Creating, null)
      created.remove(id)
    }
  }

  private def sealCreated(session: SparkSession, table: CatalogTable, spec: SealedSpec): Unit = {
    val store = PartitionStore.of(session)
    def sealOf(location: String) = PartitionFiles.children(table, new Path(location), Compat.hadoopConf(session)) match {
      case (files, Nil) if files.forall(file => BucketFiles.bucketOf(file.getPath.getName, spec.hash).isDefined) => Some(Seal(spec, PartitionFiles.digest(files)))
      case _ => None
    }
    if (table.partitionColumnNames.isEmpty) store.sealTable(table, sealOf(new Path(table.location).toString))
    else store.change(table, Compat.inParallel(store.list(table))(partition => change(partition, spec, sealOf(partition.location))))
  }
}

/** Runs Spark's CTAS command for a bucketed table, and seals the files after the table has been created. */
case class SealedCreateTableAsSelect(of: CreateDataSourceTableAsSelectCommand) extends LeafRunnableCommand with CreateWithCtes {
  override def innerChildren: Seq[LogicalPlan] = of.innerChildren
  override def nodeName: String = of.nodeName
  override def run(session: SparkSession): Seq[Row] = SealWriter.create(session, of.table)(of.run(session))
  override def withCreate(changed: CreateDataSourceTableAsSelectCommand): LogicalPlan = copy(of = changed)
}
