package org.apache.spark.sql.bucketing
package compat

import org.apache.spark.sql.bucketing.ddl.BucketParser

/** What only this Spark asks of a parser, which is Spark's own to answer: nothing. */
trait ForwardingParser extends BucketParser
