package org.apache.spark.sql.bucketing
package metadata

import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, FunctionIdentifier, InternalRow, TableIdentifier}
import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTableType}
import org.apache.spark.sql.catalyst.expressions.{And, Attribute, AttributeReference, Expression, ExpressionInfo}
import org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation
import org.apache.spark.sql.catalyst.planning.PhysicalOperation
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LeafNode, LocalRelation, LogicalPlan, Project, Statistics}
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.types.{ArrayType, DataType, IntegerType, LongType, StringType}

/**
 * The table function `bucket_specs('db.t')`. For each partition, it returns the bucket spec in its seal and the bucket spec in
 * its descriptor. For an unpartitioned table, it returns one row.
 */
object BucketSpecsFunction extends TableNameFunction("bucket_specs",
  "Returns the sealed bucket spec of each partition of a table, whether its files match the seal, and its descriptor.",
  "SELECT partition, status, num_buckets FROM _FUNC_('db.t');\n       ds=2024-01-01  sealed  16") {

  override protected def rows(table: CatalogTable): LogicalPlan = PartitionSpecs(table.identifier, PartitionSpecs.columns)
}

/** Reads the metastore during planning, so that each query sees the current metadata. */
case class PartitionSpecs(table: TableIdentifier, output: Seq[Attribute]) extends LeafNode with MultiInstanceRelation {
  override def newInstance(): LogicalPlan = copy(output = output.map(_.newInstance()))
  override def computeStats(): Statistics = Statistics(conf.defaultSizeInBytes)
}

object PartitionSpecs {

  /** The table property that identifies the dbt run that built a table. */
  private val Build = "bucketing.build"

  val Names: ArrayType = ArrayType(StringType, containsNull = false)

  /** Returns attributes, given their names, their data types and whether they are nullable. */
  def attributes(of: (String, DataType, Boolean)*): Seq[Attribute] =
    of.map { case (name, dataType, nullable) => AttributeReference(name, dataType, nullable)() }

  def columns: Seq[Attribute] = attributes(
    ("partition", StringType, false), ("location", StringType, false), ("status", StringType, false),
    ("num_buckets", IntegerType, true), ("bucket_columns", Names, true), ("sort_columns", Names, true),
    ("hash", StringType, true), ("files", LongType, false), ("bytes", LongType, false),
    ("max_files_per_bucket", IntegerType, true), ("problem", StringType, true),
    ("descriptor_num_buckets", IntegerType, true), ("descriptor_bucket_columns", Names, true),
    ("descriptor_sort_columns", Names, true), ("build", StringType, true))

  /** The columns that need a list of files. The others come from the metastore alone. */
  private val OfFiles = Set("status", "files", "bytes", "max_files_per_bucket", "problem")

  def needFiles(columns: Iterable[Attribute]): Boolean = columns.exists(column => OfFiles(column.name))

  def row(table: CatalogTable, part: PartitionFiles): InternalRow = {
    val hash = PartitionFiles.hashesOf(table).head
    val (status, problem) = part.status(hash, table.dataSchema)
    val ofSeal = part.seal.flatMap(_.toOption).fold(Seq.fill[Any](4)(null)) { case Seal(spec, _) =>
      Seq(spec.numBuckets, spec.columns, spec.sortColumns, spec.hash.name)
    }
    val ofDescriptor = part.described.fold(Seq.fill[Any](3)(null)) { described =>
      Seq(described.numBuckets, described.bucketColumnNames, described.sortColumnNames)
    }
    val values = Seq(part.name, part.location, status) ++ ofSeal ++ Seq(part.files.length.toLong, part.bytes,
      part.mostFilesOfBucket(hash).getOrElse(null), problem.orNull) ++ ofDescriptor :+ table.properties.get(Build).orNull
    InternalRow.fromSeq(values.map(CatalystTypeConverters.convertToCatalyst))
  }
}

case class PlanPartitionSpecs(session: SparkSession) extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case PhysicalOperation(columns, conditions, PartitionSpecs(name, output)) =>
      val table = Compat.catalog(session).getTableMetadata(name)
      val listed = PartitionSpecs.needFiles((columns ++ conditions).flatMap(_.references))
      val parts = PartitionFiles.list(session, table, PartitionStore.of(session).list(table), listed)
      val rows = LocalRelation(output, parts.map(PartitionSpecs.row(table, _)))
      // Selects rows on the driver, because a job would take longer than the selection. Expressions such as subqueries need a job.
      val filtered = conditions.reduceOption(And).fold[LogicalPlan](rows)(of => ConvertToLocalRelation(Filter(of, rows)))
      planLater(ConvertToLocalRelation(Project(columns, filtered))) :: Nil
    case _ => Nil
  }
}

/**
 * A table function whose only argument is the name of a table.
 *
 * @param example an example query and its result, in which `_FUNC_` stands for the name of the function
 */
abstract class TableNameFunction(name: String, usage: String, example: String) {

  /** The versions that DESCRIBE FUNCTION shows. The dbt package uses them to detect the extension and its version. */
  private val versions = s"spark-bucketing ${Built.Version}, for Spark ${Built.Spark}"

  protected def rows(table: CatalogTable): LogicalPlan

  def register(extensions: SparkSessionExtensions): Unit = extensions.injectTableFunction((
    FunctionIdentifier(name),
    new ExpressionInfo(getClass.getName, null, name, s"_FUNC_('db.t') - $usage ($versions)", "",
      s"\n    Examples:\n      > $example\n  ", "", "table_funcs", "0.1.0", "", ""),
    build))

  private def build(arguments: Seq[Expression]): LogicalPlan = arguments match {
    case Seq(of) if of.resolved && of.foldable && of.dataType == StringType && of.eval() != null => rows(table(of.eval().toString))
    case _ => throw Compat.refusal(s"The arguments of `$name` are invalid.",
      if (arguments.isEmpty) "none" else arguments.map(_.sql).mkString(", "), "the name of a table as a constant string", s"write $name('db.t')")
  }

  private def table(of: String): CatalogTable = {
    val session = SparkSession.active
    val (catalog, asked) = (Compat.catalog(session), Compat.tableNamed(session, of))
    def view(kind: String, named: String) = Compat.refusal(
      s"The function `$name` cannot read the $kind $named.", s"a $kind", "the name of a table", s"write the name of a table that the $kind reads")
    if (catalog.isTempView(asked)) throw view("temporary view", asked.quotedString)
    val table = catalog.getTableMetadata(asked)
    if (table.tableType == CatalogTableType.VIEW) throw view("view", table.identifier.quotedString)
    table
  }
}
