package org.apache.spark.sql.bucketing
package metadata

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest

/**
 * The digest of an unordered set of files. The digest combines the number of files, their total length, and a sum of hashes over each
 * file's name, length and modification time. The digests of disjoint sets can be added.
 *
 * @param count the number of files
 * @param bytes the total length of the files
 * @param high the sum of the first eight bytes of each file's SHA-256, modulo 2 to the 64
 * @param low the sum of the second eight bytes of each file's SHA-256, modulo 2 to the 64
 */
case class FilesDigest(count: Long, bytes: Long, high: Long, low: Long) {

  def +(other: FilesDigest): FilesDigest =
    FilesDigest(count + other.count, bytes + other.bytes, high + other.high, low + other.low)

  /** Adds the hash of a text (times = 1), or subtracts it (times = -1). A seal adds its bucket spec, so that the digest also covers it. */
  def plus(text: String, times: Int): FilesDigest = {
    val (first, second) = FilesDigest.hash(text)
    copy(high = high + times * first, low = low + times * second)
  }

  def hex: String = f"$high%016x$low%016x"
}

object FilesDigest {

  val None: FilesDigest = FilesDigest(0, 0, 0, 0)

  private val Digits = "[0-9a-f]{32}".r

  /**
   * Returns the digest of one file.
   *
   * @param modified the modification time in milliseconds since 1970
   */
  def of(name: String, length: Long, modified: Long): FilesDigest = {
    val (high, low) = hash(s"$name\n$length\n$modified")
    FilesDigest(1, length, high, low)
  }

  // Reuses the MessageDigest, because getInstance() takes as long as computing a hash. The method digest() resets it.
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
