package org.apache.spark.sql.bucketing

import org.apache.spark.sql.execution.datasources.PartitionedFile

/** What the names of data files say about buckets. Pure. */
object BucketFiles {

  // Hive's own 000003_0, 000003_0_copy_1, and Spark's 00003_0_part-00003-<uuid>_00003.c000.snappy.parquet below Hive
  // tables. Spark's BucketingUtils.getBucketId reads bucket 0 from Hive's names, so it is not used. Trino reads the same.
  private val HiveName = """^(\d{1,9})_\d+.*$""".r
  private val SparkName = """^part-.*_(\d{1,9})(?:\..*)?$""".r
  private val Job = """[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}""".r

  // Cut from the URL, since a table may have a hundred thousand files and a path is costly to parse.
  def nameOf(file: String): String = file.substring(file.lastIndexOf('/') + 1)
  def nameOf(file: PartitionedFile): String = nameOf(file.urlEncodedPath)

  /** The folder of a file, to be compared as text. */
  def folderOf(file: String): String = folder(file.substring(0, file.lastIndexOf('/') max 0))

  // Hadoop has two spellings of a URL without a host.
  def folder(url: String): String = {
    val place = url.indexOf(":///")
    if (place < 0) url else url.substring(0, place + 1) + url.substring(place + 3)
  }

  def folderOf(file: PartitionedFile): String = folderOf(file.urlEncodedPath)

  /** The bucket that a name claims under this layout. */
  def bucketOf(name: String, hash: BucketHash): Option[Int] = (hash, name) match {
    case (BucketHash.Hive, HiveName(id)) => Some(id.toInt)
    case (BucketHash.Spark, SparkName(id)) => Some(id.toInt)
    case _ => None
  }

  /** The write job that made a file: Spark puts one id into the names of all its files. */
  def jobOf(name: String): Option[String] = Job.findFirstIn(name)

  /** Why files of these URLs cannot be those of such a table, if they cannot. */
  def objection(files: Iterator[String], hash: BucketHash, counts: BucketCounts): Option[String] =
    files.map { file =>
      val (name, buckets) = (nameOf(file), counts.of(file))
      bucketOf(name, hash) match {
        case Some(id) if id < buckets => None
        case Some(id) => Some(s"a file of bucket $id, where there are $buckets: $name")
        case None if bucketOf(name, hash.other).isDefined => Some(s"a file of the ${hash.other} layout: $name")
        case None => Some(s"an unbucketed file: $name")
      }
    }.collectFirst { case Some(why) => why }
}
