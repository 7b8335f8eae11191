package org.apache.spark.sql.bucketing.support

import org.apache.spark.sql.ExperimentalMethods
import org.apache.spark.sql.catalyst.expressions.{Alias, Literal}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Project}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.types.StructType

/**
 * An optimizer rule of another extension, which replaces a column of every scan with NULL.
 *
 * @param hidden whether the rule also changes plans within the operators of this extension
 */
case class DropColumn(name: String, hidden: Boolean) extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = plan.transform {
    case relation: LogicalRelation => relation.relation match {
      case files: HadoopFsRelation if files.dataSchema.fieldNames.contains(name) =>
        val fewer = files.copy(dataSchema = StructType(files.dataSchema.filterNot(_.name == name)))(files.sparkSession)
        val columns = relation.output.map(column => if (column.name == name) Alias(Literal(null, column.dataType), name)(exprId = column.exprId) else column)
        Project(columns, relation.copy(relation = fewer, output = relation.output.filterNot(_.name == name)))
      case _ => relation
    }
    case leaf if hidden && leaf.nodeName == "ExactRead" => leaf.makeCopy(leaf.productIterator.map {
      case of: LogicalPlan => apply(of)
      case other => other.asInstanceOf[AnyRef]
    }.toArray)
  }
}

object ScanRules {
  def dropColumn(of: ExperimentalMethods, name: String, hidden: Boolean): Unit = of.extraOptimizations = Seq(DropColumn(name, hidden))
  def clear(of: ExperimentalMethods): Unit = of.extraOptimizations = Nil
}
