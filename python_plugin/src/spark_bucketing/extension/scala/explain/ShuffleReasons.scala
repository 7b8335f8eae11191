package org.apache.spark.sql.bucketing
package explain

import scala.collection.mutable

import org.json4s.JsonAST.JObject
import org.json4s.JsonDSL._

import org.apache.spark.sql.bucketing.read._
import org.apache.spark.sql.catalyst.catalog.BucketSpec
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.logical.{BROADCAST, Join}
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.execution._
import org.apache.spark.sql.execution.exchange._
import org.apache.spark.sql.execution.joins._
import org.apache.spark.sql.internal.SQLConf

/**
 * Explains why Spark added exchanges and sorts to a plan, and what adaptive execution may still change.
 *
 * @param lineage the lineage of an operator, by its id
 * @param id the id of an operator
 */
class ShuffleReasons(lineage: Int => Lineage, id: SparkPlan => Int, isAdaptive: => Boolean) {

  private val seen = mutable.Map.empty[SparkPlan, Int]

  def of(exchange: ShuffleExchangeLike, parent: Option[Place]): JObject = {
    val (code, words) = reason(exchange, parent)
    val first = seen.getOrElseUpdate(exchange.canonicalized, id(exchange))
    ("required_by" -> parent.map(of => id(of.plan))) ~ ("reason" -> (("code" -> code) ~ ("words" -> words))) ~
      ("same_as" -> Some(first).filter(_ != id(exchange))) ~ ("adaptive" -> changes(exchange, parent, isRepeated = first != id(exchange)))
  }

  private def reason(exchange: ShuffleExchangeLike, parent: Option[Place]): (String, String) = parent match {
    case _ if exchange.shuffleOrigin != ENSURE_REQUIREMENTS => parent.map(_.plan) match {
      case Some(write: RepartitionsByBucket) => ("write", s"${write.nodeName} writes each bucket with one task")
      case _ => ("requested", s"The query or a rule requests it (${exchange.shuffleOrigin})")
    }
    // An exchange of a subquery may only be visible below its reuse, which requires nothing.
    case Some(Place(operator, input)) if operator.requiredChildDistribution.isDefinedAt(input) =>
      val (name, required) = (operator.nodeName, operator.requiredChildDistribution(input))
      required match {
        case AllTuples => ("one-partition", s"$name requires all rows in one partition")
        case _: OrderedDistribution => ("global-order", s"$name requires all rows in one order")
        case clustered: ClusteredDistribution => unclustered(exchange, name, clustered)
        case other => ("other", s"$name requires ${Lineage.withoutIds(PlanNodes.text(other))}")
      }
    case _ => ("other", "Spark added it")
  }

  private def unclustered(exchange: ShuffleExchangeLike, name: String, required: ClusteredDistribution): (String, String) = {
    val below = lineage(id(exchange.child))
    val needs = s"$name requires rows with equal ${required.clustering.map(below.text).mkString(", ")} in one partition"
    val found = BucketRequirements.partitioning(exchange.child)
    val scans = exchange.child.collect { case scan: FileSourceScanExec => ShuffleReasons.specOf(scan).map(scan -> _) }.flatten
    val ordinary = scans.flatMap { case (scan, _) => ShuffleReasons.ordinary(scan).map(ShuffleReasons.named(scan) -> _) }.headOption
    if (found.satisfies(required))
      ("not-aligned", s"$needs. Its input is partitioned as ${Lineage.withoutIds(found.toString)}, but the partitioning of the other input differs")
    else ordinary.map { case (table, why) => ("ordinary-scan", s"$needs. The buckets of $table are not used: $why") }
      .orElse(scans.headOption.map { case (scan, spec) => otherKeys(needs, ShuffleReasons.named(scan), spec, required.clustering, below) })
      .getOrElse(found match {
        case _: UnknownPartitioning => ("not-bucketed", s"$needs. Its input is not bucketed")
        case other => ("other-keys", s"$needs. Its input is partitioned as ${Lineage.withoutIds(other.toString)}")
      })
  }

  /** Says how keys differ from the bucket columns of a table below. */
  private def otherKeys(needs: String, table: String, spec: BucketSpec, keys: Seq[Expression], below: Lineage): (String, String) = {
    val origins = keys.map(key => key -> below.of(key))
    def isOf(column: String)(source: Source) = source.table == table && source.column.name.equalsIgnoreCase(column)
    val missing = spec.bucketColumnNames.filterNot(column => origins.exists { case (_, of) => of.isPlain && of.sources.exists(isOf(column)) })
    val computed = missing.flatMap(column => origins.collectFirst { case (key, of) if of.sources.exists(isOf(column)) => column -> below.text(key) })
    val buckets = s"$needs. Table $table is bucketed by ${spec.bucketColumnNames.mkString(", ")}"
    if (computed.nonEmpty) ("other-keys", s"$buckets, but a key is ${computed.map(_._2).mkString(", ")}")
    else if (missing.nonEmpty) ("other-keys", s"$buckets, but the keys do not include ${missing.mkString(", ")}")
    else ("not-aligned", s"$buckets, but its buckets do not match those of the other input, or an operator between does not keep them")
  }

  def ofSort(sort: SortExec, parent: Option[Place]): JObject = {
    val name = parent.fold("the query")(_.plan.nodeName)
    val words = sort.child match {
      case _ if sort.global => "The query requires all rows in one order"
      case child => s"$name requires this order. ${unsorted(PlanNodes.inner(child))}"
    }
    ("required_by" -> parent.map(of => id(of.plan))) ~ ("reason" -> words)
  }

  private def unsorted(input: SparkPlan): String = BucketRequirements.scansOf(input) match {
    case _ if input.isInstanceOf[Exchange] => "A shuffle does not keep an order"
    case scans if scans.nonEmpty => scans.map { scan =>
      val sorts = scan.read.of.sorts
      val order = if (sorts.isEmpty) "has no sort columns" else if (scan.read.ordered) s"is sorted by ${sorts.mkString(", ")}"
        else "has several files per bucket, which are not merged"
      s"Table ${scan.read.of.table} $order"
    }.distinct.mkString(", ")
    case _ => "Its input is not sorted"
  }

  def ofBroadcast(exchange: BroadcastExchangeLike, parent: Option[Place]): JObject = {
    val isHinted = parent.map(_.plan).flatMap(_.logicalLink).exists {
      case join: Join => Seq(join.hint.leftHint, join.hint.rightHint).flatten.flatMap(_.strategy).contains(BROADCAST)
      case _ => false
    }
    val threshold = SQLConf.get.autoBroadcastJoinThreshold
    val size = PlanNodes.link(exchange).map(_.stats.sizeInBytes)
    val words = if (isHinted) "A hint requests it"
      else if (size.exists(_ <= threshold)) s"The size of its input is at most ${SQLConf.AUTO_BROADCASTJOIN_THRESHOLD.key}"
      else "No other join is possible, or its input is the smaller one"
    ("required_by" -> parent.map(of => id(of.plan))) ~ ("reason" -> words) ~ ("hint" -> isHinted) ~ ("threshold" -> threshold)
  }

  /** Returns what adaptive execution may change about a shuffle when the query runs. */
  private def changes(exchange: ShuffleExchangeLike, parent: Option[Place], isRepeated: Boolean): Seq[String] = if (!isAdaptive) Nil else {
    val conf = SQLConf.get
    val isFixed = exchange.shuffleOrigin == REPARTITION_BY_NUM || exchange.outputPartitioning == SinglePartition
    val threshold = conf.getConf(SQLConf.ADAPTIVE_AUTO_BROADCASTJOIN_THRESHOLD).getOrElse(conf.autoBroadcastJoinThreshold)
    val isSortMerge = parent.exists(_.plan.isInstanceOf[SortMergeJoinExec])
    val inJoin = isSortMerge || parent.exists(_.plan.isInstanceOf[ShuffledHashJoinExec])
    Seq(
      "coalesce-partitions" -> (conf.coalesceShufflePartitionsEnabled && !isFixed),
      "broadcast-join" -> (inJoin && threshold > 0),
      "skew-join" -> (isSortMerge && conf.getConf(SQLConf.SKEW_JOIN_ENABLED)),
      "reuse" -> (isRepeated && conf.exchangeReuseEnabled)).collect { case (change, true) => change }
  }
}

object ShuffleReasons {

  /** Returns whether the requirements of the operator above also apply to the input of an operator. */
  def passes(plan: SparkPlan): Boolean = plan match {
    case sort: SortExec => !sort.global
    case _ => plan.isInstanceOf[ColumnarToRowTransition]
  }

  /** Returns why a scan does not use the buckets of its table, unless only the operators above do not require them. */
  private def ordinary(scan: FileSourceScanExec): Option[String] = scan match {
    case fallback: FallbackScan => Some(fallback.why).filter(_ != FallbackReason.NotNeeded).map(_.toString)
    case _: BucketAwareScan => None
    // Spark may also have found that no operator requires the buckets.
    case stock if stock.bucketedScan || stock.relation.bucketSpec.isDefined && SQLConf.get.bucketingEnabled => None
    case _ => Some(if (BucketingConf.enabled) "this session reads the table without the session extension" else s"${BucketingConf.ENABLED.key} is false")
  }

  private def named(scan: FileSourceScanExec): String = TableFacts.text(scan.tableIdentifier.fold("")(_.unquotedString))

  private def specOf(scan: FileSourceScanExec): Option[BucketSpec] = TableFacts.metadata(scan).flatMap(_.bucketSpec)
}
