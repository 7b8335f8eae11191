package org.apache.spark.sql.bucketing
package compat

import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.internal.SQLConf

/** Wrong rows of stock Spark that bucketed tables meet. */
object KnownBugs {

  private val UnionOutputPartitioning = "spark.sql.unionOutputPartitioning"

  /** A union that is taken for grouped, and is not: why tables cannot be read as bucketed in this session. */
  def ofUnions(conf: SQLConf): Option[String] =
    if (hasWrongUnions(SPARK_VERSION) && conf.getConfString(UnionOutputPartitioning, "true").toBoolean)
      Some(s"Spark $SPARK_VERSION groups a UNION ALL of bucketed tables wrongly (SPARK-59141). Take a later patch of it, or " +
        s"set $UnionOutputPartitioning=false.")
    else None

  /** SPARK-59141: GROUP BY and DISTINCT over a UNION ALL of bucketed tables give groups twice. */
  def hasWrongUnions(version: String): Boolean = Affected.contains(version.split("[.-]").take(3).mkString("."))

  private val Affected = Set("4.1.0", "4.1.1", "4.1.2", "4.1.3", "4.2.0")
}
