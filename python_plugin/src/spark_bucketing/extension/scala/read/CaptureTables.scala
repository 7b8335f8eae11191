package org.apache.spark.sql.bucketing
package read

import org.apache.spark.sql.catalyst.catalog.{CatalogTable, HiveTableRelation}
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.catalyst.trees.TreeNodeTag

/**
 * Captures the metadata of tables in the Hive layout during analysis, which avoids a second metastore call. Later, Spark
 * replaces their relations with cached relations. Cached relations may be older than a seal of another session.
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
