package org.apache.spark.sql.bucketing.support

import scala.util.Try

import org.apache.spark.ShuffleDependency
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.plans.physical.{HashPartitioning, Partitioning}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{SparkPlan, UnsafeRowSerializer}
import org.apache.spark.sql.execution.exchange.{ShuffleExchangeExec, ShuffleOrigin}
import org.apache.spark.sql.internal.SessionState

/**
 * An exchange of another engine. Like Comet's native shuffle, it hashes the expressions of any HashPartitioning itself. In the mode `scatter`, it moves rows
 * to wrong partitions.
 */
class NativeExchange(claimed: Partitioning, child: SparkPlan, origin: ShuffleOrigin, size: Option[Long])
    extends ShuffleExchangeExec(claimed, child, origin, size) {

  private def native: Partitioning = claimed match {
    case HashPartitioning(_, n) if NativeShuffles.mode == "scatter" => HashPartitioning(child.output, n)
    case HashPartitioning(expressions, n) => HashPartitioning(expressions, n)
    case other => other
  }

  @transient override lazy val shuffleDependency: ShuffleDependency[Int, InternalRow, InternalRow] = ShuffleExchangeExec.prepareShuffleDependency(
    inputRDD, child.output, native, new UnsafeRowSerializer(child.output.size, longMetric("dataSize")), metrics)

  override def nodeName: String = "NativeExchange"
  // Spark versions differ in the number of arguments.
  override def makeCopy(arguments: Array[AnyRef]): SparkPlan = new NativeExchange(
    arguments(0).asInstanceOf[Partitioning], arguments(1).asInstanceOf[SparkPlan], origin, size)
  override protected def withNewChildInternal(changed: SparkPlan): NativeExchange = new NativeExchange(claimed, changed, origin, size)
}

/** Replaces Spark's exchanges in adaptive plans, after the rules of the session extension. */
object NativeShuffles extends Rule[SparkPlan] {

  @volatile var mode = ""

  override def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
    case exchange: ShuffleExchangeExec if mode.nonEmpty && exchange.getClass == classOf[ShuffleExchangeExec] =>
      // Spark keeps a node instead of an equal one, so the new node must differ.
      val native = new NativeExchange(exchange.outputPartitioning, exchange.child, exchange.shuffleOrigin, Some(64L << 20))
      native.copyTagsFrom(exchange)
      native
  }

  /** Adds the rule to a running session once, and sets its mode; the empty mode disables it. */
  def use(state: SessionState, newMode: String): Unit = {
    val holder = Try(state.getClass.getMethod("adaptiveRulesHolder").invoke(state)).getOrElse(state)
    val field = holder.getClass.getDeclaredField("queryStagePrepRules")
    field.setAccessible(true)
    val rules = field.get(holder).asInstanceOf[Seq[Rule[SparkPlan]]]
    if (!rules.contains(this)) field.set(holder, rules :+ this)
    mode = newMode
  }
}
