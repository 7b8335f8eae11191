package org.apache.spark.sql.bucketing
package hash

/** Numbers of buckets whose rows can be read together: a row in bucket b of k x n buckets is in bucket b mod n of n buckets. */
object BucketCounts {

  /** Returns whether one number of buckets is a multiple of the other. */
  def areCompatible(one: Int, other: Int): Boolean = one % other == 0 || other % one == 0

  /** Returns the largest number of buckets as which tables with all these numbers of buckets can be read. */
  def common(counts: Iterable[Int]): Int = counts.map(BigInt(_)).reduce(_ gcd _).toInt
}
