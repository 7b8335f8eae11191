package org.apache.spark.sql.bucketing
package metadata

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest

/**
 * What a set of files is, without their order: their number, their bytes, and the sum of the hashes of each one's name,
 * length and time. Sets without a file in common add up.
 *
 * @param high sum of the first eight bytes of each file's SHA-256, modulo 2 to the 64
 * @param low the same of the second eight
 */
case class FilesDigest(count: Long, bytes: Long, high: Long, low: Long) {

  def +(other: FilesDigest): FilesDigest =
    FilesDigest(count + other.count, bytes + other.bytes, high + other.high, low + other.low)

  /** The sum with the hash of a text in it (1) or without it (-1): a seal's spec, so that nobody changes one without the other. */
  def plus(text: String, times: Int): FilesDigest = {
    val (first, second) = FilesDigest.hash(text)
    copy(high = high + times * first, low = low + times * second)
  }

  def hex: String = f"$high%016x$low%016x"
}

object FilesDigest {

  val None: FilesDigest = FilesDigest(0, 0, 0, 0)

  private val Digits = "[0-9a-f]{32}".r

  /** @param modified milliseconds since 1970 */
  def of(name: String, length: Long, modified: Long): FilesDigest = {
    val (high, low) = hash(s"$name\n$length\n$modified")
    FilesDigest(1, length, high, low)
  }

  // Looking one up takes as long as hashing a name does. digest() leaves it as new.
  private val sha256 = ThreadLocal.withInitial[MessageDigest](() => MessageDigest.getInstance("SHA-256"))

  private def hash(text: String): (Long, Long) = {
    val bytes = ByteBuffer.wrap(sha256.get.digest(text.getBytes(UTF_8)))
    (bytes.getLong, bytes.getLong)
  }

  def sum(digests: Iterator[FilesDigest]): FilesDigest = digests.foldLeft(None)(_ + _)

  def parse(count: Long, bytes: Long, hex: String): Option[FilesDigest] = hex match {
    case Digits() => Some(FilesDigest(count, bytes,
      java.lang.Long.parseUnsignedLong(hex.take(16), 16), java.lang.Long.parseUnsignedLong(hex.drop(16), 16)))
    case _ => scala.None
  }
}
