package org.apache.spark.sql.bucketing
package read

import org.apache.spark.sql.bucketing.metadata.BucketFiles
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.types.DataType

/**
 * The buckets that a scan has to read, by the number of buckets of a directory. The bucket of a file depends on the number of buckets in its seal.
 *
 * @param buckets for each number of buckets, the buckets that filters select; without an entry, all of them
 */
case class WantedBuckets(buckets: Map[Int, Set[Int]], read: BucketRead) {

  /** Returns whether the scan has to read the file at this URL. */
  def contains(file: String): Boolean = buckets.get(read.folders.bucketsOf(file)).forall { some =>
    BucketFiles.bucketOf(BucketFiles.nameOf(file), read.of.hash).forall(some.contains)
  }

  /** The number of selected buckets, as EXPLAIN shows it. */
  def note: String = buckets.toSeq.sortBy(_._1).map { case (n, some) => s"${some.size} out of $n" }.mkString(", ")
}

object WantedBuckets {

  /** Returns the buckets that the filters select, or None if they select all of them. */
  def apply(filters: Seq[Expression], columns: Seq[Attribute], read: BucketRead): Option[WantedBuckets] = {
    val keys = read.of.keys.flatMap(name => columns.find(_.name == name))
    if (filters.isEmpty || keys.size < read.of.keys.size) None
    else Some(read.folders.distinct.flatMap { number =>
      BucketPruning.wanted(filters, keys, read.of.copy(buckets = number)).map(number -> _)
    }.toMap).filter(_.nonEmpty).map(WantedBuckets(_, read))
  }
}

/**
 * Computes the buckets that can contain rows matching the filters.
 *
 * Stock Spark's `FileSourceStrategy` supports only one bucket column. Here, each filter becomes a set of alternatives. An
 * alternative contains values of some bucket columns. Buckets can be pruned if, after all filters are combined, every
 * alternative contains values of all bucket columns.
 */
object BucketPruning {

  /** Values for some of the bucket columns, by column position. NULL is a value. */
  private type Values = Map[Int, Any]

  /** Maximum number of alternatives to evaluate. */
  private val Limit = 1000
  private val Anything: Seq[Values] = Seq(Map.empty)

  /** Returns the buckets to read, or None to read all buckets. */
  def wanted(filters: Seq[Expression], keys: Seq[Attribute], of: SealedBuckets): Option[Set[Int]] = {
    val found = filters.map(alternatives(_, keys)).foldLeft(Anything)(both)
    if (!found.forall(_.size == keys.length)) None
    else {
      val buckets = found.map(values => bucket(keys.indices.map(values), keys.map(_.dataType), of)).toSet
      if (buckets.size < of.buckets) Some(buckets) else None
    }
  }

  private def alternatives(filter: Expression, keys: Seq[Attribute]): Seq[Values] = {
    def place(column: Expression, literals: Seq[Literal]): Option[Int] =
      Some(keys.indexWhere(_.semanticEquals(column)))
        .filter(i => i >= 0 && literals.forall(_.dataType == keys(i).dataType))
    def equal(column: Expression, literals: Seq[Literal], nulls: Boolean = false): Seq[Values] =
      place(column, literals).fold(Anything) { i =>
        literals.map(_.value).filter(nulls || _ != null).map(value => Map(i -> value))
      }
    filter match {
      case And(left, right) => both(alternatives(left, keys), alternatives(right, keys))
      case Or(left, right) => shortened(alternatives(left, keys) ++ alternatives(right, keys))
      case EqualTo(column, literal: Literal) => equal(column, Seq(literal))
      case EqualTo(literal: Literal, column) => equal(column, Seq(literal))
      case EqualNullSafe(column, literal: Literal) => equal(column, Seq(literal), nulls = true)
      case EqualNullSafe(literal: Literal, column) => equal(column, Seq(literal), nulls = true)
      case IsNull(column) => equal(column, Seq(Literal(null, column.dataType)), nulls = true)
      case In(column, list) if list.forall(_.isInstanceOf[Literal]) =>
        shortened(equal(column, list.map(_.asInstanceOf[Literal])))
      case InSet(column, values) if values.size <= Limit =>
        shortened(equal(column, values.toSeq.map(value => Literal(value, column.dataType))))
      case _ => Anything
    }
  }

  /** Returns the alternatives that satisfy both filters. Combinations with contradictory values are left out. */
  private def both(left: Seq[Values], right: Seq[Values]): Seq[Values] =
    if (left.length * right.length > Limit) if (left.length < right.length) left else right
    else for (a <- left; b <- right if a.forall { case (i, value) => b.get(i).forall(_ == value) }) yield a ++ b

  private def shortened(values: Seq[Values]): Seq[Values] = if (values.length > Limit) Anything else values

  /** Returns the bucket id for these values. The method evaluates the same expression as the writer. */
  private def bucket(values: Seq[Any], types: Seq[DataType], of: SealedBuckets): Int = {
    val literals = values.zip(types).map { case (value, dataType) => Literal(value, dataType) }
    of.hash.bucketId(literals, of.buckets).eval().asInstanceOf[Int]
  }
}
