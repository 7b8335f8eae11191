package org.apache.spark.sql.bucketing

import java.util.concurrent.TimeUnit

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
    "When false, Spark plans every query and every write as if the extension were not loaded. The extension's SQL " +
      "functions and statements stay available.")
    .booleanConf.createWithDefault(true)

  val MERGE_FILES: ConfigEntry[Int] = conf("read.mergeFiles",
    "Maximum number of sorted files of a bucket that a task merges to avoid a sort. If a bucket has more files, Spark " +
      "sorts its rows. 0 disables merging.")
    .intConf.checkValue(_ >= 0, "The number of files must not be negative.").createWithDefault(64)

  val PARTITION_BYTES: ConfigEntry[Long] = conf("read.partitionBytes",
    "Target size of the data in a task that reads several small buckets. There is at least one task per core. With 0, " +
      "each bucket has its own task.")
    .bytesConf(ByteUnit.BYTE).createWithDefaultString("8m")

  val MAX_BUCKET_BYTES: ConfigEntry[Long] = conf("read.maxBucketBytes",
    "Maximum size of a bucket in the Hive layout if more than three quarters of the cores would be idle. If a bucket is " +
      "larger and cannot be divided into ranges, Spark uses an ordinary scan for the table, because a shuffle is faster. The limit is lower if more cores " +
      "are idle, for example half as large if seven eighths of the cores are idle.")
    .bytesConf(ByteUnit.BYTE).createWithDefaultString("1g")

  val RANGE_BYTES: ConfigEntry[Long] = conf("read.rangeBytes",
    "Minimum size of a range of a sorted bucket. If there are fewer buckets than cores, or if a bucket is larger than " +
      "`read.maxBucketBytes`, several tasks read each bucket, and each of them reads a range of the first sort column. Joins " +
      "also divide the rows of a frequent key. With 0, one task reads each bucket.")
    .bytesConf(ByteUnit.BYTE).createWithDefaultString("32m")

  val ALIGNMENT: ConfigEntry[String] = conf("join.alignment",
    "How to join a table with N buckets and a table with k x N buckets. 'coalesce' uses N tasks, which each read k " +
      "buckets of the second table. 'split' uses k x N tasks: k tasks read each bucket of the first table, and keep " +
      "different rows. 'off' shuffles one table. 'auto' chooses one of these methods.")
    .stringConf.checkValues(Set("auto", "coalesce", "split", "off")).createWithDefault("auto")

  val UNION: ConfigEntry[Boolean] = conf("union.enabled",
    "When true, the result of a UNION ALL is bucketed if all its inputs have the same bucket spec.")
    .booleanConf.createWithDefault(true)

  val SPARK_LAYOUT: ConfigEntry[Boolean] = conf("read.sparkLayout",
    "When true, the extension reads sealed tables in the Spark layout. This avoids sorts. It also avoids shuffles above " +
      "unions, and in joins of tables with N and k x N buckets. When false, these tables are read as in stock Spark.")
    .booleanConf.createWithDefault(true)

  val WRITE_DISTRIBUTE: ConfigEntry[Boolean] = conf("write.distribute",
    "When true, a write into a bucketed table shuffles the rows, so that every bucket in every partition is one " +
      "file. A write into a table with file statistics creates files of the configured size or number. When false, " +
      "each task writes its own file for every bucket or partition for which it has rows.")
    .booleanConf.createWithDefault(true)

  val ATOMIC: ConfigEntry[Boolean] = conf("write.atomic",
    "When true, an INSERT into a bucketed table or a table with file statistics adds all its files atomically, and removes the files that it overwrites. A scan " +
      "with the extension sees all or none of its rows, and the files are sealed. When false, Spark deletes and writes one partition after another, as it does for other tables, and writes neither seals nor file statistics.")
    .booleanConf.createWithDefault(true)

  val APP: ConfigEntry[Option[String]] = conf("write.txnAppId",
    "Id of the application that writes, such as the id of a streaming query. If a bucketed table or a table with file statistics already has this application's " +
      "`write.txnVersion`, a statement that writes into the table does nothing. A job can therefore repeat a statement after a crash.")
    .stringConf.createOptional

  val APP_VERSION: ConfigEntry[Option[Long]] = conf("write.txnVersion",
    "Version of the application's writes, such as the number of a batch. The versions of an application must increase, and with one version, only one statement can write " +
      "into each table.")
    .longConf.createOptional

  val RECOVER_AFTER: ConfigEntry[Long] = conf("write.recoverAfter",
    "Time without a heartbeat after which a statement that replaces files counts as crashed. Other statements wait for " +
      "this time, and then undo or complete the replacement. A running statement writes a heartbeat every second, however long it takes.")
    .timeConf(TimeUnit.MILLISECONDS).createWithDefaultString("60s")

  val RETAIN: ConfigEntry[Long] = conf("write.retainOldFiles",
    "How long replaced files stay in a hidden directory of the table, where queries with the extension that were planned before the replacement find them. " +
      "The next statement that replaces files deletes files that have been there for longer. With 0, a statement deletes them immediately, as it always does on object stores, " +
      "where moving a file copies it.")
    .timeConf(TimeUnit.MILLISECONDS).checkValue(_ >= 0, "The time must not be negative.").createWithDefaultString("1h")

  val DRIVER_BYTES: ConfigEntry[Long] = conf("write.driverBytes",
    "If the source rows of a MERGE and the rows that they match are not larger than this, Spark collects them on the driver, and the MERGE needs " +
      "about half as many jobs. With 0, Spark collects no rows. Rows that a query lists in VALUES are always on the driver.")
    .bytesConf(ByteUnit.BYTE).checkValue(_ >= 0, "The size must not be negative.").createWithDefaultString("4m")

  val MERGE_BYTES: ConfigEntry[Long] = conf("read.mergeBytes",
    "Maximum estimated memory for the files that one task merges. The estimate counts one row group of at most 128 MiB " +
      "per file, and only the columns that the query reads. Above the limit, Spark sorts the rows, which can spill to " +
      "disk.")
    .bytesConf(ByteUnit.BYTE).createWithDefaultString("256m")

  def txnAppId: Option[String] = SQLConf.get.getConf(APP)
  def txnVersion: Option[Long] = SQLConf.get.getConf(APP_VERSION)
  def enabled: Boolean = SQLConf.get.getConf(ENABLED)
  def mergeBytes: Long = SQLConf.get.getConf(MERGE_BYTES)
  def partitionBytes: Long = SQLConf.get.getConf(PARTITION_BYTES)
  def maxBucketBytes: Long = SQLConf.get.getConf(MAX_BUCKET_BYTES)
  def driverBytes: Long = SQLConf.get.getConf(DRIVER_BYTES)
  def rangeBytes: Long = SQLConf.get.getConf(RANGE_BYTES)
  def mergeFiles: Int = SQLConf.get.getConf(MERGE_FILES)
  def alignment: String = SQLConf.get.getConf(ALIGNMENT)
  def unitesBuckets: Boolean = SQLConf.get.getConf(UNION)
  def readsSparkLayout: Boolean = SQLConf.get.getConf(SPARK_LAYOUT)
  def recoverAfterMillis: Long = SQLConf.get.getConf(RECOVER_AFTER)
  def retainOldFilesMillis: Long = SQLConf.get.getConf(RETAIN)
  def writesAtomically: Boolean = SQLConf.get.getConf(ATOMIC)
  def distributesWrites: Boolean = SQLConf.get.getConf(WRITE_DISTRIBUTE)
}
