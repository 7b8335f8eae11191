package org.apache.spark.sql.bucketing
package hash

import java.math.{BigDecimal => JavaDecimal}

import org.apache.hive.common.util.Murmur3

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.hash.Murmur3_x86_32
import org.apache.spark.unsafe.types.UTF8String

/**
 * Hive's hash of a row in bucketing version 2, as in `ObjectInspectorUtils.getBucketHashCode` of Hive 3. The hashes of the
 * fields are combined as `31 * hash + field`, and the hash of NULL is 0.
 */
case class HiveMurmurHash(children: Seq[Expression]) extends Expression {

  override def dataType: DataType = IntegerType
  override def nullable: Boolean = false
  override def foldable: Boolean = children.forall(_.foldable)
  override def prettyName: String = "hive_murmur_hash"

  override def eval(row: InternalRow): Any = children.foldLeft(0) { (hash, child) =>
    31 * hash + (child.eval(row) match {
      case null => 0
      case value: Boolean => HiveMurmur3.hashBoolean(value)
      case value: Byte => HiveMurmur3.hashByte(value)
      case value: Short => HiveMurmur3.hashShort(value)
      case value: Int => HiveMurmur3.hashInt(value)
      case value: Long => HiveMurmur3.hashLong(value)
      case value: UTF8String => HiveMurmur3.hashString(value)
      case value: Decimal => HiveMurmur3.hashDecimal(value)
    })
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val (int, hash) = (CodeGenerator.JAVA_INT, ev.value)
    val fields = children.map { child =>
      val field = child.genCode(ctx)
      val add = HiveMurmurHash.method(child.dataType).fold("")(method => s"$hash += ${HiveMurmurHash.Hasher}.$method(${field.value});")
      s"${field.code}\n$hash *= 31;\n${ctx.nullSafeExec(child.nullable, field.isNull)(add)}"
    }
    val code = ctx.splitExpressionsWithCurrentInputs(fields, "hiveMurmurHash", Seq(int -> hash), int,
      body => s"$body\nreturn $hash;", _.map(call => s"$hash = $call;").mkString("\n"))
    ev.copy(code = code"$int $hash = 0;\n$code", isNull = FalseLiteral)
  }

  override protected def withNewChildrenInternal(changed: IndexedSeq[Expression]): Expression = copy(changed)
}

private object HiveMurmurHash {

  private val Hasher = "org.apache.spark.sql.bucketing.hash.HiveMurmur3"

  /** Returns the name of the method that hashes values of a type, or None for the type of NULL. */
  private def method(dataType: DataType): Option[String] = dataType match {
    case NullType => None
    case BooleanType => Some("hashBoolean")
    case ByteType => Some("hashByte")
    case ShortType => Some("hashShort")
    case IntegerType | DateType => Some("hashInt")
    case LongType => Some("hashLong")
    case _: StringType => Some("hashString")
    case _: DecimalType => Some("hashDecimal")
    case other => throw new IllegalArgumentException(s"Hive's hash of version 2 does not support ${other.sql}")
  }
}

/** Hashes single values as Hive does. Hive hashes numbers as big-endian bytes. Unlike standard Murmur3, its class sign-extends the bytes after the last block of four. */
object HiveMurmur3 {

  private val Seed = 104729

  def hashBoolean(value: Boolean): Int = if (value) 1 else 0
  def hashByte(value: Byte): Int = value
  def hashShort(value: Short): Int = hashBytes(Array((value >> 8).toByte, value.toByte))
  def hashInt(value: Int): Int = Murmur3_x86_32.hashInt(Integer.reverseBytes(value), Seed)
  def hashLong(value: Long): Int = Murmur3_x86_32.hashLong(java.lang.Long.reverseBytes(value), Seed)

  def hashString(value: UTF8String): Int = value.getBaseObject match {
    case bytes: Array[Byte] => Murmur3.hash32(bytes, (value.getBaseOffset - Platform.BYTE_ARRAY_OFFSET).toInt, value.numBytes, Seed)
    case _ => hashBytes(value.getBytes)
  }

  /** Hashes the unscaled value without trailing fractional zeros, because Hive removes them. */
  def hashDecimal(value: Decimal): Int = {
    val stripped: JavaDecimal = value.toJavaBigDecimal.stripTrailingZeros
    hashBytes((if (stripped.scale < 0) stripped.setScale(0) else stripped).unscaledValue.toByteArray)
  }

  private def hashBytes(bytes: Array[Byte]): Int = Murmur3.hash32(bytes, 0, bytes.length, Seed)
}
