package org.apache.spark.sql.bucketing

import org.apache.spark.internal.config.{ConfigBuilder, ConfigEntry}
import org.apache.spark.network.util.ByteUnit
import org.apache.spark.sql.internal.SQLConf

/** The settings of the extension. They are read for each query, so that SET works in a running session. */
object BucketingConf {

  /** Makes the settings known to SET before the first query; loading this object is what does it. */
  def register(): Unit = ()

  private def conf(name: String, doc: String): ConfigBuilder =
    SQLConf.buildConf(s"spark.bucketing.$name").doc(doc).version("0.1.0")

  val ENABLED: ConfigEntry[Boolean] = conf("enabled",
    "When false, Spark plans every query and every write as if the extension were not loaded. Its SQL functions " +
      "and statements stay available.")
    .booleanConf.createWithDefault(true)

  val MERGE_FILES: ConfigEntry[Int] = conf("read.mergeFiles",
    "Largest number of sorted files of a bucket that are merged while they are read, to avoid a sort. 0 never merges.")
    .intConf.checkValue(_ >= 0, "a number of files is not negative").createWithDefault(64)

  val PARTITION_BYTES: ConfigEntry[Long] = conf("read.partitionBytes",
    "Target size of a task that reads several small buckets as one. Each core keeps at least one task. 0 reads each " +
      "bucket in its own task.")
    .bytesConf(ByteUnit.BYTE).createWithDefaultString("8m")

  val MAX_PARTITION_BYTES: ConfigEntry[Long] = conf("read.maxPartitionBytes",
    "Larger buckets of the Hive layout are not used if they would leave three quarters of the cores idle, because a " +
      "shuffle is faster. The limit shrinks as more cores are idle: half of it at seven eighths.")
    .bytesConf(ByteUnit.BYTE).createWithDefaultString("1g")

  val ALIGNMENT: ConfigEntry[String] = conf("join.alignment",
    "How tables with N and k x N buckets are joined without a shuffle: 'coalesce' reads k buckets as one (N tasks), " +
      "'split' reads each of the N buckets k times, for different rows (k x N tasks), 'auto' chooses, 'off' shuffles.")
    .stringConf.checkValues(Set("auto", "coalesce", "split", "off")).createWithDefault("auto")

  val UNION: ConfigEntry[Boolean] = conf("union.enabled",
    "Whether UNION ALL of inputs with the same buckets stays bucketed.")
    .booleanConf.createWithDefault(true)

  val SPARK_LAYOUT: ConfigEntry[Boolean] = conf("read.sparkLayout",
    "Whether the extension reads sealed tables of the Spark layout: without sort, in one-to-many joins and in " +
      "unions. When false, stock Spark reads them.")
    .booleanConf.createWithDefault(true)

  val WRITE_DISTRIBUTE: ConfigEntry[Boolean] = conf("write.distribute",
    "Whether a write into a bucketed table shuffles its rows, so that every bucket (of every partition) is one file. " +
      "When false, each task writes a file for every bucket of its rows.")
    .booleanConf.createWithDefault(true)

  val MERGE_BYTES: ConfigEntry[Long] = conf("read.mergeBytes",
    "Largest estimated memory of the files that one task merges: of each file a row group of at most 128 MiB, in the " +
      "columns that are read. Beyond it rows are sorted, which can spill to disk.")
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
