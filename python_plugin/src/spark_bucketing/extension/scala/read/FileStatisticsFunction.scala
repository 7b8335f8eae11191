package org.apache.spark.sql.bucketing
package read

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.metadata._
import org.apache.spark.sql.catalyst.{InternalRow, TableIdentifier}
import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LocalRelation, LogicalPlan, Statistics}
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** The table function `file_statistics('db.t')`, which returns the current files of an organized table with their statistics. */
object FileStatisticsFunction extends TableNameFunction("file_statistics",
  "Returns the current files of an organized table with their file statistics, which are NULL for files that have none.",
  "SELECT file, rows, lower, upper FROM _FUNC_('db.t');\n       part-00000-...  1000  {2024-01-01}  {2024-01-07}") {

  override protected def rows(table: CatalogTable): LogicalPlan = {
    if (!FileStatistics.isKept(table.properties)) throw Compat.refusal(
      s"Table ${table.identifier.quotedString} has no file statistics.", "a table without file statistics",
      "a table of a dbt model with `range_by` or `implicit_partition_by`", "add one of these keys to the model's config, and run the model")
    FileStatisticsRelation(table.identifier, FileStatisticsColumns(table).attributes)
  }
}

/** The columns of the file statistics of a table. */
case class FileStatisticsColumns(table: CatalogTable) {

  private def fields(names: Seq[String]): StructType =
    StructType(names.flatMap(name => table.schema.find(_.name.equalsIgnoreCase(name))).map(_.copy(nullable = true)))

  private def property(key: String): StructType = fields(table.properties.get(key).fold(Seq.empty[String]) { text =>
    Replacement.jsonNames(text).getOrElse(throw Compat.refusal(
      s"Table ${table.identifier.quotedString} has an invalid property `$key`.", s"'$text'", "a JSON array of column names",
      "rebuild the table with `dbt run --full-refresh`"))
  })

  val partition: StructType = fields(table.partitionColumnNames)
  val implicitPartition: StructType = property(FileStatistics.ImplicitPartitionBy)
  val organized: StructType = property(FileStatistics.RangeBy)

  /** Returns whether statistics have the current column types, which may have changed since the write. */
  def describe(file: FileStats): Boolean =
    (implicitPartition ++ organized).forall(column => file.columns.get(column.name).exists(_.dataType == column.dataType))

  private val structs = Seq("partition" -> partition, "implicit_partition" -> implicitPartition, "lower" -> organized, "upper" -> organized).filter(_._2.nonEmpty)

  def attributes: Seq[Attribute] = PartitionSpecs.attributes(
    Seq(("file", StringType, false), ("path", StringType, false), ("bytes", LongType, false), ("modified", TimestampType, false))
      ++ structs.map { case (name, columns) => (name, columns, true) }
      ++ Seq(("nulls", LongType, true), ("rows", LongType, true), ("checksum", DecimalType(38, 0), true)): _*)
}

/**
 * Lists the files during planning, so that each query sees the current files. The files are listed once per query, even if
 * adaptive execution plans the query several times.
 */
case class FileStatisticsRelation(table: TableIdentifier, output: Seq[Attribute]) extends LeafNode with MultiInstanceRelation {
  override def newInstance(): LogicalPlan = copy(output = output.map(_.newInstance()))
  override def computeStats(): Statistics = Statistics(conf.defaultSizeInBytes)
}

case class PlanFileStatistics(session: SparkSession) extends SparkStrategy {
  // Stores the rows in the logical plan, from which adaptive execution plans again.
  private val Rows = TreeNodeTag[Seq[InternalRow]]("bucketing.listed_files")

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case of: FileStatisticsRelation =>
      val found = of.getTagValue(Rows).getOrElse(rows(Compat.catalog(session).getTableMetadata(of.table)))
      of.setTagValue(Rows, found)
      planLater(LocalRelation(of.output, found)) :: Nil
    case _ => Nil
  }

  private def rows(table: CatalogTable): Seq[InternalRow] = {
    val (columns, depth) = (FileStatisticsColumns(table), table.partitionColumnNames.size)
    val map = FileStatistics.read(session, table)
    for {
      directory <- CurrentFiles.now(session, table)
      file <- directory.files.map(_.fileStatus)
      known = map.fold(Seq.empty[FileStats])(_.of(file)).filter(columns.describe)
      mapped <- if (known.isEmpty) Seq(None) else known.map(Some(_))
    } yield InternalRow.fromSeq(
      Seq(UTF8String.fromString(FileStatistics.lastNames(file.getPath, depth)), UTF8String.fromString(asInMetadata(file.getPath)),
        file.getLen, file.getModificationTime * 1000)
        ++ (if (columns.partition.isEmpty) Nil else Seq(directory.values.copy()))
        ++ struct(columns.implicitPartition, mapped)(_.lower) ++ struct(columns.organized, mapped)(_.lower) ++ struct(columns.organized, mapped)(_.upper)
        ++ Seq(mapped.flatMap(of => columns.organized.headOption.map(of.column(_).nulls)), mapped.map(_.rows), mapped.map(_.checksum))
          .map(_.getOrElse(null)))
  }

  /** Returns a path in the format of the column `_metadata.file_path`. A listing may use another format for the same path. */
  private def asInMetadata(path: Path): String = new Path(path.toString).toUri.toString

  private def struct(columns: StructType, file: Option[FileStats])(value: ColumnStats => Any): Seq[Any] =
    if (columns.isEmpty) Nil else Seq(file.map(of => InternalRow.fromSeq(columns.map(column => value(of.column(column))))).orNull)
}
