package org.apache.spark.sql.bucketing

import org.apache.spark.internal.config.ConfigEntry
import org.apache.spark.sql.internal.SQLConf

/** The settings of the extension. They are read for each query, so that SET works in a running session. */
object BucketingConf {

  /** Makes the settings known to SET before the first query; loading this object is what does it. */
  def register(): Unit = ()

  val ENABLED: ConfigEntry[Boolean] = SQLConf
    .buildConf("spark.bucketing.enabled")
    .doc("Whether the extension does anything at all. When false, Spark plans every query and every write as if the " +
      "extension were not there; only its SQL functions stay.")
    .version("0.2.0")
    .booleanConf
    .createWithDefault(true)

  val READ_CHECK: ConfigEntry[Boolean] = SQLConf
    .buildConf("spark.bucketing.read.check")
    .doc("Whether every row that is read as bucketed is checked: that it is in its bucket, and in order where an order " +
      "is relied on. A row that is not fails the query instead of giving a wrong result.")
    .version("0.2.0")
    .booleanConf
    .createWithDefault(true)

  val PROBE_FILES: ConfigEntry[Int] = SQLConf
    .buildConf("spark.bucketing.probe.files")
    .doc("How many files of a scan the planner looks into before it trusts the buckets. What it saw is remembered.")
    .version("0.2.0")
    .intConf
    .checkValue(_ >= 0, "a number of files is not negative")
    .createWithDefault(16)

  val PROBE_ROWS: ConfigEntry[Int] = SQLConf
    .buildConf("spark.bucketing.probe.rows")
    .doc("How many rows the planner reads at the start of such a file.")
    .version("0.2.0")
    .intConf
    .checkValue(_ > 0, "a number of rows is positive")
    .createWithDefault(50)

  def enabled: Boolean = SQLConf.get.getConf(ENABLED)
  def checksReads: Boolean = SQLConf.get.getConf(READ_CHECK)
  def probeFiles: Int = SQLConf.get.getConf(PROBE_FILES)
  def probeRows: Int = SQLConf.get.getConf(PROBE_ROWS)
}
