package org.apache.spark.sql.bucketing

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.bucketing.ddl._
import org.apache.spark.sql.bucketing.hash._
import org.apache.spark.sql.bucketing.read._
import org.apache.spark.sql.bucketing.records._
import org.apache.spark.sql.bucketing.write._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}

/** What `spark.sql.extensions` names: it registers the parts and does nothing else. */
class BucketingExtension extends (SparkSessionExtensions => Unit) {

  override def apply(extensions: SparkSessionExtensions): Unit = {
    BucketingConf.register()
    HiveHashFunctions.register(extensions)
    BucketSpecsFunction.register(extensions)
    DataMapFunction.register(extensions)
    extensions.injectParser((_, parser) => BucketDdlParser(parser))
    extensions.injectResolutionRule(_ => ResolveBucketDdl)
    extensions.injectResolutionRule(_ => NoteTables)
    extensions.injectPlannerStrategy(PlanPartitionSpecs(_))
    extensions.injectPlannerStrategy(PlanListedFiles(_))
    extensions.injectPreCBORule(BucketedWrites(_))
    extensions.injectPlannerStrategy(PlanBucketedRows(_))
    extensions.injectQueryStagePrepRule(_ => EnsureBucketedRows)
    extensions.injectColumnar(_ => BeforeColumns(EnsureBucketedRows))
    extensions.injectPlannerStrategy(PlanWithBuckets(_))
    extensions.injectQueryStagePrepRule(_ => FinishBuckets)
    extensions.injectColumnar(_ => BeforeColumns(FinishAndSplitBuckets))
  }
}

/** A rule for the physical plan where execution is not adaptive. */
case class BeforeColumns(rule: Rule[SparkPlan]) extends ColumnarRule {
  override def preColumnarTransitions: Rule[SparkPlan] = rule
}
