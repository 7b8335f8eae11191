package org.apache.spark.sql.bucketing

import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.catalyst.{FunctionIdentifier, InternalRow, TableIdentifier}
import org.apache.spark.sql.catalyst.analysis.MultiInstanceRelation
import org.apache.spark.sql.catalyst.catalog.CatalogTableType
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, Expression, ExpressionInfo}
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LogicalPlan, Statistics}
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.types.{ArrayType, DataType, IntegerType, StringType}
import org.apache.spark.unsafe.types.UTF8String

/** `bucket_specs('db.t')`: the buckets of each partition of a table by its record and by its descriptor. */
object BucketSpecsFunction {

  private val Name = "bucket_specs"

  def register(extensions: SparkSessionExtensions): Unit = extensions.injectTableFunction((
    FunctionIdentifier(Name),
    new ExpressionInfo(getClass.getName, null, Name,
      "_FUNC_('db.t') - The bucket spec of each partition of a table, by its record and by its own descriptor.",
      "",
      "\n    Examples:\n      > SELECT partition, num_buckets FROM _FUNC_('db.t');\n       ds=2024-01-01  16\n  ",
      "",
      "table_funcs", "0.1.0", "", ""),
    build))

  private def build(arguments: Seq[Expression]): LogicalPlan = arguments match {
    case Seq(name) if name.resolved && name.foldable && name.dataType == StringType && name.eval() != null =>
      PartitionSpecs(table(name.eval().toString), PartitionSpecs.columns)
    case _ => throw Compat.refusal(s"$Name takes the name of a table, a constant string, provided: " +
      s"${if (arguments.isEmpty) "none" else arguments.map(_.sql).mkString(", ")}. Write it as in $Name('db.t')")
  }

  private def table(name: String): TableIdentifier = {
    val session = SparkSession.active
    val (catalog, asked) = (Compat.catalog(session), Compat.tableNamed(session, name))
    def view(kind: String, of: TableIdentifier) = Compat.refusal(
      s"$Name takes the name of a table, provided: the $kind ${of.quotedString}. Write the name of a table that it reads")
    if (catalog.isTempView(asked)) throw view("temporary view", asked)
    val table = catalog.getTableMetadata(asked)
    if (table.tableType == CatalogTableType.VIEW) throw view("view", table.identifier)
    table.identifier
  }
}

/** Asked of the metastore when a query is planned, so that each query sees what is there then. */
case class PartitionSpecs(table: TableIdentifier, output: Seq[Attribute]) extends LeafNode with MultiInstanceRelation {
  override def newInstance(): LogicalPlan = copy(output = output.map(_.newInstance()))
  override def computeStats(): Statistics = Statistics(conf.defaultSizeInBytes)
}

object PartitionSpecs {

  private val Names = ArrayType(StringType, containsNull = false)

  def columns: Seq[Attribute] = Seq[(String, DataType, Boolean)](
    ("partition", StringType, false), ("location", StringType, false),
    ("num_buckets", IntegerType, true), ("bucket_columns", Names, true), ("sort_columns", Names, true),
    ("hash", StringType, true), ("spec_version", IntegerType, true), ("problem", StringType, true),
    ("descriptor_num_buckets", IntegerType, true), ("descriptor_bucket_columns", Names, true),
    ("descriptor_sort_columns", Names, true)
  ).map { case (name, dataType, nullable) => AttributeReference(name, dataType, nullable)() }

  def row(partition: StoredPartition): InternalRow = {
    val ofRecord = partition.record match {
      case Some(Right(record)) => Seq(record.numBuckets, names(record.columns), names(record.sortColumns),
        text(record.hash), PartitionRecord.Latest, null)
      case Some(Left(why)) => Seq(null, null, null, null, null, text(why))
      case None => Seq.fill(6)(null)
    }
    val ofDescriptor = partition.described.fold(Seq.fill[Any](3)(null)) { described =>
      Seq(described.numBuckets.max(0), names(described.columns), names(described.sortColumns))
    }
    InternalRow.fromSeq(Seq(text(partition.name), text(partition.location)) ++ ofRecord ++ ofDescriptor)
  }

  private def text(value: String): UTF8String = UTF8String.fromString(value)
  private def names(of: Seq[String]): GenericArrayData = new GenericArrayData(of.map(text).toArray[Any])
}

case class PlanPartitionSpecs(session: SparkSession) extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case PartitionSpecs(name, output) =>
      val table = Compat.catalog(session).getTableMetadata(name)
      val partitions = if (table.partitionColumnNames.isEmpty) Nil else PartitionStore.of(session).list(table)
      Compat.knownRows(output, partitions.map(PartitionSpecs.row)) :: Nil
    case _ => Nil
  }
}
