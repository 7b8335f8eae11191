package org.apache.spark.sql.bucketing
package hash

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode, FalseLiteral}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.plans.physical.{ClusteredDistribution, ShuffleSpec}
import org.apache.spark.sql.catalyst.util.TypeUtils
import org.apache.spark.sql.types._

/**
 * Divides every bucket into ranges of a key, so that several tasks read the bucket. Range i contains the values from cut i - 1, inclusive, to cut i, exclusive.
 * Range 0 also contains NULL. Equal keys are in the same bucket and the same range, whatever the cuts are.
 *
 * @param buckets the number of buckets
 * @param bucketKeys the number of bucket columns, which come first among the keys
 * @param at the position among the keys of the column that has the ranges
 * @param cuts ascending values in Spark's internal format
 */
case class BucketRanges(hash: BucketHash, buckets: Int, bucketKeys: Int, at: Int, dataType: DataType, cuts: IndexedSeq[Any]) extends PartitionScheme {

  @transient private lazy val ordering = TypeUtils.getInterpretedOrdering(dataType)
  @transient private lazy val sorted: Array[AnyRef] = cuts.map(_.asInstanceOf[AnyRef]).toArray
  @transient private lazy val numbers: Array[Long] = cuts.collect { case cut: Number => cut.longValue }.toArray

  def number: Int = cuts.length + 1
  def partitions: Int = buckets * number

  /** Returns the range of a value. */
  def rangeOf(value: Any): Int = if (value == null) 0 else search(middle => ordering.lteq(sorted(middle), value))

  /** Returns the range of an integer or a date. */
  def rangeOfNumber(value: Long): Int = search(middle => numbers(middle) <= value)

  /** Returns the number of cuts up to a value. */
  @inline private def search(isReached: Int => Boolean): Int = {
    var low = 0
    var high = cuts.length
    while (low < high) {
      val middle = (low + high) >>> 1
      if (isReached(middle)) low = middle + 1 else high = middle
    }
    low
  }

  override def partitionId(keys: Seq[Expression], n: Int): Expression = partitionId(hash.bucketId(keys.take(bucketKeys), buckets), keys(at))

  /** Returns an expression for the partition of a row with this bucket and this value. Partitions b, b + buckets, b + 2 * buckets, ... read bucket b. */
  def partitionId(bucket: Expression, value: Expression): Expression = Add(bucket, Multiply(RangeOf(value, this), Literal(buckets)))

  /** Returns a condition for the values of a range. */
  def condition(range: Int, column: Attribute): Expression = {
    def cut(i: Int) = Literal(cuts(i), dataType)
    val from = if (range == 0) None else Some(GreaterThanOrEqual(column, cut(range - 1)))
    val until = if (range == cuts.length) None else Some(LessThan(column, cut(range)))
    (from.toSeq ++ until).reduceOption[Expression](And).fold[Expression](Literal.TrueLiteral)(of => if (range == 0) Or(IsNull(column), of) else of)
  }
}

object BucketRanges {
  /** Returns whether equal values of a type are identical, and ordered. */
  def supports(dataType: DataType): Boolean = dataType match {
    case ByteType | ShortType | IntegerType | LongType | DateType | _: DecimalType => true
    case string: StringType => string == StringType
    case _ => false
  }
}

/** Returns the range of a value. */
case class RangeOf(child: Expression, ranges: BucketRanges) extends UnaryExpression {
  override def nullable: Boolean = false
  override def dataType: DataType = IntegerType
  override def eval(row: InternalRow): Any = ranges.rangeOf(child.eval(row))

  override protected def doGenCode(context: CodegenContext, of: ExprCode): ExprCode = {
    val (value, all) = (child.genCode(context), context.addReferenceObj("ranges", ranges))
    val range = child.dataType match {
      case _: IntegralType | DateType => s"$all.rangeOfNumber((long) ${value.value})"
      case _ => s"$all.rangeOf((Object) ${value.value})"
    }
    of.copy(code = code"""
      ${value.code}
      final int ${of.value} = ${value.isNull} ? 0 : $range;""", isNull = FalseLiteral)
  }

  // The cuts would fill the lines of EXPLAIN.
  override def toString: String = s"range_of($child)"
  override protected def withNewChildInternal(changed: Expression): RangeOf = copy(child = changed)
}

/** Assigns rows to partitions by bucket and range. */
class BucketRangePartitioning(by: Seq[Expression], val ranges: BucketRanges) extends SaltedPartitioning(by, ranges, ranges.partitions) {

  override def createShuffleSpec(distribution: ClusteredDistribution): ShuffleSpec = SchemeShuffleSpec(this, distribution)

  override protected def like(keys: Seq[Expression], n: Int): BucketRangePartitioning = new BucketRangePartitioning(keys, ranges)

  override def productPrefix: String = s"${ranges.hash}BucketRangePartitioning"
  override def prettyName: String = s"${ranges.hash.name}bucketrangepartitioning"
}
