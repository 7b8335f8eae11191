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
  private val Json = """/\*\s*(\{"app": "dbt".*?\})\s*\*/"""
  private val Prepended = s"(?s)^\\s*$Json.*".r
  private val Appended = s"(?s).*$Json\\s*;?\\s*$$".r
  private val Description = "spark.job.description"

  /** Sets the description of this thread's jobs, unless they already have one. A statement inside a view has no comment. */
  def describe(sql: String): Unit = for (json <- find(sql); context <- SparkContext.getActive) {
    val before = context.getLocalProperty(Description)
    if (before == null || before.startsWith("{\"app\": \"dbt\"")) context.setJobDescription(json)
  }

  /** Returns the comment at the start of a statement, or at the end if the project sets `append: true`. */
  private def find(sql: String): Option[String] = sql match {
    case Prepended(json) => Some(json)
    case Appended(json) => Some(json)
    case _ => None
  }
}
