package org.apache.spark.sql.bucketing
package hash

import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.physical.HashPartitioning
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.types._

/** The hash function of a bucket layout. It assigns rows to buckets. */
sealed abstract class BucketHash(val name: String) extends Serializable {
  def partitioning(keys: Seq[Expression], n: Int): HashPartitioning

  override def toString: String = name.capitalize
}

object BucketHash {

  def named(name: String): Option[BucketHash] = Seq(Hive, Spark).find(_.name == name)

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
   * Returns the same for the declared type of a column. The planner sees CHAR and VARCHAR as strings, so their types are
   * only in the metadata.
   */
  def spreads(field: StructField): Boolean = spreads(rawType(field.dataType, field.metadata))

  def rawType(dataType: DataType, metadata: Metadata): DataType = CharVarcharUtils.getRawType(metadata).getOrElse(dataType)

  case object Hive extends BucketHash("hive") {
    override def partitioning(keys: Seq[Expression], n: Int): HashPartitioning = new HiveHashPartitioning(keys, n)
  }

  case object Spark extends BucketHash("spark") {
    override def partitioning(keys: Seq[Expression], n: Int): HashPartitioning = HashPartitioning(keys, n)
  }
}
