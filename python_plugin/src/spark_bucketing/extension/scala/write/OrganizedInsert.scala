package org.apache.spark.sql.bucketing
package write

import java.util.UUID

import scala.util.Try

import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.metadata.FileStatistics
import org.apache.spark.sql.bucketing.read.{BucketTasks, FileStatisticsColumns}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, ExternalCatalogUtils}
import org.apache.spark.sql.catalyst.catalog.ExternalCatalogUtils.DEFAULT_PARTITION_NAME
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.datasources.{InsertIntoHadoopFsRelationCommand, WriteFilesExec}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{StringType, StructField, StructType}

/**
 * Writes the rows of an INSERT into an organized table: it stores the rows, counts the rows of each group, samples the groups of several files, and then
 * writes all files in one job. Each file has one slot.
 */
class OrganizedInsert(session: SparkSession, table: CatalogTable, insert: InsertIntoHadoopFsRelationCommand) {

  private val columns = FileStatisticsColumns(table)
  private val group: Seq[Int] = (columns.partition ++ columns.implicitPartition).map(at)
  private val range: Option[Int] = columns.organized.headOption.map(at)
  private val order = RangeOrder(range.map(insert.query.output(_).dataType))

  private var files: Map[Path, (NewFile, Seq[Any])] = Map.empty
  private var bytes = 0L

  /** The metrics of Spark's command. */
  def written: Map[String, Long] = Map("numFiles" -> files.size.toLong, "numOutputRows" -> files.values.map(_._1.rows).sum,
    "numOutputBytes" -> bytes, "numParts" -> (if (columns.partition.isEmpty) 0L else files.values.map(_._2).toSet.size.toLong))

  private def at(of: StructField): Int = insert.outputColumnNames.indexWhere(_.equalsIgnoreCase(of.name))

  /** Writes the files into a directory, in subdirectories by partition, and returns them. The directory may also have files of failed tasks. */
  def write(folder: Path, query: SparkPlan): Seq[Path] = {
    val stored = new Stored(session)
    try {
      val rows = stored.store(insert.query.output, (query match { case files: WriteFilesExec => files.child; case other => other }).execute())
      val named = Project(rows.output.zipWithIndex.map { case (column, i) => asStored(column, columns.partition.exists(at(_) == i)) }, rows)
      def places = placesOf(named, stored)
      val groups = InsertedGroups.count(places, range.nonEmpty, depth)
      if (groups.isEmpty) Nil else {
        val counts = new FileCounts(table, groups, () => bytesPerRow(named, folder, stored))
        counts.check()
        val plan = InsertedGroups.plan(groups, counts.of, places, order, depth, table.schema.defaultSize)
        val found = run(folder, named, plan, stored)
        val (expected, number) = (groups.values.sum, found.map(_.rows).sum)
        if (number != expected) throw Compat.refusal(s"Cannot write into ${table.identifier.quotedString}.", s"$number written rows", s"$expected rows, as counted before",
          "run it again; nothing has been inserted")
        files = found.map(file => new Path(file.path) -> (file -> plan.slots(file.slot).partition)).toMap
        files.keys.toSeq
      }
    } finally stored.close()
  }

  /** Writes the statistics of the files at their final paths. */
  def record(folder: Path, moved: Seq[(Path, FileStatus)]): Unit = {
    bytes = moved.map(_._2.getLen).sum
    new FileStatisticsWriter(session, table).write(folder, moved.map { case (from, status) =>
      val (file, partition) = files(from)
      (file, partition, status)
    })
  }

  // Spark writes the empty string, NULL and the name of the directory of NULL into the same partition directory.
  private def asStored(of: Attribute, isPartition: Boolean): NamedExpression =
    if (of.dataType != StringType || !isPartition) of
    else Alias(If(EqualTo(of, Literal(DEFAULT_PARTITION_NAME)), Literal(null, StringType), Empty2Null(of)), of.name)()

  private def placesOf(rows: LogicalPlan, stored: Stored): RDD[Seq[Any]] = {
    val place = (group ++ range).map(rows.output)
    val types = place.map(_.dataType)
    stored.rows(Project(place, rows)).map(row => types.indices.map(i => row.get(i, types(i))))
  }

  private def run(folder: Path, rows: LogicalPlan, plan: InsertPlan, stored: Stored): Seq[NewFile] = {
    val output = rows.output
    val slot = Alias(SlotOf(Seq(Literal(-1), Literal.TrueLiteral) ++ (group ++ range).map(output), plan), "slot")()
    val hash = Alias(FileStatisticsWriter.hash(output), "hash")()
    val numbered = Project(output ++ Seq(slot, hash, Alias(Literal.TrueLiteral, "is_new")()), rows)
    val tasks = RowsBySlot.tasks(BucketTasks.cores(session), plan.slots.map(_.bytes))
    val sorts = (slot.toAttribute +: (columns.implicitPartition.map(at) ++ range).map(output)).map(SortOrder(_, Ascending))
    val sorted = Sort(sorts, global = false, RowsBySlot(slot.toAttribute, tasks, numbered))
    val toWrite = RowsToWrite(sorted.output.map(_.dataType).toArray, data.toArray, columns.implicitPartition.map(at).toArray, range, output.size)
    val folders = plan.slots.map(slot => folderOf(folder, slot.partition)).toArray
    val writer = new NewFiles(opener, toWrite, plan.slots.toArray, folders, UUID.randomUUID.toString)
    session.sparkContext.runJob(stored.rows(sorted), (task: TaskContext, rows: Iterator[InternalRow]) => writer.write(task, rows)).toSeq.flatten
  }

  /** The positions of the data columns. */
  private def data: Seq[Int] = table.dataSchema.map(at)
  private def depth: Int = columns.partition.size

  // The table's own schema has types that only the analyzer knows, such as CHAR.
  private def opener = FileOpener(session, insert.fileFormat, insert.options,
    StructType(data.map(insert.outputColumns).map(column => StructField(column.name, column.dataType, nullable = true, column.metadata))).asNullable)

  private def folderOf(folder: Path, partition: Seq[Any]): String = {
    val spec = GroupKey.specOf(columns.partition, partition, insert.options)
    if (spec.isEmpty) folder.toString else ExternalCatalogUtils.generatePartitionPath(spec, table.partitionColumnNames, folder).toString
  }

  /** The size of a row in a file: the average of the table's files or, if it has none, of a sample of the new rows. */
  private def bytesPerRow(rows: LogicalPlan, folder: Path, stored: Stored): Double =
    FileStatistics.read(session, new Path(table.location), table.partitionColumnNames.size).flatMap(_.bytesPerRow).getOrElse {
      val plan = stored.rows(Project(data.map(rows.output), rows))
      val perTask = math.max(OrganizedInsert.SampledRows / math.max(1, plan.getNumPartitions), 1)
      val sampler = opener
      val (path, number) = session.sparkContext.runJob(plan.mapPartitions(_.take(perTask)).coalesce(1), (task: TaskContext, rows: Iterator[InternalRow]) => {
        val path = new Path(folder, s"_sample-${task.taskAttemptId()}")
        val writer = sampler.open(path, sampler.context(task.partitionId(), task.attemptNumber()))
        (path, try rows.map(writer.write).size finally writer.close())
      }).head
      path.getFileSystem(Compat.hadoopConf(session)).getFileStatus(path).getLen.toDouble / math.max(1, number)
    }
}

private object OrganizedInsert {
  val SampledRows = 1000000
}

/**
 * The number of files of each group of new rows, from the table's properties.
 *
 * @param groups the number of rows of each group
 */
private class FileCounts(table: CatalogTable, groups: Map[InsertedGroup, Long], bytesPerRow: () => Double) {

  private def property(key: String): Option[Long] = table.properties.get(key).map { text =>
    Try(text.trim.toLong).toOption.filter(_ > 0).getOrElse(throw Compat.refusal(s"Cannot write into ${table.identifier.quotedString}.",
      s"the table property '$key' = '$text'", "a positive integer", "set the property with ALTER TABLE ... SET TBLPROPERTIES; nothing has been inserted"))
  }
  // Rows with NULL have their own file.
  private lazy val all = groups.collect { case (group, rows) if !group.isNull => rows }.sum
  private lazy val bytes = bytesPerRow()
  private lazy val rowsPerFile: Long = math.max(1, property(FileCounts.RowsPerFile).getOrElse(
    (property(FileCounts.TargetFileSize).getOrElse(FileCounts.DefaultSize) / math.max(0.01, bytes)).toLong))

  def of(group: InsertedGroup): Int = if (group.isNull) 1 else {
    val rows = groups(group)
    val files = property(FileCounts.FilesPerPartition).orElse(property(FileCounts.NumFiles).map(number => math.round(number.toDouble * rows / all)))
      .getOrElse((rows + rowsPerFile - 1) / rowsPerFile)
    math.min(math.min(rows, math.max(1, files)), Int.MaxValue).toInt
  }

  def check(): Unit = {
    val files = groups.keysIterator.map(of(_).toLong).sum
    if (files > FileCounts.Maximum) throw Compat.refusal(s"Cannot write into ${table.identifier.quotedString}.",
      f"$files%,d files for ${groups.values.sum}%,d rows in ${groups.size}%,d groups", f"at most ${FileCounts.Maximum}%,d files in one statement",
      "write larger files, or use a coarser `partition_by`; nothing has been inserted")
  }
}

object FileCounts {

  /** Table properties with the size or the number of files. */
  val RowsPerFile = "bucketing.rows_per_file"
  val TargetFileSize = "bucketing.target_file_size"
  val NumFiles = "bucketing.num_files"
  val FilesPerPartition = "bucketing.files_per_partition"

  val DefaultSize: Long = 128L << 20
  val Maximum = 100000
}
