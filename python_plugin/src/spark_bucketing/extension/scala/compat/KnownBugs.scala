package org.apache.spark.sql.bucketing
package compat

import org.apache.spark.SPARK_VERSION

/** Bugs in stock Spark that make queries over bucketed tables return incorrect rows. */
object KnownBugs {

  private val Affected = Set("4.1.0", "4.1.1", "4.1.2", "4.1.3", "4.2.0")

  /** SPARK-59141: Spark treats a UNION ALL of bucketed tables as grouped, so GROUP BY and DISTINCT over the union return duplicates. */
  def hasWrongUnions(version: String): Boolean = Affected.contains(version.split("[.-]").take(3).mkString("."))

  /** Why the extension does not use buckets in this Spark version, or None. Stock Spark still uses buckets in the Spark layout. */
  lazy val ofUnions: Option[String] = if (!hasWrongUnions(SPARK_VERSION)) None else Some(
    s"Spark $SPARK_VERSION returns duplicate groups over a UNION ALL of bucketed tables (SPARK-59141). Expected a version with the fix. Instead: " +
      "upgrade to a later patch release. Until then, set spark.sql.unionOutputPartitioning=false for tables in the Spark layout (USING parquet).")
}
