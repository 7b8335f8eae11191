import java.math.{BigDecimal => JavaDecimal}
import java.nio.ByteBuffer

import org.apache.hadoop.hive.common.`type`.HiveDecimal
import org.apache.hadoop.hive.ql.exec.UDF
import org.apache.hadoop.hive.serde2.io.{ByteWritable, DateWritable, HiveDecimalWritable, ShortWritable}
import org.apache.hadoop.io.{BooleanWritable, IntWritable, LongWritable, Text}
import org.apache.hive.common.util.Murmur3

/**
 * Hashes one value with Hive's classes, like `ObjectInspectorUtils.hashCodeMurmur` in Hive 3. Spark includes only Hive 2,
 * which does not have that method but has the classes that the method calls.
 */
class HiveMurmurOracle extends UDF {

  private def hash(length: Int)(put: ByteBuffer => Unit): Int = {
    val buffer = ByteBuffer.allocate(length)
    put(buffer)
    hash(buffer.array, length)
  }

  private def hash(bytes: Array[Byte], length: Int): Int = Murmur3.hash32(bytes, length, Murmur3.DEFAULT_SEED)

  def evaluate(value: BooleanWritable): Int = if (value != null && value.get) 1 else 0
  def evaluate(value: ByteWritable): Int = if (value == null) 0 else value.get
  def evaluate(value: ShortWritable): Int = if (value == null) 0 else hash(2)(_.putShort(value.get))
  def evaluate(value: IntWritable): Int = if (value == null) 0 else hash(4)(_.putInt(value.get))
  def evaluate(value: LongWritable): Int = if (value == null) 0 else hash(8)(_.putLong(value.get))
  def evaluate(value: DateWritable): Int = if (value == null) 0 else hash(4)(_.putInt(value.getDays))
  def evaluate(value: Text): Int = if (value == null) 0 else hash(value.getBytes, value.getLength)

  /** Hashes a decimal given as text, because Spark converts a decimal argument of a Hive function to decimal(38, 18). */
  def evaluate(value: Text, kind: Text): Int = if (value == null) 0 else {
    val storage = new HiveDecimalWritable(HiveDecimal.create(new JavaDecimal(value.toString))).getInternalStorage
    hash(storage, storage.length)
  }
}
