package org.apache.spark.sql.bucketing

import scala.runtime.AbstractFunction1

import org.slf4j.LoggerFactory

import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.bucketing.compat.SparkVersion
import org.apache.spark.sql.bucketing.ddl._
import org.apache.spark.sql.bucketing.dml._
import org.apache.spark.sql.bucketing.explain._
import org.apache.spark.sql.bucketing.hash._
import org.apache.spark.sql.bucketing.read._
import org.apache.spark.sql.bucketing.metadata._
import org.apache.spark.sql.bucketing.write._
import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.expressions.{Expression, ExpressionInfo, Literal}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, SparkPlan}

/**
 * Registers the extension if its jar was built for the Spark version of the session. Set `spark.sql.extensions` to this class.
 *
 * Every version of Spark and of Scala must be able to load this class and [[BucketingNotLoaded]], so neither has a lambda, an interpolated string, a collection
 * or a case class. They use only classes whose methods are the same in all versions.
 */
class BucketingExtension extends (SparkSessionExtensions => Unit) {

  override def apply(extensions: SparkSessionExtensions): Unit =
    if (release(Built.Spark) == release(SPARK_VERSION)) new BucketingRules().apply(extensions)
    else new BucketingNotLoaded().apply(extensions)

  /** Returns the first two numbers of a version. A patch release has the same classes. */
  private def release(version: String): String = version.replaceFirst("^(\\d+\\.\\d+).*$", "$1")
}

/** Leaves the session as it is, except for a function whose description and value are the reason. */
class BucketingNotLoaded extends AbstractFunction1[SparkSessionExtensions, Unit] {

  private val problem = "The session does not use the extension spark-bucketing, because its jar was built for another version of Spark."
  private val found = "spark-bucketing " + Built.Version + ", for Spark " + Built.Spark
  private val expected = "a jar for Spark " + SPARK_VERSION
  private val instead = "run `spark-bucketing extension build` for this Spark, replace the jar, and start Spark again"
  private val reason = problem + " Found: " + found + ". Expected: " + expected + ". Instead: " + instead + "."

  override def apply(extensions: SparkSessionExtensions): Unit = {
    LoggerFactory.getLogger("org.apache.spark.sql.bucketing.BucketingExtension").warn(reason)
    val name = "spark_bucketing_not_loaded"
    val usage = "_FUNC_() - " + problem + " (" + found + ")"
    val info = new ExpressionInfo(getClass.getName, null, name, usage, "", "", "", "misc_funcs", "0.1.0", "", "")
    val text = Literal(reason)
    extensions.injectFunction((new FunctionIdentifier(name), info, new AbstractFunction1[Any, Expression] {
      override def apply(arguments: Any): Expression = text
    }))
  }
}

/** Registers the functions, rules and strategies of the extension. */
class BucketingRules extends (SparkSessionExtensions => Unit) {

  override def apply(extensions: SparkSessionExtensions): Unit = {
    BucketingConf.register()
    HiveHashFunctions.register(extensions)
    BucketSpecsFunction.register(extensions)
    FileStatisticsFunction.register(extensions)
    extensions.injectParser((_, parser) => BucketDdlParser(parser))
    extensions.injectResolutionRule(_ => ResolveBucketDdl)
    SparkVersion.injectEarlyRule(extensions, AssumeTables(_))
    extensions.injectResolutionRule(AssumeTables(_))
    extensions.injectResolutionRule(_ => CaptureTables)
    extensions.injectResolutionRule(_ => OverwriteHints.RejectMisplaced)
    extensions.injectResolutionRule(_ => MergeChecks.RejectMisplaced)
    extensions.injectPlannerStrategy(PlanPartitionSpecs(_))
    extensions.injectPlannerStrategy(PlanFileStatistics(_))
    extensions.injectPlannerStrategy { session => PlanEvents.register(session); PlanExplainBuckets }
    SparkVersion.injectEarlyRule(extensions, RejectSchemaEvolution(_))
    extensions.injectPostHocResolutionRule(_ => ResolveRowChanges)
    extensions.injectPlannerStrategy(PlanRowChanges(_))
    extensions.injectPlannerStrategy(_ => PlanMovedFiles)
    extensions.injectPreCBORule(_ => KeepSeals)
    extensions.injectPreCBORule(BucketedWrites(_))
    extensions.injectPreCBORule(_ => RecordChanges)
    extensions.injectCheckRule(_ => OverwriteHints.RejectUnsupported)
    extensions.injectPlannerStrategy(_ => PlanWrites)
    extensions.injectQueryStagePrepRule(_ => EnsureBucketedRows)
    extensions.injectColumnar(_ => PreColumnarRule(EnsureBucketedRows))
    extensions.injectColumnar(_ => PreColumnarRule(BroadcastSource))
    extensions.injectPlannerStrategy(RefuseHiveReads(_))
    extensions.injectPlannerStrategy(BucketPlanningStrategy(_))
    extensions.injectQueryStagePrepRule(_ => FinalizeBucketScans)
    extensions.injectColumnar(_ => PreColumnarRule(FinalizeAndSplitBucketScans))
  }
}

/** Applies a rule before Spark inserts transitions between rows and columnar batches, with or without adaptive execution. */
case class PreColumnarRule(rule: Rule[SparkPlan]) extends ColumnarRule {
  override def preColumnarTransitions: Rule[SparkPlan] = rule
}
