package org.apache.spark.sql.bucketing
package ddl

import org.apache.spark.SparkContext

/**
 * Makes dbt's query comment the description of Spark's jobs, so that the Spark UI and event logs name the model.
 *
 * A Thrift Server describes jobs by their statement, which contains the comment. dbt's session method sets no
 * description.
 */
object QueryComment {
  private val Comment = """(?s)^\s*/\*\s*(\{"app": "dbt".*?\})\s*\*/.*""".r
  private val Description = "spark.job.description"

  /** Describes the jobs of this thread, unless something else did. Statements inside of views have no comment. */
  def describe(sql: String): Unit = sql match {
    case Comment(json) =>
      for (context <- SparkContext.getActive) {
        val before = context.getLocalProperty(Description)
        if (before == null || before.startsWith("{\"app\": \"dbt\"")) context.setJobDescription(json)
      }
    case _ =>
  }
}
