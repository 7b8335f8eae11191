package org.apache.spark.sql.bucketing
package compat

import org.apache.spark.SPARK_VERSION

/** Wrong rows of stock Spark that bucketed tables meet. */
object KnownBugs {

  private val Affected = Set("4.1.0", "4.1.1", "4.1.2", "4.1.3", "4.2.0")

  /** SPARK-59141: a UNION ALL of bucketed tables is taken for grouped, and GROUP BY and DISTINCT over it give groups twice. */
  def hasWrongUnions(version: String): Boolean = Affected.contains(version.split("[.-]").take(3).mkString("."))

  /** Nothing of this extension claims buckets on such a Spark. Its own bucketed tables are read by Spark. */
  lazy val ofUnions: Option[String] = if (!hasWrongUnions(SPARK_VERSION)) None else Some(
    s"Spark $SPARK_VERSION groups a UNION ALL of bucketed tables wrongly (SPARK-59141). Take a later patch of it. Spark's own " +
      "bucketed tables (USING parquet) it reads wrongly all the same, unless spark.sql.unionOutputPartitioning=false.")
}
