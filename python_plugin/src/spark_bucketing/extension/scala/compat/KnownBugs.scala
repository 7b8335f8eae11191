package org.apache.spark.sql.bucketing
package compat

import org.apache.spark.SPARK_VERSION

/** Bugs in stock Spark that return wrong rows for bucketed tables. */
object KnownBugs {

  private val Affected = Set("4.1.0", "4.1.1", "4.1.2", "4.1.3", "4.2.0")

  /** SPARK-59141: Spark treats a UNION ALL of bucketed tables as grouped, so GROUP BY and DISTINCT over it return groups twice. */
  def hasWrongUnions(version: String): Boolean = Affected.contains(version.split("[.-]").take(3).mkString("."))

  /** Returns why the extension reports no buckets in this Spark version, or None. Spark still uses buckets of the Spark layout. */
  lazy val ofUnions: Option[String] = if (!hasWrongUnions(SPARK_VERSION)) None else Some(
    s"Spark $SPARK_VERSION groups a UNION ALL of bucketed tables wrongly (SPARK-59141). Expected a version with the fix. Instead: " +
      "upgrade to a later patch release. Until then, set spark.sql.unionOutputPartitioning=false for tables of the Spark layout (USING parquet).")
}
