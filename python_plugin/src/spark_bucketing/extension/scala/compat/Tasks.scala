package org.apache.spark.sql.bucketing
package compat

import org.apache.spark.TaskContext
import org.apache.spark.rdd.RDD
import org.apache.spark.util.Utils

/** Runs jobs whose tasks return bytes. With Kryo and required registration, users would otherwise have to register the classes of all results. */
object Tasks {

  /** Returns the result of each partition, in the order of the partitions. */
  def run[A, B](rdd: RDD[A])(result: (TaskContext, Iterator[A]) => B): Seq[B] =
    rdd.sparkContext.runJob(rdd, (task: TaskContext, rows: Iterator[A]) => Utils.serialize(result(task, rows))).toSeq
      .map(bytes => Utils.deserialize[B](bytes, Utils.getContextOrSparkClassLoader))
}
