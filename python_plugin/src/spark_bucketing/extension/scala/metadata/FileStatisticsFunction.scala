package org.apache.spark.sql.bucketing
package metadata

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.{Compat, SparkVersion}
import org.apache.spark.sql.bucketing.read.OrganizedFiles
import org.apache.spark.sql.catalyst.{InternalRow, TableIdentifier}
import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference}
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LogicalPlan, Statistics}
import org.apache.spark.sql.catalyst.trees.TreeNodeTag
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** `file_statistics('db.t')`: the files of an organized table as they are listed now, with what its file statistics say of each. */
object FileStatisticsFunction extends TableNameFunction("file_statistics",
  "The files of an organized table as they are now, and what is in them by its file statistics: NULL where that does not know the file.",
  "SELECT file, rows, lower, upper FROM _FUNC_('db.t');\n       part-00000-...  1000  {2024-01-01}  {2024-01-07}") {

  override protected def rows(table: CatalogTable): LogicalPlan = {
    if (!FileStatistics.isKept(table.properties)) throw Compat.refusal(
      s"${table.identifier.quotedString} has no file statistics. Expected a table of a dbt model with `range_by` or `implicit_partition_by`. " +
        "Write one of these into its config, and run it.")
    FileStatisticsRelation(table.identifier, FileStatisticsColumns(table).attributes)
  }
}

/** The columns of file statistics. */
private case class FileStatisticsColumns(table: CatalogTable) {

  private def fields(names: Seq[String]): StructType =
    StructType(names.flatMap(name => table.schema.find(_.name.equalsIgnoreCase(name))).map(_.copy(nullable = true)))

  private def property(key: String): StructType = fields(table.properties.get(key).fold(Seq.empty[String]) { text =>
    Replacement.jsonNames(text).getOrElse(throw Compat.refusal(s"${table.identifier.quotedString} has the property $key='$text'. " +
      "Expected a JSON array of column names. Instead: dbt run --full-refresh, which builds the table again."))
  })

  val partition: StructType = fields(table.partitionColumnNames)
  val implicitPartition: StructType = property(FileStatistics.ImplicitPartitionBy)
  val organized: StructType = property(FileStatistics.RangeBy)

  private val structs = Seq("partition" -> partition, "implicit_partition" -> implicitPartition, "lower" -> organized, "upper" -> organized).filter(_._2.nonEmpty)

  def attributes: Seq[Attribute] =
    Seq(("file", StringType, false), ("path", StringType, false), ("bytes", LongType, false), ("modified", TimestampType, false))
      .++(structs.map { case (name, columns) => (name, columns, true) })
      .++(Seq(("nulls", LongType, true), ("rows", LongType, true), ("checksum", DecimalType(38, 0), true)))
      .map { case (name, dataType, nullable) => AttributeReference(name, dataType, nullable)() }
}

/** Listed when a query is planned, so that each query sees what is there then; and once, however often adaptive execution plans its rest anew. */
case class FileStatisticsRelation(table: TableIdentifier, output: Seq[Attribute]) extends LeafNode with MultiInstanceRelation {
  override def newInstance(): LogicalPlan = copy(output = output.map(_.newInstance()))
  override def computeStats(): Statistics = Statistics(conf.defaultSizeInBytes)
}

object PlanFileStatistics {
  // Of the copy of a query that Spark plans from.
  private val Rows = TreeNodeTag[Seq[InternalRow]]("bucketing.listed_files")
}

case class PlanFileStatistics(session: SparkSession) extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case of: FileStatisticsRelation =>
      val found = of.getTagValue(PlanFileStatistics.Rows).getOrElse(rows(Compat.catalog(session).getTableMetadata(of.table)))
      of.setTagValue(PlanFileStatistics.Rows, found)
      SparkVersion.knownRows(of.output, found) :: Nil
    case _ => Nil
  }

  private def rows(table: CatalogTable): Seq[InternalRow] = {
    val (columns, depth) = (FileStatisticsColumns(table), table.partitionColumnNames.size)
    val map = FileStatistics.read(session, new Path(table.location), depth)
    for {
      directory <- OrganizedFiles.now(session, table)
      file <- directory.files.map(_.fileStatus)
      known = map.fold(Seq.empty[FileStats])(_.of(file)).filter(isOf(columns))
      mapped <- if (known.isEmpty) Seq(None) else known.map(Some(_))
    } yield InternalRow.fromSeq(
      Seq(UTF8String.fromString(FileStatistics.lastNames(file.getPath, depth)), UTF8String.fromString(asInMetadata(file.getPath)),
        file.getLen, file.getModificationTime * 1000)
        ++ (if (columns.partition.isEmpty) Nil else Seq(directory.values.copy()))
        ++ struct(columns.implicitPartition, mapped)(_.lower) ++ struct(columns.organized, mapped)(_.lower) ++ struct(columns.organized, mapped)(_.upper)
        ++ Seq(mapped.flatMap(of => columns.organized.headOption.map(of.column(_).nulls)), mapped.map(_.rows), mapped.map(_.checksum))
          .map(_.getOrElse(null)))
  }

  /** As `_metadata.file_path` has it: a listing may write the same URL in another way. */
  private def asInMetadata(path: Path): String = new Path(path.toString).toUri.toString

  /** A column of the table may have been given another type since. */
  private def isOf(columns: FileStatisticsColumns)(file: FileStats): Boolean =
    (columns.implicitPartition ++ columns.organized).forall(column => file.columns.get(column.name).exists(_.dataType == column.dataType))

  private def struct(columns: StructType, file: Option[FileStats])(value: ColumnStats => Any): Seq[Any] =
    if (columns.isEmpty) Nil else Seq(file.map(of => InternalRow.fromSeq(columns.map(column => value(of.column(column))))).orNull)
}
