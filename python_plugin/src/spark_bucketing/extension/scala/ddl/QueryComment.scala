package org.apache.spark.sql.bucketing
package ddl

import org.apache.spark.SparkContext

/**
 * Sets the description of Spark's jobs to dbt's query comment, so that the Spark UI and the event logs name the model.
 *
 * A Thrift Server sets the description of a job to its statement, which contains the comment. dbt's session method sets no
 * description.
 */
object QueryComment {
  private val Comment = """(?s)^\s*/\*\s*(\{"app": "dbt".*?\})\s*\*/.*""".r
  private val Description = "spark.job.description"

  /** Sets the description of this thread's jobs, unless they already have one. A statement inside a view has no comment. */
  def describe(sql: String): Unit = sql match {
    case Comment(json) =>
      for (context <- SparkContext.getActive) {
        val before = context.getLocalProperty(Description)
        if (before == null || before.startsWith("{\"app\": \"dbt\"")) context.setJobDescription(json)
      }
    case _ =>
  }
}
