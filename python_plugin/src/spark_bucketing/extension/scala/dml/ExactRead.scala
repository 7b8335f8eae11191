package org.apache.spark.sql.bucketing
package dml

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.bucketing.read.HidesPlan
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.expressions.{Attribute, SortOrder}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode}
import org.apache.spark.sql.catalyst.plans.QueryPlan
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Statistics}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.catalyst.types.DataTypeUtils
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.execution.{CodegenSupport, FileSourceScanLike, SparkPlan, UnaryExecNode}
import org.apache.spark.sql.types.{StructField, StructType}

/**
 * A table whose rows a statement writes back. Rules of Spark and of other extensions prune and rewrite the columns of the relations that they find, such as
 * nested columns and VARIANT. This operator hides the relation from them.
 *
 * @param table the table, whose files have exactly the columns to read
 * @param plan the relation, and what the analyzer has added to it
 */
case class ExactRead(table: CatalogTable, plan: LogicalPlan) extends HidesPlan {
  override def output: Seq[Attribute] = plan.output
  override def innerChildren: Seq[QueryPlan[_]] = Seq(plan)
  override def computeStats(): Statistics = plan.stats
  override protected def stringArgs: Iterator[Any] = Iterator(table.identifier.unquotedString)
}

/**
 * Checks, before any row is read, that the scan below reads all columns as they are stored.
 *
 * @param table only the driver needs it. In Spark 3.5, the options of a table may not be serializable
 */
case class ExactReadExec(@transient table: CatalogTable, child: SparkPlan) extends UnaryExecNode with CodegenSupport {

  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering

  override protected def doExecute(): RDD[InternalRow] = {
    check()
    child.execute()
  }

  override def inputRDDs(): Seq[RDD[InternalRow]] = {
    check()
    child.asInstanceOf[CodegenSupport].inputRDDs()
  }

  override protected def doProduce(context: CodegenContext): String = child.asInstanceOf[CodegenSupport].produce(context, this)
  override def doConsume(context: CodegenContext, input: Seq[ExprCode], row: ExprCode): String = consume(context, input)

  private def check(): Unit = {
    val expected = CharVarcharUtils.replaceCharVarcharWithStringInSchema(table.dataSchema)
    child.collectLeaves().map(columnsRead).find(!DataTypeUtils.equalsIgnoreCaseAndNullability(_, expected)).foreach { found =>
      throw ResolveRowChanges.refusal(table.identifier.quotedString, s"a scan with the columns ${found.sql}; the table is unchanged", s"a scan with the columns ${expected.sql}",
        "disable the other extension or the setting that changes the columns of scans")
    }
  }

  private def columnsRead(leaf: SparkPlan): StructType = leaf match {
    case scan: FileSourceScanLike => scan.requiredSchema
    case other => StructType(other.output.take(table.dataSchema.size).map(column => StructField(column.name, column.dataType)))
  }

  override def simpleString(maxFields: Int): String = s"$nodeName ${table.identifier.unquotedString}"
  override protected def withNewChildInternal(changed: SparkPlan): SparkPlan = copy(child = changed)
}
