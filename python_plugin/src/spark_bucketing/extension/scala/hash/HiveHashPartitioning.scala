package org.apache.spark.sql.bucketing
package hash

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.internal.SQLConf

/**
 * Rows spread as Hive spreads them over buckets: `(hiveHash(expressions) & Int.MaxValue) % numPartitions`.
 *
 * A subclass, because the shuffle and the planner match on `HashPartitioning` and take the id from
 * `partitionIdExpression`; the hash is the one of Hive's `ObjectInspectorUtils.getBucketNumber`.
 */
class HiveHashPartitioning(keys: Seq[Expression], n: Int) extends HashPartitioning(keys, n) {

  override def partitionIdExpression: Expression = HiveHashPartitioning.bucketId(expressions, numPartitions)

  override def createShuffleSpec(distribution: ClusteredDistribution): ShuffleSpec =
    HiveHashShuffleSpec(this, distribution)

  /** The state of a streaming query is laid out by Spark's own hash, for good. */
  override def satisfies0(required: Distribution): Boolean = required match {
    case _: StatefulOpClusteredDistribution => false
    case _ => super.satisfies0(required)
  }

  // Spark copies a partitioning to rename its attributes; the copy must not fall back to Spark's hash.
  override def copy(expressions: Seq[Expression], numPartitions: Int): HashPartitioning =
    new HiveHashPartitioning(expressions, numPartitions)

  override protected def withNewChildrenInternal(children: IndexedSeq[Expression]): HashPartitioning =
    new HiveHashPartitioning(children, numPartitions)

  override def productPrefix: String = "HiveHashPartitioning"
  override def prettyName: String = "hivehashpartitioning"

  override def canEqual(other: Any): Boolean = other.isInstanceOf[HiveHashPartitioning]
  override def equals(other: Any): Boolean = canEqual(other) && super.equals(other)
  override def hashCode: Int = 31 * super.hashCode + 1
}

object HiveHashPartitioning {

  /** Hive's bucket of a row (version 1) as an expression. */
  def bucketId(keys: Seq[Expression], buckets: Int): Expression =
    Pmod(BitwiseAnd(HiveHash(keys), Literal(Int.MaxValue)), Literal(buckets))
}

/**
 * What one side of a join offers the other: to be spread by Hive's hash as well.
 *
 * The counterpart of Spark's `HashShuffleSpec`. Equal values have the same type on both sides of a join, so their
 * hashes are equal; compatible are two sides when their bucket columns pair up in the join keys.
 */
case class HiveHashShuffleSpec(partitioning: HiveHashPartitioning, distribution: ClusteredDistribution)
    extends ShuffleSpec {

  /** For each bucket column, the places where it stands among the join keys. */
  private lazy val positions: Seq[Set[Int]] = partitioning.expressions.map { column =>
    distribution.clustering.indices.filter(distribution.clustering(_).semanticEquals(column)).toSet
  }

  override def numPartitions: Int = partitioning.numPartitions

  /**
   * The other side may be spread by a part of the join keys, unless the user asks for all of them in so many words:
   * Spark's default guards against skew in keys that nobody chose, and bucket columns were chosen.
   */
  override def canCreatePartitioning: Boolean = {
    val wantsAllKeys = SQLConf.get.contains(SQLConf.REQUIRE_ALL_CLUSTER_KEYS_FOR_CO_PARTITION.key) &&
      SQLConf.get.getConf(SQLConf.REQUIRE_ALL_CLUSTER_KEYS_FOR_CO_PARTITION)
    positions.forall(_.nonEmpty) &&
      (!wantsAllKeys || distribution.areAllClusterKeysMatched(partitioning.expressions))
  }

  override def createPartitioning(clustering: Seq[Expression]): Partitioning =
    new HiveHashPartitioning(positions.map(places => clustering(places.min)), numPartitions)

  override def isCompatibleWith(other: ShuffleSpec): Boolean = other match {
    case that: HiveHashShuffleSpec =>
      numPartitions == that.numPartitions &&
        distribution.clustering.length == that.distribution.clustering.length &&
        positions.length == that.positions.length &&
        positions.zip(that.positions).forall { case (here, there) => here.intersect(there).nonEmpty }
    case SinglePartitionShuffleSpec => numPartitions == 1
    case ShuffleSpecCollection(specs) => specs.exists(isCompatibleWith)
    case _ => false
  }
}
