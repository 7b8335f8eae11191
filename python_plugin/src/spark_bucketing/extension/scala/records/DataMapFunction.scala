package org.apache.spark.sql.bucketing
package records

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

/** `data_map('db.t')`: the files of an organized table as they are listed now, with what its data map says of each. */
object DataMapFunction extends FunctionOfTable("data_map",
  "The files of an organized table as they are now, and what is in them by its data map: NULL where that does not know the file.",
  "SELECT file, rows, lower, upper FROM _FUNC_('db.t');\n       part-00000-...  1000  {2024-01-01}  {2024-01-07}") {

  override protected def rows(table: CatalogTable): LogicalPlan = {
    if (!DataMap.isKept(table.properties)) throw Compat.refusal(
      s"${table.identifier.quotedString} has no data map. Expected a table of a dbt model with `organized_by` or `split_by`. " +
        "Write one of these into its config, and run it.")
    ListedFiles(table.identifier, MapColumns(table).attributes)
  }
}

/** The columns of a data map. */
private case class MapColumns(table: CatalogTable) {

  private def fields(names: Seq[String]): StructType =
    StructType(names.flatMap(name => table.schema.find(_.name.equalsIgnoreCase(name))).map(_.copy(nullable = true)))

  private def property(key: String): StructType = fields(table.properties.get(key).fold(Seq.empty[String])(Replacement.jsonNames))

  val partition: StructType = fields(table.partitionColumnNames)
  val split: StructType = property(DataMap.SplitBy)
  val organized: StructType = property(DataMap.OrganizedBy)

  private val structs = Seq("partition" -> partition, "split" -> split, "lower" -> organized, "upper" -> organized).filter(_._2.nonEmpty)

  def attributes: Seq[Attribute] =
    Seq(("file", StringType, false), ("path", StringType, false), ("bytes", LongType, false), ("modified", TimestampType, false))
      .++(structs.map { case (name, columns) => (name, columns, true) })
      .++(Seq(("nulls", LongType, true), ("rows", LongType, true), ("checksum", DecimalType(38, 0), true)))
      .map { case (name, dataType, nullable) => AttributeReference(name, dataType, nullable)() }
}

/** Listed when a query is planned, so that each query sees what is there then; and once, however often adaptive execution plans its rest anew. */
case class ListedFiles(table: TableIdentifier, output: Seq[Attribute]) extends LeafNode with MultiInstanceRelation {
  override def newInstance(): LogicalPlan = copy(output = output.map(_.newInstance()))
  override def computeStats(): Statistics = Statistics(conf.defaultSizeInBytes)
}

object PlanListedFiles {
  // Of the copy of a query that Spark plans from.
  private val Rows = TreeNodeTag[Seq[InternalRow]]("bucketing.listed_files")
}

case class PlanListedFiles(session: SparkSession) extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case of: ListedFiles =>
      val found = of.getTagValue(PlanListedFiles.Rows).getOrElse(rows(Compat.catalog(session).getTableMetadata(of.table)))
      of.setTagValue(PlanListedFiles.Rows, found)
      SparkVersion.knownRows(of.output, found) :: Nil
    case _ => Nil
  }

  private def rows(table: CatalogTable): Seq[InternalRow] = {
    val (columns, depth) = (MapColumns(table), table.partitionColumnNames.size)
    val map = DataMap.read(session, new Path(table.location), depth)
    for {
      directory <- OrganizedFiles.now(session, table)
      file <- directory.files.map(_.fileStatus)
      known = map.fold(Seq.empty[MappedFile])(_.of(file)).filter(isOf(columns))
      mapped <- if (known.isEmpty) Seq(None) else known.map(Some(_))
    } yield InternalRow.fromSeq(
      Seq(UTF8String.fromString(DataMap.lastNames(file.getPath, depth)), UTF8String.fromString(asInMetadata(file.getPath)),
        file.getLen, file.getModificationTime * 1000)
        ++ (if (columns.partition.isEmpty) Nil else Seq(directory.values.copy()))
        ++ struct(columns.split, mapped)(_.lower) ++ struct(columns.organized, mapped)(_.lower) ++ struct(columns.organized, mapped)(_.upper)
        ++ Seq(mapped.flatMap(of => columns.organized.headOption.map(of.column(_).nulls)), mapped.map(_.rows), mapped.map(_.checksum))
          .map(_.getOrElse(null)))
  }

  /** As `_metadata.file_path` has it: a listing may write the same URL in another way. */
  private def asInMetadata(path: Path): String = new Path(path.toString).toUri.toString

  /** A column of the table may have been given another type since. */
  private def isOf(columns: MapColumns)(file: MappedFile): Boolean =
    (columns.split ++ columns.organized).forall(column => file.columns.get(column.name).exists(_.dataType == column.dataType))

  private def struct(columns: StructType, file: Option[MappedFile])(value: MappedColumn => Any): Seq[Any] =
    if (columns.isEmpty) Nil else Seq(file.map(of => InternalRow.fromSeq(columns.map(column => value(of.column(column))))).orNull)
}
