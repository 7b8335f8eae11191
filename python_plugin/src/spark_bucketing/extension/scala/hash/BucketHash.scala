package org.apache.spark.sql.bucketing
package hash

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.types._

/** The two bucket layouts, which differ in the hash that spreads the rows. */
sealed abstract class BucketHash(val name: String) extends Serializable {
  def partitioning(keys: Seq[Expression], n: Int): HashPartitioning

  override def toString: String = name.capitalize
}

object BucketHash {

  def named(name: String): Option[BucketHash] = Seq(Hive, Spark).find(_.name == name)

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

  /** The same of a column by its declared type: CHAR and VARCHAR are strings to the planner, and their metadata tells them apart. */
  def spreads(field: StructField): Boolean = spreads(rawType(field.dataType, field.metadata))

  def rawType(dataType: DataType, metadata: Metadata): DataType = CharVarcharUtils.getRawType(metadata).getOrElse(dataType)

  case object Hive extends BucketHash("hive") {
    override def partitioning(keys: Seq[Expression], n: Int): HashPartitioning = new HiveHashPartitioning(keys, n)
  }

  case object Spark extends BucketHash("spark") {
    override def partitioning(keys: Seq[Expression], n: Int): HashPartitioning = HashPartitioning(keys, n)
  }
}
