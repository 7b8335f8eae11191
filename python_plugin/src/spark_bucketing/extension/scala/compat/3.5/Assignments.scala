package org.apache.spark.sql.bucketing
package compat

import org.apache.spark.sql.catalyst.analysis.AssignmentUtils
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.Assignment

/** Completes assignments to one value per column of the target, with Spark's store assignment and column defaults. */
object Assignments {

  def ofUpdate(columns: Seq[Attribute], assignments: Seq[Assignment]): Seq[Assignment] =
    AssignmentUtils.alignUpdateAssignments(columns, assignments)

  def ofInsert(columns: Seq[Attribute], assignments: Seq[Assignment]): Seq[Assignment] =
    AssignmentUtils.alignInsertAssignments(columns, assignments)
}
