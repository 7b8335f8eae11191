package org.apache.spark.sql.bucketing
package dml

import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.metadata.SealedSpec
import org.apache.spark.sql.bucketing.read.{BucketTasks, Footers}
import org.apache.spark.sql.bucketing.write._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UpdateAction}
import org.apache.spark.sql.types.{DateType, StructField}

/**
 * The new files of a bucketed table: one file per touched bucket. In a partition without a valid seal, rows may be in any file, so all of its files are
 * touched, and it gets the table's bucket spec.
 */
class BucketRewrite(
    session: SparkSession, statement: ChangeRows, snapshot: BucketedSnapshot, changed: RowQueries, touched: Touched)
    extends FileRewrite(session, statement, snapshot, changed, touched) {

  private val BytesPerBucket: Long = 1L << 30
  // A shuffle writes many small buckets in fewer tasks.
  private val BucketsPerTask = 10

  private val spec = snapshot.spec
  private val cells: Set[Cell] = touched.changes.removed.keySet.map(snapshot.files(_).cell).toSet ++ touched.changes.added.keySet
  private val partitions: Set[Seq[Any]] = cells.map(_.group.take(depth))
  private val files: Map[Seq[Any], Seq[TableFile]] = snapshot.files.groupBy(_.cell.group.take(depth)).filter { case (partition, _) => partitions(partition) }

  /** The touched partitions in which rows may be in any file. */
  private val mixed: Set[Seq[Any]] = files.filter(_._2.exists(_.cell.range == Cell.Unknown)).keySet.toSet

  override val old: Seq[TableFile] = files.flatMap { case (partition, of) => if (mixed(partition)) of else of.filter(file => cells(file.cell)) }.toSeq.sortBy(_.id)

  override protected val read: Seq[TableFile] = if (statement.deletesPartitions && old.forall(file => touched.changes.removed.contains(file.id))) Nil else old

  private val places: IndexedSeq[Cell] = {
    val ofMixed = for (partition <- mixed.toSeq; bucket <- 0 until spec.numBuckets) yield BucketPlaces.cell(partition, bucket)
    val numbers = partitions.toSeq.zipWithIndex.toMap
    (cells.toSeq.filterNot(cell => mixed(cell.group.take(depth))) ++ ofMixed).sortBy(cell => (numbers(cell.group.take(depth)), BucketPlaces.bucketOf(cell))).toIndexedSeq
  }

  override protected val slots: IndexedSeq[Slot] = {
    val ofFiles = old.groupBy(_.cell).map { case (cell, of) => cell -> of.map(_.status.getLen.toDouble).sum }
    places.map { cell =>
      val partition = cell.group.take(depth)
      val kept = if (mixed(partition)) ofFiles(BucketPlaces.unknown(partition)) / spec.numBuckets else ofFiles.getOrElse(cell, 0.0)
      val added = touched.changes.added.get(cell).fold(0L)(_.rows) * snapshot.bytesPerRow
      Slot(partition, kept + added, Long.MaxValue, Some(BucketPlaces.bucketOf(cell) -> spec.hash))
    }
  }

  override protected def routing: SlotRouting = {
    val slotOfCell = places.zipWithIndex.toMap
    new BucketRouting(snapshot.places, old.flatMap(file => slotOfCell.get(file.cell).map(file.id -> _)).toMap, slotOfCell)
  }

  /**
   * A scan of sealed buckets reads all rows of a bucket in one task, so that only inserted rows are shuffled. If rows move to other buckets, or if there are
   * too few, too many or too large buckets, a shuffle of all rows by partition and bucket is faster.
   */
  override protected lazy val byBucket: Option[LogicalPlan => LogicalPlan] = {
    val keys = spec.columns.map(name => at(column(name)))
    val staysInBucket = statement.actions.forall { case update: UpdateAction => keys.forall(statement.keeps(update, _)); case _ => true }
    val cores = BucketTasks.cores(session)
    val preferredTasks = RowsBySlot.preferredTasks(cores, slots.map(_.bytes).sum)
    val bytes = slots.groupBy(_.bucket).map { case (_, of) => of.map(_.bytes).sum }
    val isFast = bytes.size >= math.min(cores, slots.size) && bytes.max <= BytesPerBucket && spec.numBuckets <= BucketsPerTask * preferredTasks
    if (mixed.isEmpty && staysInBucket && isFast) Some(rows => BucketedRows(Nil, keys.map(rows.output(_)), spec.hash, spec.numBuckets, wanted = 0, rows)) else None
  }

  private val Again = "run it again, and report the statement if it fails again"

  private def column(name: String): StructField = snapshot.table.dataSchema.find(_.name.equalsIgnoreCase(name)).get

  override protected val order: Seq[StructField] = spec.sortColumns.map(column)

  override protected def columns: FileColumns = FileColumns(data, dates = spec.schema.map(of => column(of.name)).filter(_.dataType == DateType).map(at))

  override protected def checkWritten(written: Seq[NewFile]): Unit = {
    // Spark writes some different partition values into the same directory.
    val specs = written.map(file => slots(file.slot).partition).distinct.map(partition => partition -> specOf(partition)).toMap
    refuse(Again, written.groupBy(file => (specs(slots(file.slot).partition), slots(file.slot).bucket)).count(_._2.size > 1) -> "bucket(s) with several files")
    if (read.nonEmpty) {
      val expected = Footers.rows(read.map(_.status), statement.files) - touched.changes.removed.values.sum
      refuse(Again, math.abs(written.map(_.sums.kept).sum - expected).min(Int.MaxValue).toInt -> "row(s) too many or too few")
    }
  }

  override def check(written: Seq[NewFile], stored: Stored): Unit = {
    val kept = sums(read, stored)
    val found = written.groupBy(file => slots(file.slot).partition).withDefaultValue(Nil)
    val wrong = partitions.count { partition =>
      val expected = FileSums.total(read.filter(_.cell.group.take(depth) == partition).map(file => kept(file.id)))
      !FileSums.total(found(partition).map(_.sums)).hasSameKept(expected)
    }
    refuse(Again, wrong -> "partition(s) whose row count or checksum is wrong")
  }

  override protected def sealedAs: Option[SealedSpec] = if (snapshot.isSealable) Some(spec) else None

  override def committed(written: Seq[NewFile], folder: Path, statuses: Seq[FileStatus]): Unit = {
    val replaced = old.map(_.id).toSet
    val coming = written.zip(statuses).groupBy { case (file, _) => slots(file.slot).partition }.withDefaultValue(Nil)
    SealWriter.seal(session, snapshot.table, spec, folder, partitions.map { partition =>
      val kept = files.getOrElse(partition, Nil).filterNot(file => replaced(file.id)).map(_.status)
      val (own, isReliable) = (coming(partition).map(_._2), snapshot.isSealable && !coming(partition).exists(_._1.hasOldDates))
      specOf(partition) -> CommittedFiles(own, Some(kept), isReliable)
    }.toMap)
  }
}
