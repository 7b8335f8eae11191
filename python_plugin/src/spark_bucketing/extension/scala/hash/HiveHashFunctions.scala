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
 * Implements `hive_hash(columns...)` and `hive2_hash(columns...)`. The functions return Hive's hash of a row, in version 1 and 2,
 * as an int. Both functions accept only types for which their result equals Hive's hash.
 */
case class HiveHashOf(hash: HiveBucketHash, children: Seq[Expression]) extends RuntimeReplaceable {
  override lazy val replacement: Expression = hash.of(children)
  override def checkInputDataTypes(): TypeCheckResult = HiveHashFunctions.check(hash, prettyName, children)
  override def prettyName: String = s"${hash.name}_hash"
  override def flatArguments: Iterator[Any] = children.iterator
  override protected def withNewChildrenInternal(changed: IndexedSeq[Expression]): Expression = copy(children = changed)
}

/** Implements `hive_bucket(n, columns...)` and `hive2_bucket(n, columns...)`. The functions return a row's bucket id, from 0 to n - 1. */
case class HiveBucketOf(hash: HiveBucketHash, buckets: Expression, columns: Seq[Expression]) extends RuntimeReplaceable {
  override def children: Seq[Expression] = buckets +: columns
  override def flatArguments: Iterator[Any] = children.iterator

  override lazy val replacement: Expression = HiveHashPartitioning.bucketId(hash, columns, count.get)

  override def checkInputDataTypes(): TypeCheckResult =
    if (count.exists(_ > 0)) HiveHashFunctions.check(hash, prettyName, columns)
    else TypeCheckFailure(s"The first argument of $prettyName must be the number of buckets, a constant int above 0, " +
      s"provided: ${buckets.sql}. Example: $prettyName(64, a_column)")

  private def count: Option[Int] =
    if (!buckets.foldable) None
    else buckets.dataType match {
      case ByteType | ShortType | IntegerType => Option(buckets.eval()).map(_.asInstanceOf[Number].intValue)
      case _ => None
    }

  override def prettyName: String = s"${hash.name}_bucket"
  override protected def withNewChildrenInternal(changed: IndexedSeq[Expression]): Expression =
    copy(hash, changed.head, changed.tail)
}

object HiveHashFunctions {

  def register(extensions: SparkSessionExtensions): Unit = BucketHash.HiveHashes.foreach { hash =>
    val version = s"bucketing version ${hash.bucketingVersion}"
    extensions.injectFunction((
      FunctionIdentifier(s"${hash.name}_hash"),
      info[HiveHashOf](s"_FUNC_(columns...) - Returns Hive's hash of the columns as an int ($version). -0.0 hashes as 0.0.",
        "'Spark', 1", HiveHashOf(hash, Example)),
      columns => HiveHashOf(hash, columns)))
    extensions.injectFunction((
      FunctionIdentifier(s"${hash.name}_bucket"),
      info[HiveBucketOf](s"_FUNC_(buckets, columns...) - Returns the bucket id of a row in Hive, starting from 0 ($version).",
        "8, 'Spark', 1", HiveBucketOf(hash, Literal(8), Example)),
      arguments => HiveBucketOf(hash, arguments.headOption.getOrElse(Literal(0)), arguments.drop(1))))
  }

  private val Example = Seq(Literal("Spark"), Literal(1))

  /**
   * Returns a failure for types whose hash in Catalyst differs, or may differ, from Hive's hash. Catalyst hashes binary and
   * timestamps differently. Hive has no strings with collations, and hashes CHAR and VARCHAR differently from STRING. For
   * nested types, the hashes of the two have not been compared.
   */
  def check(hash: HiveBucketHash, function: String, columns: Seq[Expression]): TypeCheckResult =
    if (columns.isEmpty) TypeCheckFailure(s"$function requires at least one column, provided: none")
    else columns.flatMap(column => refused(hash, column).map(_ -> column)).headOption match {
      case None => TypeCheckSuccess
      case Some((dataType, column)) => TypeCheckFailure(
        s"$function does not support ${dataType.sql}, because Spark's hash of it may differ from Hive's: ${column.sql}. " +
          s"Cast it to ${hash.types}")
    }

  private def refused(hash: HiveBucketHash, column: Expression): Option[DataType] = column match {
    case named: NamedExpression if CharVarcharUtils.getRawType(named.metadata).isDefined =>
      CharVarcharUtils.getRawType(named.metadata)
    case _ => Some(column.dataType).filterNot(hash.supports)
  }

  private def info[T](usage: String, arguments: String, example: RuntimeReplaceable)(implicit tag: reflect.ClassTag[T]): ExpressionInfo =
    new ExpressionInfo(tag.runtimeClass.getName, null, example.prettyName, usage, "",
      s"\n    Examples:\n      > SELECT _FUNC_($arguments);\n       ${example.replacement.eval()}\n  ", "", "hash_funcs", "0.1.0", "", "")
}
