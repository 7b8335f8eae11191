package org.apache.spark.sql.bucketing
package read

import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.sql.bucketing.hash.BucketRanges
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.util.TypeUtils
import org.apache.spark.sql.execution.{FilterExec, ProjectExec, SparkPlan}
import org.apache.spark.sql.execution.datasources.PartitionedFile
import org.apache.spark.sql.execution.joins.{ShuffledHashJoinExec, ShuffledJoin, SortMergeJoinExec}

/**
 * How several tasks read large partitions of a scan.
 *
 * @param partitionOfTask the partition that each task reads
 * @param starts the positions in a file at which the second task, the third task and so on start, by partition and path. Without positions, each task reads
 *               the whole file
 */
case class BucketSlices(partitionOfTask: IndexedSeq[Int], starts: Map[(Int, String), Seq[Long]]) {

  /** Returns the files or parts of files that each task reads, from the files of each partition. */
  def filesOfTasks(files: IndexedSeq[Seq[PartitionedFile]]): IndexedSeq[Seq[PartitionedFile]] = partitionOfTask.zipWithIndex.map { case (partition, task) =>
    val slice = task - partitionOfTask.indexOf(partition)
    files(partition).flatMap { file =>
      starts.get(partition -> file.urlEncodedPath).fold(Option(file)) { positions =>
        val bounds = 0L +: positions.map(_.min(file.fileSize)) :+ file.fileSize
        Some(file.copy(start = bounds(slice), length = bounds(slice + 1) - bounds(slice))).filter(_.length > 0)
      }
    }
  }
}

/**
 * Divides the largest table of a join, if one bucket or range has much more rows than the others, for example because of a frequent key. Several tasks read
 * parts of this partition: row groups of a Parquet file, or stripes of an ORC file. Each of them joins its part with the whole partition of the other
 * tables, so every row meets every row that it could match. The result has no partitioning, so operators above must not require one.
 *
 * Rows of the divided table that match nothing may be part of the result, but not those of the other tables, which several tasks read.
 * Spark's adaptive execution handles skewed shuffles in the same way, and marks such a join with `skew=true`, as this rule does.
 */
object SlicedJoins extends Logging {

  private val MaxFiles = 256
  private val MaxSlices = 64
  private val MinSkew = 1.5

  def apply(plan: SparkPlan): SparkPlan = if (BucketingConf.rangeBytes <= 0) plan else joins(plan).foldLeft(plan) { (current, join) =>
    val scans = scansOf(join)
    val larger = scans.sortBy(-_.bytes).iterator.filter(isDivisible(join, _))
    larger.map(scan => slices(scan, scans.filterNot(_ eq scan))).collectFirst { case Some(found) => found }.map { case (divided, slices) =>
      // Other joins above still require a distribution.
      val sliced = join.transformUp {
        case scan: BucketScan => scan.in(if (scan eq divided) slices else slices.copy(starts = Map.empty))
        case found: SortMergeJoinExec => found.copy(isSkewJoin = true)
        case found: ShuffledHashJoinExec => found.copy(isSkewJoin = true)
      }
      current.transformDown { case found if found eq join => sliced }
    }.filter(DividedBuckets.accepts(current, _)).getOrElse(current)
  }

  /** Returns the topmost joins of bucketed scans without a shuffle. */
  private def joins(plan: SparkPlan): Seq[SparkPlan] = plan match {
    case join: ShuffledJoin if isOfScans(join) && hasCommonPartitions(join) => Seq(join)
    case other => other.children.flatMap(joins)
  }

  private def isOfScans(plan: SparkPlan): Boolean = plan match {
    case scan: BucketScan => !scan.read.native
    // Several tasks evaluate the expressions of a row, and must get the same values.
    case _ if !plan.expressions.forall(_.deterministic) => false
    case _: FilterExec | _: ProjectExec => isOfScans(plan.children.head)
    case join: ShuffledJoin => join.children.forall(isOfScans) && BucketAlignment.coPartitioned(join)
    case _ => false
  }

  private def hasCommonPartitions(join: SparkPlan): Boolean =
    scansOf(join).forall(scan => scan.read.ranges.isDefined || !scan.read.splits) && scansOf(join).map(_.read.partitions).distinct.size == 1

  private def scansOf(plan: SparkPlan): Seq[BucketScan] = plan.collect { case scan: BucketScan => scan }

  /** Returns whether the other tables of a join may be read several times, if tasks divide the rows of a scan. */
  private def isDivisible(plan: SparkPlan, scan: BucketScan): Boolean = plan match {
    case join: ShuffledJoin =>
      val isLeft = join.left.exists(_ eq scan)
      val keepsOthers = join.joinType match {
        case _: InnerLike => false
        case LeftOuter | LeftSemi | LeftAnti | _: ExistenceJoin => !isLeft
        case RightOuter => isLeft
        case _ => true
      }
      !keepsOthers && isDivisible(if (isLeft) join.left else join.right, scan)
    case _: BucketScan => true
    case other => other.children.forall(isDivisible(_, scan))
  }

  /**
   * Returns the slices of a scan if some of its partitions have many rows, and more bytes than those of the other scans, which several tasks read.
   */
  private def slices(scan: BucketScan, others: Seq[BucketScan]): Option[(BucketScan, BucketSlices)] = try {
    val (files, bytes) = (scan.filesOfPartitions, scan.bytesOfPartitions)
    lazy val all = files.flatten.map(file => file.urlEncodedPath -> file).toMap
    lazy val ofOthers = others.map(_.bytesOfPartitions).transpose.map(_.sum)
    // Without a large bucket, it is not necessary to read footers.
    val isEven = bytes.max < bytes.sum / bytes.count(_ > 0).max(1) * MinSkew && scan.read.ranges.isEmpty
    val column = scan.rangeColumn.filter(column => BucketRanges.supports(column.dataType))
    if (isEven || scan.numFiles > MaxFiles || column.isEmpty || scan.relation.location.isInstanceOf[AssumedFileIndex] || bytes.max < 2 * BucketingConf.rangeBytes) None
    else {
      val parts = all.keys.toSeq.zip(CutPoints.partsOf(scan, column.get, all.values.toSeq)).toMap
      val rows = files.zipWithIndex.map { case (of, partition) => of.map(file => file.urlEncodedPath -> weighed(scan, partition, parts(file.urlEncodedPath))) }
      val target = parts.values.flatten.map(_.rows).sum / BucketTasks.cores(scan.session) max 1
      val numbers = rows.zip(bytes).zipWithIndex.map { case ((of, size), partition) =>
        val (number, most) = ((of.flatMap(_._2.map(_._2)).sum + target / 2) / target, of.flatMap(_._2).count(_._2 > 0).min(MaxSlices))
        if (size < ofOthers(partition)) 1 else number.min(size / BucketingConf.rangeBytes).min(most.toLong).max(1).toInt
      }
      val starts = rows.zip(numbers).zipWithIndex.filter(_._1._2 > 1).flatMap { case ((of, number), partition) =>
        startsOf(of, number).map { case (path, positions) => (partition, path) -> positions }
      }.toMap
      if (starts.isEmpty) None else Some(scan -> BucketSlices(numbers.zipWithIndex.flatMap { case (number, partition) => Seq.fill(number)(partition) }, starts))
    }
  } catch {
    case error @ (NonFatal(_) | _: LinkageError) =>
      logWarning(s"One task reads each bucket of ${scan.read.of.table}, because the footers of its files cannot be read.", error)
      None
  }

  /** Returns where each part of a file starts, and how many of its rows a partition has at most. */
  private def weighed(scan: BucketScan, partition: Int, parts: Seq[FilePart]): Seq[(Long, Long)] = {
    val rows = parts.map(_.rows)
    parts.map(_.start).zip(scan.read.ranges.fold(rows) { ranges =>
      val ordering = TypeUtils.getInterpretedOrdering(ranges.dataType)
      val range = partition / ranges.buckets
      val lowers = parts.map(_.points.headOption.map(_.value))
      // A part ends where the next part starts.
      lowers.zip(lowers.drop(1) :+ None).zip(rows).map { case ((lower, next), number) =>
        val isBefore = range > 0 && next.exists(ordering.lt(_, ranges.cuts(range - 1)))
        val isAfter = range < ranges.cuts.length && lower.exists(ordering.gteq(_, ranges.cuts(range)))
        if (isBefore || isAfter) 0 else number
      }
    })
  }

  /** Divides the files of a partition at the starts of their parts, so that each task reads about the same number of rows. */
  private def startsOf(files: Seq[(String, Seq[(Long, Long)])], number: Int): Seq[(String, Seq[Long])] = {
    val target = files.map(_._2.map(_._2).sum).sum.toDouble / number
    var before = 0L
    files.map { case (path, parts) =>
      val slices = parts.map { case (start, rows) =>
        val slice = ((before + rows / 2) / target).toInt.min(number - 1)
        before += rows
        start -> slice
      }
      // A task whose slice has no part of the file reads nothing of it.
      path -> (1 until number).map(slice => slices.indexWhere(_._2 >= slice) match {
        case -1 => Long.MaxValue
        case 0 => 0L
        case part => slices(part)._1
      })
    }
  }
}
