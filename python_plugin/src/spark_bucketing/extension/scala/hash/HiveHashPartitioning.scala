package org.apache.spark.sql.bucketing
package hash

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.internal.SQLConf

/**
 * A partitioning by another hash than Spark's. Extends `HashPartitioning`, because the shuffle and the planner match on that class.
 * Both compute the partition id with `partitionIdExpression`.
 *
 * @param kind what distinguishes the partitioning from others by the same expressions
 */
abstract class OtherHashPartitioning(by: Seq[Expression], n: Int, private val kind: Any) extends HashPartitioning(by, n) {

  // Spark copies a partitioning when it renames attributes. The copy must keep the other hash.
  override def copy(expressions: Seq[Expression], numPartitions: Int): HashPartitioning
  override protected def withNewChildrenInternal(children: IndexedSeq[Expression]): HashPartitioning = copy(children, numPartitions)

  override def canEqual(other: Any): Boolean = other match {
    case that: OtherHashPartitioning => that.kind == kind
    case _ => false
  }
  override def equals(other: Any): Boolean = canEqual(other) && super.equals(other)
  override def hashCode: Int = 31 * super.hashCode + kind.hashCode
}

/**
 * Assigns rows to partitions as Hive assigns them to buckets: `(hash(expressions) & Int.MaxValue) % numPartitions`, as in
 * Hive's `ObjectInspectorUtils.getBucketNumber`. The hash depends on the bucketing version.
 */
class HiveHashPartitioning(keys: Seq[Expression], n: Int, val hash: HiveBucketHash) extends OtherHashPartitioning(keys, n, hash) {

  override def partitionIdExpression: Expression = HiveHashPartitioning.bucketId(hash, expressions, numPartitions)

  override def createShuffleSpec(distribution: ClusteredDistribution): ShuffleSpec =
    HiveHashShuffleSpec(this, distribution)

  /** Rejects stateful operators, because streaming state is always partitioned by Spark's hash. */
  override def satisfies0(required: Distribution): Boolean = required match {
    case _: StatefulOpClusteredDistribution => false
    case _ => super.satisfies0(required)
  }

  override def copy(expressions: Seq[Expression], numPartitions: Int): HashPartitioning =
    new HiveHashPartitioning(expressions, numPartitions, hash)

  override def productPrefix: String = s"${hash}HashPartitioning"
  override def prettyName: String = s"${hash.name}hashpartitioning"
}

object HiveHashPartitioning {

  /** Returns an expression that computes the bucket id of a row. */
  def bucketId(hash: HiveBucketHash, keys: Seq[Expression], buckets: Int): Expression =
    Pmod(BitwiseAnd(hash.of(keys), Literal(Int.MaxValue)), Literal(buckets))
}

/**
 * The counterpart of Spark's `HashShuffleSpec` for Hive's hash. With it, Spark can shuffle the other side of a join by Hive's
 * hash.
 *
 * Join keys have the same type on both sides, so equal keys have equal hashes. If Spark casts a key, the key is no bucket
 * column anymore, because an INT and a BIGINT with equal values can have different hashes. Two sides are compatible if they have the same hash
 * and their bucket columns occur at the same positions among the join keys.
 */
case class HiveHashShuffleSpec(partitioning: HiveHashPartitioning, distribution: ClusteredDistribution)
    extends ShuffleSpec {

  private val stock = HashShuffleSpec(partitioning, distribution)

  override def numPartitions: Int = partitioning.numPartitions

  /**
   * Allows Spark to shuffle the other side by a subset of the join keys, unless the user explicitly requires all join keys.
   * By default, Spark requires all join keys to avoid skew, but users choose bucket columns deliberately.
   */
  override def canCreatePartitioning: Boolean = {
    val wantsAllKeys = SQLConf.get.contains(SQLConf.REQUIRE_ALL_CLUSTER_KEYS_FOR_CO_PARTITION.key) &&
      SQLConf.get.getConf(SQLConf.REQUIRE_ALL_CLUSTER_KEYS_FOR_CO_PARTITION)
    stock.hashKeyPositions.forall(_.nonEmpty) &&
      (!wantsAllKeys || distribution.areAllClusterKeysMatched(partitioning.expressions))
  }

  override def createPartitioning(clustering: Seq[Expression]): Partitioning =
    partitioning.copy(stock.hashKeyPositions.map(places => clustering(places.head)), numPartitions)

  override def isCompatibleWith(other: ShuffleSpec): Boolean = other match {
    case that: HiveHashShuffleSpec => partitioning.hash == that.partitioning.hash && stock.isCompatibleWith(that.stock)
    case SinglePartitionShuffleSpec => numPartitions == 1
    case ShuffleSpecCollection(specs) => specs.exists(isCompatibleWith)
    case _ => false
  }
}
