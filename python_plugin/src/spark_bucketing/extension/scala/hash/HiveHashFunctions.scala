package org.apache.spark.sql.bucketing
package hash

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.FunctionIdentifier
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult
import org.apache.spark.sql.catalyst.analysis.TypeCheckResult.{TypeCheckFailure, TypeCheckSuccess}
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.CharVarcharUtils
import org.apache.spark.sql.types._

/**
 * `hive_hash(columns...)`: Hive's hash of a row (version 1), an int. Catalyst's own `HiveHash`, with its generated code,
 * for the types where it is Hive's.
 */
case class HiveHashOf(children: Seq[Expression]) extends RuntimeReplaceable {
  override lazy val replacement: Expression = HiveHash(children)
  override def checkInputDataTypes(): TypeCheckResult = HiveHashFunctions.check(prettyName, children)
  override def prettyName: String = "hive_hash"
  override protected def withNewChildrenInternal(changed: IndexedSeq[Expression]): Expression = copy(changed)
}

/** `hive_bucket(n, columns...)`: the bucket, 0 to n - 1, in which Hive (version 1) looks for a row. */
case class HiveBucketOf(buckets: Expression, columns: Seq[Expression]) extends RuntimeReplaceable {
  override def children: Seq[Expression] = buckets +: columns

  override lazy val replacement: Expression = HiveHashPartitioning.bucketId(columns, count.get)

  override def checkInputDataTypes(): TypeCheckResult =
    if (count.exists(_ > 0)) HiveHashFunctions.check(prettyName, columns)
    else TypeCheckFailure(s"$prettyName takes the number of buckets first, a constant int above 0, " +
      s"provided: ${buckets.sql}. Write it as in $prettyName(64, a_column)")

  private def count: Option[Int] =
    if (!buckets.foldable) None
    else buckets.dataType match {
      case ByteType | ShortType | IntegerType => Option(buckets.eval()).map(_.asInstanceOf[Number].intValue)
      case _ => None
    }

  override def prettyName: String = "hive_bucket"
  override protected def withNewChildrenInternal(changed: IndexedSeq[Expression]): Expression =
    copy(changed.head, changed.tail)
}

object HiveHashFunctions {

  def register(extensions: SparkSessionExtensions): Unit = {
    extensions.injectFunction((
      FunctionIdentifier("hive_hash"),
      info[HiveHashOf]("hive_hash", "_FUNC_(columns...) - Hive's hash (version 1) of the columns, an int. -0.0 hashes as 0.0.",
        "> SELECT _FUNC_('Spark', 1);\n -1812310812"),
      columns => HiveHashOf(columns)))
    extensions.injectFunction((
      FunctionIdentifier("hive_bucket"),
      info[HiveBucketOf]("hive_bucket",
        "_FUNC_(buckets, columns...) - The bucket, from 0, that Hive (bucketing version 1) puts a row into.",
        "> SELECT _FUNC_(8, 'Spark', 1);\n 4"),
      arguments => HiveBucketOf(arguments.headOption.getOrElse(Literal(0)), arguments.drop(1))))
  }

  /**
   * Left out: binary and timestamps, which Catalyst hashes otherwise than Hive; strings that compare by a collation,
   * which Hive has not; nested types, of which it is not known. Hive hashes CHAR and VARCHAR otherwise than STRING, and
   * here they are strings that only remember their type as columns.
   */
  def check(function: String, columns: Seq[Expression]): TypeCheckResult =
    if (columns.isEmpty) TypeCheckFailure(s"$function takes one column or more to hash, provided: none")
    else columns.flatMap(column => refused(column).map(_ -> column)).headOption match {
      case None => TypeCheckSuccess
      case Some((dataType, column)) => TypeCheckFailure(
        s"$function is Hive's hash, and Spark's for ${dataType.sql} differs from it: ${column.sql}. " +
          "It takes BOOLEAN, TINYINT to BIGINT, FLOAT, DOUBLE, DECIMAL, STRING and DATE: cast the column to one of them")
    }

  private def refused(column: Expression): Option[DataType] = column match {
    case named: NamedExpression if CharVarcharUtils.getRawType(named.metadata).isDefined =>
      CharVarcharUtils.getRawType(named.metadata)
    case _ => Some(column.dataType).filterNot(isHives)
  }

  /** Whether Catalyst's hash of a value of this type is Hive's. */
  def isHives(dataType: DataType): Boolean = dataType match {
    case NullType | FloatType | DoubleType => true
    case _ => BucketHash.spreads(dataType)
  }

  private def info[T](name: String, usage: String, examples: String)(implicit tag: reflect.ClassTag[T]): ExpressionInfo =
    new ExpressionInfo(tag.runtimeClass.getName, null, name, usage, "", s"\n    Examples:\n      $examples\n  ", "",
      "hash_funcs", "0.1.0", "", "")
}
