package org.apache.spark.sql.bucketing

import java.util.Locale

import scala.jdk.CollectionConverters._
import scala.util.Try

import com.fasterxml.jackson.core.json.JsonWriteFeature
import com.fasterxml.jackson.databind.{DeserializationFeature, JsonNode}
import com.fasterxml.jackson.databind.json.JsonMapper

import org.apache.spark.sql.catalyst.catalog.{BucketSpec, CatalogTable}

/**
 * What the metastore says of the files of one partition: by which spec they were written. It lives in the partition's
 * parameters, which every engine keeps, and is written as a whole or not at all. Pure.
 *
 * @param numBuckets 0 when the files are known not to be the buckets of one spec
 * @param columns in lower case, as Hive names them; none with 0 buckets
 */
case class PartitionRecord(numBuckets: Int, columns: Seq[String], sortColumns: Seq[String], hash: String) {

  def isBucketed: Boolean = numBuckets > 0

  /** The record as partition parameters. */
  def parameters: Map[String, String] = Map(
    PartitionRecord.Version -> PartitionRecord.Latest.toString,
    PartitionRecord.NumBuckets -> numBuckets.toString,
    PartitionRecord.Columns -> PartitionRecord.json(columns),
    PartitionRecord.SortColumns -> PartitionRecord.json(sortColumns),
    PartitionRecord.Hash -> hash)
}

object PartitionRecord {

  val Version = "bucketing.spec_version"
  val NumBuckets = "bucketing.num_buckets"
  val Columns = "bucketing.columns"
  val SortColumns = "bucketing.sort_columns"
  val Hash = "bucketing.hash"
  val Keys: Seq[String] = Seq(Version, NumBuckets, Columns, SortColumns, Hash)

  /** The property of a table whose partitions may differ in their specs. Readers ask for records of these only. */
  val Evolved = "bucketing.evolved"

  def isEvolved(table: CatalogTable): Boolean = table.properties.get(Evolved).contains("true")

  val Latest = 1
  private val Hive = "hive"

  /** That files are not the buckets of one spec. */
  val Unbucketed: PartitionRecord = PartitionRecord(0, Nil, Nil, Hive)

  def of(spec: BucketSpec): PartitionRecord =
    PartitionRecord(spec.numBuckets, lower(spec.bucketColumnNames), lower(spec.sortColumnNames), Hive)

  def of(spec: Option[BucketSpec]): PartitionRecord = spec.fold(Unbucketed)(of)

  private def lower(names: Seq[String]): Seq[String] = names.map(_.toLowerCase(Locale.ROOT))

  /** The record among a partition's parameters: None where there is none, Left says why it is broken. */
  def parse(parameters: Map[String, String]): Option[Either[String, PartitionRecord]] =
    if (!Keys.exists(parameters.contains)) None
    else Some(Keys.find(!parameters.contains(_)) match {
      case Some(missing) => Left(s"$missing is missing")
      case None => whole(parameters)
    })

  private def whole(parameters: Map[String, String]): Either[String, PartitionRecord] = for {
    _ <- expect(parameters, Version, Latest.toString)
    _ <- expect(parameters, Hash, Hive)
    buckets <- number(parameters(NumBuckets))
    columns <- names(parameters, Columns)
    sorts <- names(parameters, SortColumns)
    _ <- Either.cond(buckets > 0 == columns.nonEmpty, (),
      s"$NumBuckets is $buckets and $Columns is ${parameters(Columns)}, which contradict each other")
    _ <- Either.cond(buckets > 0 || sorts.isEmpty, (),
      s"$NumBuckets is 0 and $SortColumns is ${parameters(SortColumns)}, which contradict each other")
  } yield PartitionRecord(buckets, columns, sorts, Hive)

  private def expect(parameters: Map[String, String], key: String, value: String): Either[String, Unit] =
    Either.cond(parameters(key) == value, (), s"$key is ${parameters(key)}, expected $value")

  private def number(text: String): Either[String, Int] =
    Try(text.toInt).toOption.filter(_ >= 0).toRight(s"$NumBuckets is $text, expected a number of buckets")

  private def names(parameters: Map[String, String], key: String): Either[String, Seq[String]] = {
    val text = parameters(key)
    Try(Json.readTree(text)).toOption.filter(node => node.isArray && elements(node).forall(_.isTextual))
      .map(node => lower(elements(node).map(_.textValue)))
      .filter(found => found.distinct == found && found.forall(_.nonEmpty))
      .toRight(s"$key is $text, expected a JSON array of different column names")
  }

  private def elements(node: JsonNode): Seq[JsonNode] = node.elements.asScala.toSeq

  // Only ASCII, since the databases of metastores differ in what else they keep.
  private val Json = JsonMapper.builder()
    .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS).enable(JsonWriteFeature.ESCAPE_NON_ASCII).build()

  private def json(names: Seq[String]): String = Json.writeValueAsString(names.asJava)
}
