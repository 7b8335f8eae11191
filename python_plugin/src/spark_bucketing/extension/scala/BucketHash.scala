package org.apache.spark.sql.bucketing

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.types._

/** The two bucket layouts, which differ in the hash that spreads the rows. */
sealed abstract class BucketHash(name: String) extends Serializable {
  def partitioning(keys: Seq[Expression], n: Int): HashPartitioning
  def other: BucketHash

  override def toString: String = name
}

object BucketHash {

  /**
   * Whether equal keys of this type fall into one bucket, whoever wrote them. Left out: what Catalyst's HiveHash hashes
   * otherwise than Hive (CHAR, VARCHAR, binary, timestamps), and what has several forms of equal values (floating point,
   * collated strings).
   */
  def spreads(dataType: DataType): Boolean = dataType match {
    case BooleanType | ByteType | ShortType | IntegerType | LongType | DateType | _: DecimalType => true
    case string: StringType => string == StringType
    case _ => false
  }

  case object Hive extends BucketHash("Hive") {
    override def partitioning(keys: Seq[Expression], n: Int): HashPartitioning = new HiveHashPartitioning(keys, n)
    override def other: BucketHash = Spark
  }

  case object Spark extends BucketHash("Spark") {
    override def partitioning(keys: Seq[Expression], n: Int): HashPartitioning = HashPartitioning(keys, n)
    override def other: BucketHash = Hive
  }
}
