package org.apache.spark.sql.bucketing
package hash

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode, FalseLiteral}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{DataType, IntegerType}
import org.apache.spark.unsafe.hash.Murmur3_x86_32

/**
 * How rows are assigned to partitions, other than by Spark's hash of their keys. Equal schemes assign equal keys to the same partitions.
 */
trait PartitionScheme extends Serializable {

  /** Returns an expression that computes the partition of a row, from 0 to n - 1. */
  def partitionId(keys: Seq[Expression], n: Int): Expression
}

/**
 * A number whose Spark hash assigns a row to the partition that a scheme determines. An exchange therefore is a true exchange by Spark's hash. Other engines
 * compute the same partitions, whether they ask a partitioning for its partition id or hash its expressions.
 */
case class PartitionSalt(keys: Seq[Expression], scheme: PartitionScheme, n: Int) extends Expression {

  @transient private lazy val partitionId = scheme.partitionId(keys, n)
  @transient private lazy val salts = PartitionSalt.salts(n)

  override def children: Seq[Expression] = keys
  override def nullable: Boolean = false
  override def dataType: DataType = IntegerType
  override def eval(row: InternalRow): Any = salts(partitionId.eval(row).asInstanceOf[Int])

  override protected def doGenCode(context: CodegenContext, of: ExprCode): ExprCode = {
    val (id, all) = (partitionId.genCode(context), context.addReferenceObj("salts", salts, "int[]"))
    of.copy(code = code"""
      ${id.code}
      final int ${of.value} = $all[${id.value}];""", isNull = FalseLiteral)
  }

  // EXPLAIN shows the keys, as for a partitioning by Spark's hash.
  override def toString: String = keys.mkString(", ")
  override protected def withNewChildrenInternal(changed: IndexedSeq[Expression]): Expression = copy(keys = changed)
}

object PartitionSalt {

  private val known = new ConcurrentHashMap[Int, Array[Int]]

  /** Returns for each of n partitions the smallest number whose Spark hash assigns it to the partition. */
  private def salts(n: Int): Array[Int] = known.computeIfAbsent(n, _ => {
    val found = Array.fill(n)(-1)
    Iterator.from(0).map(salt => salt -> Math.floorMod(Murmur3_x86_32.hashInt(salt, 42), n)).filter(of => found(of._2) < 0).take(n)
      .foreach { case (salt, partition) => found(partition) = salt }
    found
  })
}

/** A partitioning of rows by keys, with another function of the keys than Spark's hash. */
abstract class SaltedPartitioning(val keys: Seq[Expression], val scheme: PartitionScheme, n: Int)
    extends HashPartitioning(Seq(PartitionSalt(keys, scheme, n)), n) {

  protected def like(keys: Seq[Expression], n: Int): SaltedPartitioning

  def withKeys(keys: Seq[Expression]): SaltedPartitioning = like(keys, n)

  // Spark copies a partitioning when it renames attributes. The copy must keep the scheme.
  override def copy(expressions: Seq[Expression], numPartitions: Int): HashPartitioning =
    like(expressions.head.asInstanceOf[PartitionSalt].keys, numPartitions)
  override protected def withNewChildrenInternal(children: IndexedSeq[Expression]): HashPartitioning = copy(children, numPartitions)

  // Rows with equal keys are in the same partition, as if Spark had hashed the keys. Streaming state is always partitioned by Spark's hash.
  override def satisfies0(required: Distribution): Boolean = required match {
    case _: StatefulOpClusteredDistribution => false
    // Adaptive execution requires the salts themselves from the topmost exchange, and would otherwise shuffle all rows again.
    case _ => super.satisfies0(required) || HashPartitioning(keys, numPartitions).satisfies(required)
  }
}

/**
 * Assigns rows to partitions as Hive assigns them to buckets: `(hash(keys) & Int.MaxValue) % numPartitions`, as in
 * Hive's `ObjectInspectorUtils.getBucketNumber`. The hash depends on the bucketing version.
 */
class HiveHashPartitioning(by: Seq[Expression], n: Int, val hash: HiveBucketHash) extends SaltedPartitioning(by, HiveScheme(hash), n) {

  override def createShuffleSpec(distribution: ClusteredDistribution): ShuffleSpec =
    SchemeShuffleSpec(this, distribution)

  override protected def like(keys: Seq[Expression], n: Int): HiveHashPartitioning = new HiveHashPartitioning(keys, n, hash)

  override def productPrefix: String = s"${hash}HashPartitioning"
  override def prettyName: String = s"${hash.name}hashpartitioning"
}

private case class HiveScheme(hash: HiveBucketHash) extends PartitionScheme {
  override def partitionId(keys: Seq[Expression], n: Int): Expression = HiveHashPartitioning.bucketId(hash, keys, n)
}

object HiveHashPartitioning {

  /** Returns an expression that computes the bucket id of a row. */
  def bucketId(hash: HiveBucketHash, keys: Seq[Expression], buckets: Int): Expression =
    Pmod(BitwiseAnd(hash.of(keys), Literal(Int.MaxValue)), Literal(buckets))
}

/**
 * The counterpart of Spark's `HashShuffleSpec` for other functions of the keys. With it, Spark can shuffle the other side of a join in the same way.
 *
 * Join keys have the same type on both sides, so equal keys have equal hashes. If Spark casts a key, the key is no bucket
 * column anymore, because an INT and a BIGINT with equal values can have different hashes. Two sides are compatible if they have the same scheme
 * and their columns occur at the same positions among the join keys.
 */
case class SchemeShuffleSpec(partitioning: SaltedPartitioning, distribution: ClusteredDistribution)
    extends ShuffleSpec {

  private val stock = HashShuffleSpec(HashPartitioning(partitioning.keys, numPartitions), distribution)

  override def numPartitions: Int = partitioning.numPartitions

  /**
   * Allows Spark to shuffle the other side by a subset of the join keys, unless the user explicitly requires all join keys.
   * By default, Spark requires all join keys to avoid skew, but users choose bucket columns deliberately.
   */
  override def canCreatePartitioning: Boolean = {
    val wantsAllKeys = SQLConf.get.contains(SQLConf.REQUIRE_ALL_CLUSTER_KEYS_FOR_CO_PARTITION.key) &&
      SQLConf.get.getConf(SQLConf.REQUIRE_ALL_CLUSTER_KEYS_FOR_CO_PARTITION)
    stock.hashKeyPositions.forall(_.nonEmpty) &&
      (!wantsAllKeys || distribution.areAllClusterKeysMatched(partitioning.keys))
  }

  override def createPartitioning(clustering: Seq[Expression]): Partitioning =
    partitioning.withKeys(stock.hashKeyPositions.map(places => clustering(places.head)))

  override def isCompatibleWith(other: ShuffleSpec): Boolean = other match {
    case that: SchemeShuffleSpec => partitioning.scheme == that.partitioning.scheme && stock.isCompatibleWith(that.stock)
    case SinglePartitionShuffleSpec => numPartitions == 1
    case ShuffleSpecCollection(specs) => specs.exists(isCompatibleWith)
    case _ => false
  }
}
