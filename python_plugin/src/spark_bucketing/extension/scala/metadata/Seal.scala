package org.apache.spark.sql.bucketing
package metadata

import java.nio.ByteBuffer
import java.nio.charset.StandardCharsets.UTF_8
import java.security.MessageDigest
import java.util.{Base64, Locale}

import scala.jdk.CollectionConverters._
import scala.util.Try

import com.fasterxml.jackson.core.json.JsonWriteFeature
import com.fasterxml.jackson.databind.{DeserializationFeature, JsonNode}
import com.fasterxml.jackson.databind.json.JsonMapper
import org.apache.hadoop.fs.FileStatus

import org.apache.spark.sql.bucketing.hash.BucketHash
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.catalog.BucketSpec
import org.apache.spark.sql.types.StructType

/**
 * A bucket or sort column of sealed files.
 *
 * @param name the name in lower case
 * @param position the position among the data columns, from 0
 * @param dataType the type as Spark's `catalogString`
 */
case class SealedColumn(name: String, position: Int, dataType: String)

/**
 * The bucket spec of sealed files. Names are in lower case, as in Hive.
 *
 * @param schema the bucket columns, followed by the other sort columns
 */
case class SealedSpec(
    numBuckets: Int, columns: Seq[String], sortColumns: Seq[String], hash: BucketHash, schema: Seq[SealedColumn]) {

  def bucketSpec: BucketSpec = BucketSpec(numBuckets, columns, sortColumns)

  /** Returns the spec without sort columns, for files whose rows are in the correct buckets but are not sorted. */
  def unsorted: SealedSpec = copy(sortColumns = Nil, schema = schema.filter(column => columns.contains(column.name)))

  /** Returns whether the table's data columns still match the columns of the sealed files. */
  def fits(dataSchema: StructType): Boolean = SealedSpec.schemaOf(columns ++ sortColumns, dataSchema).contains(schema)
}

object SealedSpec {

  /** The first day of the Gregorian calendar in days since 1970. Engines interpret earlier dates differently. */
  private val Gregorian = -141427

  /** Returns whether some readers may return a different date, because of the file format or the session's settings. */
  def isBeforeGregorian(row: InternalRow, date: Int): Boolean = !row.isNullAt(date) && row.getInt(date) < Gregorian

  def lower(names: Seq[String]): Seq[String] = names.map(_.toLowerCase(Locale.ROOT))

  /** Returns the spec as it is sealed. Returns None if a column of the bucket spec is missing from the data columns, or occurs twice. */
  def of(spec: BucketSpec, hash: BucketHash, dataSchema: StructType): Option[SealedSpec] = {
    val (columns, sorts) = (lower(spec.bucketColumnNames), lower(spec.sortColumnNames))
    schemaOf(columns ++ sorts, dataSchema).map(SealedSpec(spec.numBuckets, columns, sorts, hash, _))
  }

  /** Returns the spec for files that were written with a bucket spec. Returns None if engines hash a bucket column differently. */
  def ofFiles(spec: BucketSpec, hash: BucketHash, dataSchema: StructType): Option[SealedSpec] =
    of(spec, hash, dataSchema).filter { found =>
      found.columns.forall(name => dataSchema.find(_.name.equalsIgnoreCase(name)).exists(field => BucketHash.spreads(field)))
    }

  private def schemaOf(names: Seq[String], dataSchema: StructType): Option[Seq[SealedColumn]] = {
    val found = names.distinct.map { name =>
      dataSchema.fields.zipWithIndex.filter(_._1.name.equalsIgnoreCase(name)).toSeq match {
        case Seq((field, position)) =>
          Some(SealedColumn(name, position, BucketHash.rawType(field.dataType, field.metadata).catalogString))
        case _ => None
      }
    }
    if (found.forall(_.isDefined)) Some(found.flatten) else None
  }
}

/**
 * Binds a bucket spec to exact files. The metastore stores the seal in the properties of a table or in the parameters of a
 * partition. A seal is valid only if all its keys are valid. See docs/reference/seal-format.md.
 */
case class Seal(spec: SealedSpec, files: FilesDigest) {

  def parameters: Map[String, String] = {
    val ofSpec = Map(
      Seal.Version -> Seal.Latest,
      Seal.NumBuckets -> spec.numBuckets.toString,
      Seal.Columns -> Seal.json(spec.columns),
      Seal.SortColumns -> Seal.json(spec.sortColumns),
      Seal.Hash -> spec.hash.name,
      Seal.Schema -> Seal.json(spec.schema))
    ofSpec ++ Map(
      Seal.Files -> files.count.toString,
      Seal.Bytes -> files.bytes.toString,
      Seal.Digest -> files.plus(Seal.specText(ofSpec), 1).hex) ++ files.groups.text.map(Seal.Groups -> _)
  }

  /** Returns how many sealed files are missing among found files. */
  def missing(found: Seq[FileStatus]): Long = files.missing(PartitionFiles.identities(found))
}

object Seal {

  val Version = "bucketing.spec_version"
  val NumBuckets = "bucketing.num_buckets"
  val Columns = "bucketing.columns"
  val SortColumns = "bucketing.sort_columns"
  val Hash = "bucketing.hash"
  val Schema = "bucketing.schema"
  val Files = "bucketing.files"
  val Bytes = "bucketing.bytes"
  val Digest = "bucketing.digest"
  val Groups = "bucketing.file_groups"
  private val Required = Seq(Version, NumBuckets, Columns, SortColumns, Hash, Schema, Files, Bytes, Digest)
  val Keys: Seq[String] = Required :+ Groups

  val Latest = "2"

  /** Parses the seal in properties. Returns None if there is no seal, and the reason (Left) if the seal is unreadable. */
  def parse(properties: collection.Map[String, String]): Option[Either[String, Seal]] =
    if (!Keys.exists(properties.contains)) None
    else Some(Required.find(!properties.contains(_)) match {
      case Some(missing) => Left(s"$missing is missing")
      case None => whole(properties)
    })

  private def whole(of: collection.Map[String, String]): Either[String, Seal] = {
    def value[T](key: String, expected: String)(read: String => Option[T]): Either[String, T] =
      Try(read(of(key))).toOption.flatten.toRight(s"$key is ${of(key)}, expected $expected")
    for {
      _ <- value(Version, Latest)(Some(_).filter(_ == Latest))
      buckets <- value(NumBuckets, "a number of buckets")(text => Some(text.toInt).filter(_ > 0))
      columns <- value(Columns, "a JSON array of distinct column names")(names).filterOrElse(
        _.nonEmpty, s"$Columns is empty")
      sorts <- value(SortColumns, "a JSON array of distinct column names")(names)
      hash <- value(Hash, BucketHash.All.map(_.name).mkString(" or "))(BucketHash.named)
      schema <- value(Schema, "a JSON array with the name, position and type of each column")(sealedColumns)
        .filterOrElse(_.map(_.name) == (columns ++ sorts).distinct, s"$Schema has other columns")
      count <- value(Files, "a number of files")(text => Some(text.toLong).filter(_ >= 0))
      bytes <- value(Bytes, "a number of bytes")(text => Some(text.toLong).filter(_ >= 0))
      digest <- value(Digest, "32 hexadecimal digits")(FilesDigest.parse(count, bytes, _, FileGroups.parse(of.getOrElse(Groups, ""))))
    } yield Seal(SealedSpec(buckets, columns, sorts, hash, schema), digest.plus(specText(of), -1))
  }

  /** Returns the text form of the spec that goes into the digest. If someone changes the spec by hand, the seal no longer matches any files. */
  private def specText(of: collection.Map[String, String]): String =
    Seq(NumBuckets, Columns, SortColumns, Hash, Schema).map(of).mkString("\n")

  private def elements(text: String): Option[Seq[JsonNode]] =
    Option(Json.readTree(text)).filter(_.isArray).map(_.elements.asScala.toIndexedSeq)

  private def names(text: String): Option[Seq[String]] =
    elements(text).filter(_.forall(_.isTextual)).map(_.map(_.textValue))
      .filter(found => found.distinct == found && found.forall(_.nonEmpty) && found == SealedSpec.lower(found))

  private def sealedColumns(text: String): Option[Seq[SealedColumn]] = elements(text).map(_.map { column =>
    require(column.get("position").isInt && column.get("type").isTextual)
    SealedColumn(column.get("name").textValue, column.get("position").intValue, column.get("type").textValue)
  })

  // Writes only ASCII characters, because metastore databases differ in which other characters they support.
  private val Json = JsonMapper.builder()
    .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS).enable(JsonWriteFeature.ESCAPE_NON_ASCII).build()

  private def json(names: Seq[String]): String = Json.writeValueAsString(names.asJava)

  private def json(columns: Seq[SealedColumn])(implicit ev: DummyImplicit): String = {
    val array = Json.createArrayNode()
    columns.foreach(column =>
      array.addObject().put("name", column.name).put("position", column.position).put("type", column.dataType))
    Json.writeValueAsString(array)
  }
}

/**
 * The digest of an unordered set of files. The digest combines the number of files, their total length, and a sum of hashes over each
 * file's name, length and modification time. The digests of disjoint sets can be added.
 *
 * @param count the number of files
 * @param bytes the total length of the files
 * @param high the sum of the first eight bytes of each file's SHA-256, modulo 2 to the 64
 * @param low the sum of the second eight bytes of each file's SHA-256, modulo 2 to the 64
 * @param of the groups of the files, which are not part of the digest
 */
case class FilesDigest(count: Long, bytes: Long, high: Long, low: Long)(of: => FileGroups) {

  lazy val groups: FileGroups = of

  def +(other: FilesDigest): FilesDigest =
    FilesDigest(count + other.count, bytes + other.bytes, high + other.high, low + other.low)(groups + other.groups)

  /** Adds the hash of a text (times = 1), or subtracts it (times = -1). A seal adds its bucket spec, so that the digest also covers it. */
  def plus(text: String, times: Int): FilesDigest = {
    val (first, second) = FilesDigest.hash(text)
    FilesDigest(count, bytes, high + times * first, low + times * second)(groups)
  }

  def hex: String = f"$high%016x$low%016x"

  /** Returns how many of these files are missing among found files. Without any file, all of them are missing. */
  def missing(found: Seq[FileIdentity]): Long = if (found.isEmpty) count else groups.missing(FileGroups.of(found))
}

/** A data file. The time is its modification time in milliseconds since 1970. */
case class FileIdentity(name: String, length: Long, modified: Long) {
  override def toString: String = s"$name\n$length\n$modified"
}

object FilesDigest {

  private val Digits = "[0-9a-f]{32}".r

  def of(files: Iterable[FileIdentity]): FilesDigest = {
    var (count, bytes, high, low) = (0L, 0L, 0L, 0L)
    files.foreach { file =>
      val (first, second) = hash(file.toString)
      count += 1
      bytes += file.length
      high += first
      low += second
    }
    FilesDigest(count, bytes, high, low)(FileGroups.of(files))
  }

  // Reuses the MessageDigest, because getInstance() takes as long as computing a hash. The method digest() resets it.
  private val sha256 = ThreadLocal.withInitial[MessageDigest](() => MessageDigest.getInstance("SHA-256"))

  private[metadata] def hash(text: String): (Long, Long) = {
    val bytes = ByteBuffer.wrap(sha256.get.digest(text.getBytes(UTF_8)))
    (bytes.getLong, bytes.getLong)
  }

  def parse(count: Long, bytes: Long, hex: String, groups: => FileGroups): Option[FilesDigest] = hex match {
    case Digits() => Some(FilesDigest(count, bytes,
      java.lang.Long.parseUnsignedLong(hex.take(16), 16), java.lang.Long.parseUnsignedLong(hex.drop(16), 16))(groups))
    case _ => None
  }
}

/**
 * The number of files in each group of files. The names of Spark's files contain the id of their job, and the files of a job are a group. Any other file is
 * a group of its own. Names of groups are unique, so groups prove that files are missing: a writer without seals adds groups, or replaces all groups.
 *
 * @param counts the number of files by the name of the group: eight characters for 48 bits of a hash
 */
case class FileGroups(counts: Map[String, Int]) {

  def +(other: FileGroups): FileGroups = FileGroups(other.counts.foldLeft(counts) { case (all, (group, count)) =>
    all.updated(group, all.getOrElse(group, 0) + count)
  })

  /** Returns how many files of these groups are missing among found files. Without any file of these groups, another writer has replaced all files. */
  def missing(found: FileGroups): Long =
    if (!counts.keys.exists(found.counts.contains)) 0
    else {
      // Another writer may have replaced a file without a UUID by one of the same name.
      val names = found.counts.keysIterator.map(_.take(FileGroups.NameLength)).toSet
      counts.iterator.filter { case (group, _) => found.counts.contains(group) || !names(group.take(FileGroups.NameLength)) }
        .map { case (group, count) => math.max(0L, count.toLong - found.counts.getOrElse(group, 0)) }.sum
    }

  /** Returns the text in a seal. Metastore databases limit its length, so it may lack some of the smallest groups. */
  def text: Option[String] = {
    val all = counts.toSeq.sortBy { case (group, count) => (-count, group) }.map { case (group, count) => if (count == 1) group else s"$group$count" }
    val lengths = all.scanLeft(-1)(_ + _.length + 1).tail
    Some(all.take(lengths.count(_ <= FileGroups.Longest)).mkString(",")).filter(_.nonEmpty)
  }
}

object FileGroups {

  // Hive's schema for PostgreSQL, MySQL and Derby.
  private val Longest = 4000
  private val NameLength = 4
  private val Group = "([A-Za-z0-9_-]{8})([0-9]{0,9})".r
  private val Job = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}".r

  def of(files: Iterable[FileIdentity]): FileGroups = {
    val groups = files.groupBy(file => Job.findFirstIn(file.name).toLeft(file))
    FileGroups(groups.map {
      case (Left(job), of) => encoded(job, 6) -> of.size
      case (Right(file), of) => (encoded(file.name, 3) + encoded(file.toString, 3)) -> of.size
    })
  }

  /** Returns the first bytes of the hash of a text as URL-safe Base64, which has four characters for three bytes. */
  private def encoded(text: String, bytes: Int): String =
    Base64.getUrlEncoder.encodeToString(ByteBuffer.allocate(8).putLong(FilesDigest.hash(text)._1).array.take(bytes))

  /** Parses the text in a seal. An unreadable group proves nothing. */
  def parse(text: String): FileGroups =
    FileGroups(text.split(",").toSeq.collect { case Group(name, count) => name -> (if (count.isEmpty) 1 else count.toInt) }.toMap)
}
