package org.apache.spark.sql.bucketing

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.bucketing.compat.SparkVersion
import org.apache.spark.sql.bucketing.ddl._
import org.apache.spark.sql.bucketing.dml._
import org.apache.spark.sql.bucketing.hash._
import org.apache.spark.sql.bucketing.read._
import org.apache.spark.sql.bucketing.metadata._
import org.apache.spark.sql.bucketing.write._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}

/** Registers the functions, rules and strategies of the extension. Set `spark.sql.extensions` to this class. */
class BucketingExtension extends (SparkSessionExtensions => Unit) {

  override def apply(extensions: SparkSessionExtensions): Unit = {
    BucketingConf.register()
    HiveHashFunctions.register(extensions)
    BucketSpecsFunction.register(extensions)
    FileStatisticsFunction.register(extensions)
    extensions.injectParser((_, parser) => BucketDdlParser(parser))
    extensions.injectResolutionRule(_ => ResolveBucketDdl)
    extensions.injectResolutionRule(_ => CaptureTables)
    extensions.injectResolutionRule(_ => OverwriteHints.RejectMisplaced)
    extensions.injectResolutionRule(_ => MergeChecks.RejectMisplaced)
    extensions.injectPlannerStrategy(PlanPartitionSpecs(_))
    extensions.injectPlannerStrategy(PlanFileStatistics(_))
    SparkVersion.injectEarlyRule(extensions, RejectSchemaEvolution(_))
    extensions.injectPostHocResolutionRule(_ => ResolveRowChanges)
    extensions.injectPlannerStrategy(PlanRowChanges(_))
    extensions.injectPreCBORule(BucketedWrites(_))
    extensions.injectCheckRule(_ => OverwriteHints.RejectUnsupported)
    extensions.injectPlannerStrategy(_ => PlanWrites)
    extensions.injectQueryStagePrepRule(_ => EnsureBucketedRows)
    extensions.injectColumnar(_ => PreColumnarRule(EnsureBucketedRows))
    extensions.injectPlannerStrategy(BucketPlanningStrategy(_))
    extensions.injectQueryStagePrepRule(_ => FinalizeBucketScans)
    extensions.injectColumnar(_ => PreColumnarRule(FinalizeAndSplitBucketScans))
  }
}

/** Applies a rule before Spark inserts transitions between rows and columnar batches, with or without adaptive execution. */
case class PreColumnarRule(rule: Rule[SparkPlan]) extends ColumnarRule {
  override def preColumnarTransitions: Rule[SparkPlan] = rule
}
