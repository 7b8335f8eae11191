package org.apache.spark.sql.bucketing
package hash

import org.apache.spark.sql.catalyst.expressions.{Expression, HiveHash}
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.types._

/** The hash function that assigns rows to buckets in a bucket layout. */
sealed trait BucketHash extends Serializable {

  /** The value of the config key `bucket_hash` and of the seal's key `bucketing.hash`. */
  def name: String

  def partitioning(keys: Seq[Expression], n: Int): HashPartitioning

  /** Returns an expression that computes the bucket of a row, from 0 to n - 1. */
  def bucketId(keys: Seq[Expression], n: Int): Expression

  /** Whether stock Spark writes buckets with this hash. */
  def isWrittenByStockSpark: Boolean = true

  /** This hash if it is a hash of the Hive layout, otherwise None. */
  def asHiveHash: Option[HiveBucketHash] = None
  def inHiveLayout: Boolean = asHiveHash.isDefined

  override def toString: String = name.capitalize
}

/**
 * A hash function that the Hive layout uses.
 *
 * @param bucketingVersion the value of Hive's table property `bucketing_version`
 */
sealed abstract class HiveBucketHash(override val name: String, val bucketingVersion: String) extends BucketHash {

  /** Returns an expression that computes the hash of a row as an int. */
  def of(keys: Seq[Expression]): Expression

  /** Returns whether `of` equals Hive's hash for values of this type. */
  def supports(dataType: DataType): Boolean = dataType == NullType || BucketHash.spreads(dataType)

  /** The names of the types for which `supports` is true, for messages. */
  def types: String = "BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, DECIMAL, STRING or DATE"

  override def asHiveHash: Option[HiveBucketHash] = Some(this)
  override def partitioning(keys: Seq[Expression], n: Int): HashPartitioning = new HiveHashPartitioning(keys, n, this)
  override def bucketId(keys: Seq[Expression], n: Int): Expression = HiveHashPartitioning.bucketId(this, keys, n)
}

object BucketHash {

  /** The table property in which Hive 3 and later, Trino and Athena state the hash of a bucketed table. */
  val VersionProperty = "bucketing_version"

  val HiveHashes: Seq[HiveBucketHash] = Seq(Hive, Hive2)
  val All: Seq[BucketHash] = HiveHashes :+ Spark

  def named(name: String): Option[BucketHash] = All.find(_.name == name)

  /** The supported values of this property, for messages. */
  def versions: String = HiveHashes.map(hash => s"'${hash.bucketingVersion}'").mkString(" or ")

  /**
   * Returns the hash that the properties of a Hive table state. A table without the property has version 1. None for other values,
   * which Trino refuses, and most of which Hive takes for version 1.
   */
  def stated(properties: collection.Map[String, String]): Option[HiveBucketHash] =
    properties.get(VersionProperty).fold[Option[HiveBucketHash]](Some(Hive))(text => HiveHashes.find(_.bucketingVersion == text))

  /**
   * Returns whether all engines assign equal keys of this type to the same bucket. Catalyst's HiveHash differs from Hive
   * for CHAR, VARCHAR, binary and timestamps. Equal floating-point numbers or collated strings can have different
   * bytes, and therefore different hashes.
   */
  def spreads(dataType: DataType): Boolean = dataType match {
    case BooleanType | ByteType | ShortType | IntegerType | LongType | DateType | _: DecimalType => true
    case string: StringType => string == StringType
    case _ => false
  }

  /**
   * Returns whether all engines assign equal values of a column to the same bucket. The planner sees CHAR and VARCHAR as
   * strings, so this method reads the declared type from the column's metadata.
   */
  def spreads(field: StructField): Boolean = spreads(rawType(field.dataType, field.metadata))

  def rawType(dataType: DataType, metadata: Metadata): DataType = CharVarcharUtils.getRawType(metadata).getOrElse(dataType)

  /** Hive's hash in bucketing version 1. Stock Spark writes it, and Hive 2 reads it. */
  case object Hive extends HiveBucketHash("hive", "1") {
    override def of(keys: Seq[Expression]): Expression = HiveHash(keys)
    override def supports(dataType: DataType): Boolean =
      dataType == FloatType || dataType == DoubleType || super.supports(dataType)
    override def types: String = "BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL, STRING or DATE"
  }

  /** Hive's hash in bucketing version 2, the default of Hive 3 and later. */
  case object Hive2 extends HiveBucketHash("hive2", "2") {
    override def of(keys: Seq[Expression]): Expression = HiveMurmurHash(keys)
    override def isWrittenByStockSpark: Boolean = false
  }

  case object Spark extends BucketHash {
    override def name: String = "spark"
    override def partitioning(keys: Seq[Expression], n: Int): HashPartitioning = HashPartitioning(keys, n)
    override def bucketId(keys: Seq[Expression], n: Int): Expression = HashPartitioning(keys, n).partitionIdExpression
  }
}

/** Compares numbers of buckets. A row that is in bucket b of k x n buckets would be in bucket b mod n of n buckets. */
object BucketCounts {

  /** Returns whether one number of buckets is a multiple of the other. */
  def areCompatible(one: Int, other: Int): Boolean = one % other == 0 || other % one == 0

  /** Returns the largest number of buckets as which Spark can read all tables that have these numbers of buckets. */
  def common(counts: Iterable[Int]): Int = counts.map(BigInt(_)).reduce(_ gcd _).toInt
}
