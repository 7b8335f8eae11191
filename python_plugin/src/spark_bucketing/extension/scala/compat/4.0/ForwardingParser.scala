package org.apache.spark.sql.bucketing
package compat

import org.apache.spark.sql.types.StructType

/** Forwards the version-specific methods of a parser to Spark's parser. */
trait ForwardingParser extends BucketParser {

  override def parseRoutineParam(sql: String): StructType = spark.parseRoutineParam(sql)
}
