package org.apache.spark.sql.bucketing
package compat

import org.apache.spark.sql.bucketing.ddl.BucketParser
import org.apache.spark.sql.types.StructType

/** What only this Spark asks of a parser, which is Spark's own to answer. */
trait ForwardingParser extends BucketParser {

  override def parseRoutineParam(sql: String): StructType = spark.parseRoutineParam(sql)
}
