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
      case value: Boolean => HiveMurmur3.hash(value)
      case value: Byte => HiveMurmur3.hash(value)
      case value: Short => HiveMurmur3.hash(value)
      case value: Int => HiveMurmur3.hash(value)
      case value: Long => HiveMurmur3.hash(value)
      case value: UTF8String => HiveMurmur3.hash(value)
      case value: Decimal => HiveMurmur3.hash(value)
    })
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val (int, hash) = (CodeGenerator.JAVA_INT, ev.value)
    val fields = children.map { child =>
      val field = child.genCode(ctx)
      // Java chooses the method by the type of the value. NULL has no value to hash.
      val typed = s"(${CodeGenerator.javaType(child.dataType)}) ${field.value}"
      val add = if (child.dataType == NullType) "" else s"$hash += org.apache.spark.sql.bucketing.hash.HiveMurmur3.hash($typed);"
      s"${field.code}\n$hash *= 31;\n${ctx.nullSafeExec(child.nullable, field.isNull)(add)}"
    }
    val code = ctx.splitExpressionsWithCurrentInputs(fields, "hiveMurmurHash", Seq(int -> hash), int,
      body => s"$body\nreturn $hash;", _.map(call => s"$hash = $call;").mkString("\n"))
    ev.copy(code = code"$int $hash = 0;\n$code", isNull = FalseLiteral)
  }

  override protected def withNewChildrenInternal(changed: IndexedSeq[Expression]): Expression = copy(changed)
}

/** Hashes single values as Hive does. Hive hashes numbers as big-endian bytes. Unlike standard Murmur3, its class sign-extends the bytes after the last block of four. */
object HiveMurmur3 {

  private val Seed = 104729

  def hash(value: Boolean): Int = if (value) 1 else 0
  def hash(value: Byte): Int = value
  def hash(value: Short): Int = hashBytes(Array((value >> 8).toByte, value.toByte))
  def hash(value: Int): Int = Murmur3_x86_32.hashInt(Integer.reverseBytes(value), Seed)
  def hash(value: Long): Int = Murmur3_x86_32.hashLong(java.lang.Long.reverseBytes(value), Seed)

  def hash(value: UTF8String): Int = value.getBaseObject match {
    case bytes: Array[Byte] => Murmur3.hash32(bytes, (value.getBaseOffset - Platform.BYTE_ARRAY_OFFSET).toInt, value.numBytes, Seed)
    case _ => hashBytes(value.getBytes)
  }

  /** Hashes the unscaled value without trailing fractional zeros, because Hive removes them. */
  def hash(value: Decimal): Int = {
    val stripped: JavaDecimal = value.toJavaBigDecimal.stripTrailingZeros
    hashBytes((if (stripped.scale < 0) stripped.setScale(0) else stripped).unscaledValue.toByteArray)
  }

  private def hashBytes(bytes: Array[Byte]): Int = Murmur3.hash32(bytes, 0, bytes.length, Seed)
}
