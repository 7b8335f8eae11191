package org.apache.spark.sql.bucketing

/**
 * The reason why Spark uses an ordinary scan for a bucketed table.
 *
 * @param code the ordinary-scan code, a constant of the companion object
 * @param words the explanation for the user
 */
case class FallbackReason(code: String, words: String) {
  override def toString: String = s"[$code] ($words)"
}

object FallbackReason {
  val NotSealed = "not-sealed"
  val SealStale = "seal-stale"
  val FilesMissing = "files-missing"
  val SealUnreadable = "seal-unreadable"
  val ColumnsChanged = "columns-changed"
  val MixedBucketSpecs = "mixed-bucket-specs"
  /** The reasons that another statement may have changed since the seals were read. */
  val OfSeals: Set[String] = Set(NotSealed, SealStale, SealUnreadable, ColumnsChanged, MixedBucketSpecs)

  val UnsupportedColumn = "unsupported-column"
  val ColumnNotRead = "column-not-read"
  val AmbiguousColumn = "ambiguous-column"
  val PositionalColumns = "positional-columns"
  val FieldIds = "field-ids"
  val UnsupportedReader = "unsupported-reader"
  val TooFewBuckets = "too-few-buckets"

  val NotNeeded: FallbackReason = FallbackReason("not-needed", "no operator requires its buckets")
}
