package org.apache.spark.sql.bucketing
package write

import java.util.Locale

import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.{Compat, Tasks}
import org.apache.spark.sql.bucketing.metadata.FileStatistics
import org.apache.spark.sql.bucketing.read.{CurrentFiles, FileStatisticsColumns}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, ExternalCatalogUtils}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.datasources.{InsertIntoHadoopFsRelationCommand, WriteFilesExec}
import org.apache.spark.sql.types.{StructField, StructType}

/**
 * Writes the rows of an INSERT into an organized table: it stores the rows, counts the rows of each group, samples the groups of several files, and then
 * writes all files in one job. Each file has one slot.
 */
class OrganizedInsert(session: SparkSession, table: CatalogTable, insert: InsertIntoHadoopFsRelationCommand) {

  private val SampledRows = 1000000

  private val columns = FileStatisticsColumns(table)
  private val group: Seq[Int] = (columns.partition ++ columns.implicitPartition).map(at)
  private val range: Option[Int] = columns.organized.headOption.map(at)
  private val order = RangeOrder(range.map(insert.query.output(_).dataType))

  private var files: Map[Path, (NewFile, Seq[Any])] = Map.empty
  private var bytes = 0L

  /** The metrics of Spark's command. */
  def written: Map[String, Long] = Map("numFiles" -> files.size.toLong, "numOutputRows" -> files.values.map(_._1.sums.rows).sum,
    "numOutputBytes" -> bytes, "numParts" -> (if (columns.partition.isEmpty) 0L else files.values.map(_._2).toSet.size.toLong))

  private def at(of: StructField): Int = insert.outputColumnNames.indexWhere(_.equalsIgnoreCase(of.name))

  /** Writes the files into a directory, in subdirectories by partition, and returns them. The directory may also have files of failed tasks. */
  def write(folder: Path, query: SparkPlan): Seq[Path] = {
    checkColumns()
    val stored = new Stored(session)
    try {
      val rows = stored.store(insert.query.output, (query match { case files: WriteFilesExec => files.child; case other => other }).execute())
      val named = Project(rows.output.zipWithIndex.map { case (column, i) => if (columns.partition.exists(at(_) == i)) Alias(GroupKey.asRead(column), column.name)() else column }, rows)
      def places = placesOf(named, stored)
      val counted = InsertedGroups.count(places, range.nonEmpty, depth)
      val groups = InsertedGroups.total(counted)
      if (groups.isEmpty) Nil else {
        val counts = new FileCounts(table, groups, () => bytesPerRow(named, folder, stored))
        val shared = SharedBoundaries.of(session, table, columns, order)
        if (shared.isEmpty) counts.check()
        val plan = InsertedGroups.plan(counted, counts.of, shared, places, order, depth, table.schema.defaultSize)
        val found = run(folder, named, plan, stored)
        val (expected, number) = (groups.values.sum, found.map(_.sums.rows).sum)
        if (number != expected) throw Compat.refusal(s"Cannot write into ${table.identifier.quotedString}.", s"$number written rows", s"$expected rows, as counted before",
          "run it again; nothing has been inserted")
        files = found.map(file => new Path(file.path) -> (file -> plan.slots(file.slot).partition)).toMap
        files.keys.toSeq
      }
    } finally stored.close()
  }

  /** Checks that the statement was analyzed with the table's columns, because another session may have added some. */
  private def checkColumns(): Unit = {
    def names(of: Seq[String]) = of.map(_.toLowerCase(Locale.ROOT)).toSet
    if (names(table.schema.fieldNames.toSeq) != names(insert.outputColumnNames)) {
      Compat.refresh(session, table.identifier)
      throw Compat.refusal(s"Cannot write into ${table.identifier.quotedString}.", s"the columns ${table.schema.fieldNames.mkString(", ")}, which another session has changed",
        s"the columns ${insert.outputColumnNames.mkString(", ")}", "run it again; this session knows the columns now, and nothing has been inserted")
    }
  }

  /** Writes the statistics of the files at their final paths. */
  def record(folder: Path, moved: Seq[(Path, FileStatus)]): Unit = {
    bytes = moved.map(_._2.getLen).sum
    new FileStatisticsWriter(session, table).write(folder, moved.map { case (from, status) =>
      val (file, partition) = files(from)
      (file, partition, status)
    })
  }

  private def placesOf(rows: LogicalPlan, stored: Stored): RDD[Seq[Any]] = {
    val place = (group ++ range).map(rows.output)
    val types = place.map(_.dataType)
    stored.rows(Project(place, rows)).map(row => types.indices.map(i => row.get(i, types(i))))
  }

  private def run(folder: Path, rows: LogicalPlan, plan: InsertPlan, stored: Stored): Seq[NewFile] = {
    val implicitPartition = columns.implicitPartition.map(at)
    new WriteJob(session, opener, FileColumns(data, implicitPartition, range), implicitPartition ++ range, plan, plan.slots, plan.slots.map(slot => folderOf(folder, slot.partition)))
      .run(stored, rows, rows.output, Seq(Literal(-1), Literal.TrueLiteral) ++ (group ++ range).map(rows.output))
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
    FileStatistics.read(session, table).flatMap(_.bytesPerRow(CurrentFiles.now(session, table).flatMap(_.files.map(_.fileStatus)))).getOrElse {
      val plan = stored.rows(Project(data.map(rows.output), rows))
      val perTask = math.max(SampledRows / math.max(1, plan.getNumPartitions), 1)
      val sampler = opener
      val (path, number) = Tasks.run(plan.mapPartitions(_.take(perTask)).coalesce(1)) { (task, rows) =>
        val path = new Path(folder, s"_sample-${task.taskAttemptId()}")
        (path, sampler.storing(path.toString) {
          val writer = sampler.open(path, sampler.context(task.partitionId(), task.attemptNumber()))
          try rows.map(writer.write).size finally writer.close()
        })
      }.head
      path.getFileSystem(Compat.hadoopConf(session)).getFileStatus(path).getLen.toDouble / math.max(1, number)
    }
}
