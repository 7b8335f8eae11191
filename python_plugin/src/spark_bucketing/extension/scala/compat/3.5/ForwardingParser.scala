package org.apache.spark.sql.bucketing
package compat

/** Forwards the version-specific methods of a parser to Spark's parser. Spark 3.5 has no such methods. */
trait ForwardingParser extends BucketParser
