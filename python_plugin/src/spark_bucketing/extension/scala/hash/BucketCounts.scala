package org.apache.spark.sql.bucketing
package hash

/** Compares numbers of buckets. A row that is in bucket b of k x n buckets would be in bucket b mod n of n buckets. */
object BucketCounts {

  /** Returns whether one number of buckets is a multiple of the other. */
  def areCompatible(one: Int, other: Int): Boolean = one % other == 0 || other % one == 0

  /** Returns the largest number of buckets as which Spark can read all tables that have these numbers of buckets. */
  def common(counts: Iterable[Int]): Int = counts.map(BigInt(_)).reduce(_ gcd _).toInt
}
