package org.apache.spark.sql.bucketing.support

import org.apache.spark.sql.api.java.UDF1

/** A function of users that runs in Java. */
class AddOne extends UDF1[java.lang.Long, java.lang.Long] {
  override def call(number: java.lang.Long): java.lang.Long = if (number == null) null else number + 1
}
