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
 * Implements `hive_hash(columns...)`, Hive's hash of a row (bucketing version 1) as an int. Uses Catalyst's `HiveHash` and
 * its generated code, and accepts only types for which it equals Hive's hash.
 */
case class HiveHashOf(children: Seq[Expression]) extends RuntimeReplaceable {
  override lazy val replacement: Expression = HiveHash(children)
  override def checkInputDataTypes(): TypeCheckResult = HiveHashFunctions.check(prettyName, children)
  override def prettyName: String = "hive_hash"
  override protected def withNewChildrenInternal(changed: IndexedSeq[Expression]): Expression = copy(changed)
}

/** Implements `hive_bucket(n, columns...)`, the bucket id of a row from 0 to n - 1 (bucketing version 1). */
case class HiveBucketOf(buckets: Expression, columns: Seq[Expression]) extends RuntimeReplaceable {
  override def children: Seq[Expression] = buckets +: columns

  override lazy val replacement: Expression = HiveHashPartitioning.bucketId(columns, count.get)

  override def checkInputDataTypes(): TypeCheckResult =
    if (count.exists(_ > 0)) HiveHashFunctions.check(prettyName, columns)
    else TypeCheckFailure(s"The first argument of $prettyName must be the number of buckets, a constant int above 0, " +
      s"provided: ${buckets.sql}. Example: $prettyName(64, a_column)")

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
      info[HiveHashOf]("hive_hash",
        "_FUNC_(columns...) - Returns Hive's hash (version 1) of the columns as an int. -0.0 hashes as 0.0.",
        "> SELECT _FUNC_('Spark', 1);\n -1812310812"),
      columns => HiveHashOf(columns)))
    extensions.injectFunction((
      FunctionIdentifier("hive_bucket"),
      info[HiveBucketOf]("hive_bucket",
        "_FUNC_(buckets, columns...) - Returns the bucket id of a row in Hive (bucketing version 1), starting from 0.",
        "> SELECT _FUNC_(8, 'Spark', 1);\n 4"),
      arguments => HiveBucketOf(arguments.headOption.getOrElse(Literal(0)), arguments.drop(1))))
  }

  /**
   * Returns a failure for types whose Catalyst hash differs, or may differ, from Hive's hash. Catalyst hashes binary and
   * timestamps differently. Hive has no collated strings, and hashes CHAR and VARCHAR differently from STRING. The hashes of
   * nested types have not been compared.
   */
  def check(function: String, columns: Seq[Expression]): TypeCheckResult =
    if (columns.isEmpty) TypeCheckFailure(s"$function requires at least one column, provided: none")
    else columns.flatMap(column => refused(column).map(_ -> column)).headOption match {
      case None => TypeCheckSuccess
      case Some((dataType, column)) => TypeCheckFailure(
        s"$function does not support ${dataType.sql}, because Spark's hash of it may differ from Hive's: ${column.sql}. " +
          "Cast it to BOOLEAN, TINYINT, SMALLINT, INT, BIGINT, FLOAT, DOUBLE, DECIMAL, STRING or DATE")
    }

  private def refused(column: Expression): Option[DataType] = column match {
    case named: NamedExpression if CharVarcharUtils.getRawType(named.metadata).isDefined =>
      CharVarcharUtils.getRawType(named.metadata)
    case _ => Some(column.dataType).filterNot(isHives)
  }

  /** Returns whether Catalyst's hash equals Hive's hash for values of this type. */
  def isHives(dataType: DataType): Boolean = dataType match {
    case NullType | FloatType | DoubleType => true
    case _ => BucketHash.spreads(dataType)
  }

  private def info[T](name: String, usage: String, examples: String)(implicit tag: reflect.ClassTag[T]): ExpressionInfo =
    new ExpressionInfo(tag.runtimeClass.getName, null, name, usage, "", s"\n    Examples:\n      $examples\n  ", "",
      "hash_funcs", "0.1.0", "", "")
}
