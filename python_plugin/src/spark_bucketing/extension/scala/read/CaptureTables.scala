package org.apache.spark.sql.bucketing
package read

import org.apache.spark.sql.catalyst.catalog.{CatalogTable, HiveTableRelation}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreeNodeTag

/**
 * Notes tables of the Hive layout as the metastore had them when a query was analyzed, so that it is not asked for them
 * once more. Spark puts a relation of its cache in their place, and another session may have sealed the table since.
 */
object CaptureTables extends Rule[LogicalPlan] {

  val AsAnalyzed: TreeNodeTag[CatalogTable] = TreeNodeTag("bucketing.as_analyzed")

  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan.foreach {
      case relation: HiveTableRelation => relation.setTagValue(AsAnalyzed, relation.tableMeta)
      case _ =>
    }
    plan
  }
}
