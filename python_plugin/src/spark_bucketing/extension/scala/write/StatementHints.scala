package org.apache.spark.sql.bucketing
package write

import java.util.Locale

import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.catalyst.expressions.{Expression, Literal}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnresolvedHint}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.unsafe.types.UTF8String

/**
 * A hint of a statement.
 *
 * @param name the name in upper case
 * @param values expressions or, for some values, names
 */
case class StatementHint(name: String, values: Seq[Any]) {

  /** The values, if all of them are string literals. */
  def texts: Option[Seq[String]] = {
    val found = values.collect { case Literal(text: UTF8String, _) => text.toString }
    Some(found).filter(_.size == values.size)
  }

  def shown: String =
    if (values.isEmpty) "no value" else values.map { case value: Expression => value.sql; case value => value.toString }.mkString(", ")
}

/** Hints of this extension, which determine how Spark runs a statement. Spark itself ignores unknown hints, and only logs a warning. */
class StatementHints(names: String*) {

  /** Whether a query has such hints outside of common table expressions and subqueries. */
  def areIn(query: LogicalPlan): Boolean = query.exists(isHint)

  /** Removes these hints from a query, and returns them. */
  def taken(query: LogicalPlan): (LogicalPlan, Seq[StatementHint]) = {
    val found = Seq.newBuilder[StatementHint]
    // From the bottom up, because the child of a hint can be another one.
    val rest = query.transformUp {
      case hint: UnresolvedHint if isHint(hint) =>
        found += StatementHint(hint.name.toUpperCase(Locale.ROOT), hint.parameters)
        hint.child
    }
    rest -> found.result()
  }

  def isHint(plan: LogicalPlan): Boolean = plan match {
    case UnresolvedHint(name, _, _) => names.exists(_.equalsIgnoreCase(name))
    case _ => false
  }
}

/** Rejects hints that are still in a query when Spark analyzes it. The other arguments are parts of the message. */
class RejectMisplacedHints(hints: StatementHints, found: String, expected: String, instead: String) extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan.foreach {
      case hint: UnresolvedHint if hints.isHint(hint) =>
        throw Compat.refusal(s"Cannot apply the hint `${hint.name.toUpperCase(Locale.ROOT)}`.", found, expected, instead)
      case _ =>
    }
    plan
  }
}
