package org.apache.spark.sql.bucketing

import java.io.Closeable

import scala.util.control.NonFatal

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes
import org.apache.spark.sql.execution.datasources.{FileFormat, PartitionedFile}
import org.apache.spark.sql.types.StructType

/**
 * Looks into a few files while a query is planned: are the first rows in the bucket that the file's name says, and in
 * order? One file speaks for the files that the same write job put into the same folder, so every job is asked for a
 * file as long as the limit lasts. What was seen of a version of a file is remembered.
 */
object BucketProbe {

  def objection(scan: BucketScan, files: Array[PartitionedFile]): Option[String] = {
    lazy val read = new BucketProbe(scan)
    chosen(files, BucketingConf.probeFiles).iterator
      .map(file => lookInto(read, scan.read, file)).collectFirst { case Some(why) => why }
  }

  /** Of a file that cannot be read nothing is known; what to do about it is up to the query. */
  private def lookInto(probe: => BucketProbe, read: BucketRead, file: PartitionedFile): Option[String] = {
    val own = read.of.copy(buckets = read.counts.of(file.urlEncodedPath))
    try BucketTrust.probe(FileVersion(file), own)(probe.look(file, own.buckets))
    catch { case NonFatal(_) => Some(s"a file that could not be read: ${BucketFiles.nameOf(file)}") }
  }

  /** The largest file and the smallest one of each job and folder: first of all one of each, then the others. */
  private def chosen(files: Array[PartitionedFile], limit: Int): Seq[PartitionedFile] = {
    val groups = files.groupBy(f => (BucketFiles.folderOf(f), BucketFiles.jobOf(BucketFiles.nameOf(f)))).values.toSeq
      .map(_.sortBy(-_.length)).sortBy(-_.head.length)
    (groups.map(_.head) ++ groups.filter(_.length > 1).map(_.last)).take(limit)
  }
}

private class BucketProbe(scan: BucketScan) {

  private val of = scan.read.of
  private val schema = StructType((of.keys ++ of.sorts).distinct.map(name => scan.requiredSchema(name)))
  private val attributes = toAttributes(schema)

  private def column(name: String): Expression =
    BindReferences.bindReference(attributes.find(_.name == name).get: Expression, attributes)

  private val sortColumns = of.sorts.map(column)
  private val ordering = new InterpretedOrdering(sortColumns.map(SortOrder(_, Ascending)))

  /** What speaks against a file of one of so many buckets. */
  def look(file: PartitionedFile, buckets: Int): Option[String] = {
    val bucket = of.hash.partitioning(of.keys.map(column), buckets).partitionIdExpression
    val name = BucketFiles.nameOf(file)
    val expected = BucketFiles.bucketOf(name, of.hash).get
    var last: InternalRow = null
    var objection: Option[String] = None
    rows(file) { row =>
      val found = bucket.eval(row).asInstanceOf[Int]
      if (found != expected) objection = Some(s"a row of bucket $found in a file of bucket $expected: $name")
      else if (last != null && ordering.gt(last, row)) objection = Some(s"an unsorted file: $name")
      last = row.copy()
      objection.isEmpty
    }
    objection
  }

  /** Gives the first rows to `see` until it has seen enough. */
  private def rows(file: PartitionedFile)(see: InternalRow => Boolean): Unit = {
    val relation = scan.relation
    val session = relation.sparkSession
    val batches = relation.fileFormat.supportBatch(session, schema)
    val read = relation.fileFormat.buildReaderWithPartitionValues(
      session, relation.dataSchema, new StructType, schema, Nil,
      relation.options + (FileFormat.OPTION_RETURNING_BATCH -> batches.toString),
      session.sessionState.newHadoopConfWithOptions(relation.options))
    val found = read(file.copy(partitionValues = InternalRow.empty)).asInstanceOf[Iterator[AnyRef]]
    try BucketScan.rows(found.asInstanceOf[Iterator[InternalRow]]).take(BucketingConf.probeRows).takeWhile(see).foreach(_ => ())
    finally close(found)
  }

  // Readers close their file with the task that they run in, of which there is none, or at the end of the file.
  private def close(found: Iterator[AnyRef]): Unit = found match {
    case open: Closeable => open.close()
    case _ => found.foreach(_ => ())
  }
}
