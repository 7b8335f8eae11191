package org.apache.spark.sql.bucketing
package metadata

import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTableType}
import org.apache.spark.sql.catalyst.expressions.{Expression, ExpressionInfo}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.types.StringType

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
