package org.apache.spark.sql.bucketing

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.bucketing.ddl._
import org.apache.spark.sql.bucketing.hash._
import org.apache.spark.sql.bucketing.read._
import org.apache.spark.sql.bucketing.records._
import org.apache.spark.sql.bucketing.write._

/** What `spark.sql.extensions` names: it registers the parts and does nothing else. */
class BucketingExtension extends (SparkSessionExtensions => Unit) {

  override def apply(extensions: SparkSessionExtensions): Unit = {
    BucketingConf.register()
    HiveHashFunctions.register(extensions)
    BucketSpecsFunction.register(extensions)
    extensions.injectParser((_, parser) => BucketDdlParser(parser))
    extensions.injectResolutionRule(_ => ResolveBucketDdl)
    extensions.injectResolutionRule(_ => NoteTables)
    extensions.injectPlannerStrategy(PlanPartitionSpecs(_))
    extensions.injectPreCBORule(BucketedWrites(_))
    extensions.injectPlannerStrategy(PlanBucketedRows(_))
    extensions.injectQueryStagePrepRule(_ => EnsureBucketedRows)
    extensions.injectColumnar(_ => EnsureBucketedRowsColumnar)
    extensions.injectPlannerStrategy(PlanWithBuckets(_))
    extensions.injectQueryStagePrepRule(FinishBuckets(_))
    extensions.injectColumnar(FinishBucketsColumnar(_))
  }
}
