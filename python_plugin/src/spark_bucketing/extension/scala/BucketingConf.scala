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
    "Whether the extension does anything at all. When false, Spark plans every query and every write as if the " +
      "extension were not there; only its SQL functions stay.")
    .booleanConf.createWithDefault(true)

  val MERGE_FILES: ConfigEntry[Int] = conf("read.mergeFiles",
    "Up to how many sorted files of a bucket are merged while they are read, where that saves a sort. 0 never merges.")
    .intConf.checkValue(_ >= 0, "a number of files is not negative").createWithDefault(64)

  val PARTITION_BYTES: ConfigEntry[Long] = conf("read.partitionBytes",
    "Small buckets are read several as one, until a task has about so many bytes of files, as long as there is a task " +
      "for each core. 0 reads each bucket in a task of its own.")
    .bytesConf(ByteUnit.BYTE).createWithDefaultString("8m")

  val MAX_PARTITION_BYTES: ConfigEntry[Long] = conf("read.maxPartitionBytes",
    "Larger buckets of the Hive layout are not made use of where that leaves three quarters of the session's cores " +
      "idle: a shuffle is faster then. The more cores are idle, the smaller they may be: half of it with seven eighths.")
    .bytesConf(ByteUnit.BYTE).createWithDefaultString("1g")

  val ALIGNMENT: ConfigEntry[String] = conf("join.alignment",
    "How tables of N and k x N buckets are joined without moving rows: 'coalesce' reads k buckets as one (N tasks), " +
      "'split' reads the smaller number k times, each time for other rows (k x N tasks), 'auto' chooses, 'off' shuffles.")
    .stringConf.checkValues(Set("auto", "coalesce", "split", "off")).createWithDefault("auto")

  val UNION: ConfigEntry[Boolean] = conf("union.enabled",
    "Whether UNION ALL of inputs that are bucketed alike stays bucketed.")
    .booleanConf.createWithDefault(true)

  val SPARK_LAYOUT: ConfigEntry[Boolean] = conf("read.sparkLayout",
    "Whether tables of Spark's own layout are read with the abilities of this extension as well: no sort, one-to-many " +
      "joins, bucket unions. When false, stock Spark reads them.")
    .booleanConf.createWithDefault(true)

  val WRITE_DISTRIBUTE: ConfigEntry[Boolean] = conf("write.distribute",
    "Whether the rows of a write into a bucketed table are shuffled so that every bucket (of every partition) is " +
      "one file. When false, each task writes a file of its own for every bucket of which it has rows.")
    .booleanConf.createWithDefault(true)

  val MERGE_BYTES: ConfigEntry[Long] = conf("read.mergeBytes",
    "Up to how much memory the files of a bucket that are merged may take in a task, by an estimate: a row group, at " +
      "most 128 MiB, of each, and of it the columns that are read. Beyond that rows are sorted, which can spill to disk.")
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
