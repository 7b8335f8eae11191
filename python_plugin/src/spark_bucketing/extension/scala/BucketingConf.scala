package org.apache.spark.sql.bucketing

import org.apache.spark.internal.config.{ConfigBuilder, ConfigEntry}
import org.apache.spark.network.util.ByteUnit
import org.apache.spark.sql.internal.SQLConf

/** The settings of the extension. Every query reads the current values, so SET works in a running session. */
object BucketingConf {

  /** Registers the settings before the first query. Loading this object is sufficient. */
  def register(): Unit = ()

  private def conf(name: String, doc: String): ConfigBuilder =
    SQLConf.buildConf(s"spark.bucketing.$name").doc(doc).version("0.1.0")

  val ENABLED: ConfigEntry[Boolean] = conf("enabled",
    "When false, Spark plans every query and every write as if the extension were not loaded. Its SQL functions " +
      "and statements stay available.")
    .booleanConf.createWithDefault(true)

  val MERGE_FILES: ConfigEntry[Int] = conf("read.mergeFiles",
    "Maximum number of sorted files of a bucket that a task merges to avoid a sort. 0 disables merging.")
    .intConf.checkValue(_ >= 0, "The number of files must not be negative.").createWithDefault(64)

  val PARTITION_BYTES: ConfigEntry[Long] = conf("read.partitionBytes",
    "Target size of a task that reads several small buckets. There is at least one task per core. 0 reads each bucket " +
      "in its own task.")
    .bytesConf(ByteUnit.BYTE).createWithDefaultString("8m")

  val MAX_PARTITION_BYTES: ConfigEntry[Long] = conf("read.maxPartitionBytes",
    "Maximum size of a bucket in the Hive layout if more than three quarters of the cores would be idle. With a larger " +
      "bucket, the table gets an ordinary scan, because a shuffle is faster. The limit shrinks as more cores are idle: " +
      "it is half as large if seven eighths are idle.")
    .bytesConf(ByteUnit.BYTE).createWithDefaultString("1g")

  val ALIGNMENT: ConfigEntry[String] = conf("join.alignment",
    "How to join tables with N and k x N buckets. 'coalesce' reads k buckets in one task (N tasks). 'split' reads each " +
      "of the N buckets in k tasks, which keep different rows (k x N tasks). 'off' shuffles the rows. 'auto' chooses one of the three.")
    .stringConf.checkValues(Set("auto", "coalesce", "split", "off")).createWithDefault("auto")

  val UNION: ConfigEntry[Boolean] = conf("union.enabled",
    "When true, UNION ALL of inputs with the same buckets stays bucketed.")
    .booleanConf.createWithDefault(true)

  val SPARK_LAYOUT: ConfigEntry[Boolean] = conf("read.sparkLayout",
    "When true, the extension reads sealed tables in the Spark layout. This avoids sorts. It also avoids shuffles in " +
      "one-to-many joins and above unions. When false, stock Spark reads them.")
    .booleanConf.createWithDefault(true)

  val WRITE_DISTRIBUTE: ConfigEntry[Boolean] = conf("write.distribute",
    "When true, a write into a bucketed table shuffles the rows, so that every bucket (of every partition) is one " +
      "file. When false, each task writes one file for each bucket of its rows.")
    .booleanConf.createWithDefault(true)

  val MERGE_BYTES: ConfigEntry[Long] = conf("read.mergeBytes",
    "Maximum estimated memory for the files that one task merges. The estimate counts one row group of at most 128 MiB " +
      "per file, and only the columns that the query reads. Above the limit, Spark sorts the rows, which can spill to " +
      "disk.")
    .bytesConf(ByteUnit.BYTE).createWithDefaultString("256m")

  def enabled: Boolean = SQLConf.get.getConf(ENABLED)
  def mergeBytes: Long = SQLConf.get.getConf(MERGE_BYTES)
  def partitionBytes: Long = SQLConf.get.getConf(PARTITION_BYTES)
  def maxPartitionBytes: Long = SQLConf.get.getConf(MAX_PARTITION_BYTES)
  def mergeFiles: Int = SQLConf.get.getConf(MERGE_FILES)
  def alignment: String = SQLConf.get.getConf(ALIGNMENT)
  def unitesBuckets: Boolean = SQLConf.get.getConf(UNION)
  def readsSparkLayout: Boolean = SQLConf.get.getConf(SPARK_LAYOUT)
  def distributesWrites: Boolean = SQLConf.get.getConf(WRITE_DISTRIBUTE)
}
