package org.apache.spark.sql.bucketing
package read

import org.apache.hadoop.fs.FileStatus

import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.bucketing.compat.Tasks
import org.apache.spark.sql.bucketing.metadata._
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes
import org.apache.spark.sql.execution.datasources.{FilePartition, HadoopFsRelation, PartitionedFile}
import org.apache.spark.sql.types.{DateType, StructType}

/**
 * The result of validating a file against a bucket spec.
 *
 * @param misplaced why the file is not a valid bucket of the spec, or None if it is
 * @param unsorted why the file is not sorted by the spec's sort columns, or None if it is
 */
case class FileValidation(misplaced: Option[String], unsorted: Option[String])

/**
 * Validates files against bucket specs. A Spark job reads the bucket and sort columns of each file once.
 *
 * @param specs bucket specs whose columns match the relation
 */
class BucketFileValidator(relation: HadoopFsRelation, table: String, specs: Seq[SealedSpec]) {

  private val columns = specs.flatMap(_.schema.map(_.position)).distinct.sorted
  private val schema = StructType(columns.map(relation.dataSchema(_)))

  /** Returns one sequence for each file, which contains one result for each spec. Files and specs have the order of the arguments. */
  def of(files: Seq[FileStatus]): Seq[Seq[FileValidation]] = if (files.isEmpty) Nil else {
    val session = relation.sparkSession
    val open = BucketScan.reader(relation, table, new StructType, schema, Nil, relation.fileFormat.supportBatch(session, schema))
    val (wanted, read) = (specs, schema)
    // Small files share a task.
    val tasks = FilePartition.getFilePartitions(session, files.map(partitioned), session.sessionState.conf.filesMaxPartitionBytes).map(_.files.toList)
    session.sparkContext.setJobDescription(s"Validate the buckets of ${files.length} files of table $table")
    try Tasks.run(session.sparkContext.range(0, tasks.length, 1, tasks.length)) { (task, _) =>
      tasks(task.partitionId()).map(file => BucketFileValidator.validate(BucketFiles.nameOf(file), BucketScan.rows(open(file)), wanted, read))
    }.flatten finally session.sparkContext.setJobDescription(null)
  }

  private def partitioned(file: FileStatus): PartitionedFile =
    PartitionedFile(InternalRow.empty, SparkPath.fromFileStatus(file), 0, file.getLen, Array.empty, file.getModificationTime,
      file.getLen)
}

private object BucketFileValidator {

  def validate(name: String, rows: Iterator[InternalRow], specs: Seq[SealedSpec], schema: StructType): Seq[FileValidation] = {
    val checks = specs.map(new FileCheck(name, _, schema))
    // Stops at the first row that proves that the file matches no spec.
    while (checks.exists(_.matches) && rows.hasNext) {
      val row = rows.next()
      checks.foreach(_.check(row))
    }
    checks.map(_.result)
  }

  private class FileCheck(name: String, spec: SealedSpec, schema: StructType) {

    private val attributes = toAttributes(schema)
    private val expected = BucketFiles.bucketOf(name, spec.hash).filter(_ < spec.numBuckets)
    private val days = schema.fields.zipWithIndex.collect {
      case (field, i) if field.dataType == DateType && spec.schema.exists(_.name.equalsIgnoreCase(field.name)) => i
    }
    private var misplaced: Option[String] = if (expected.isDefined) None else Some(
      BucketFiles.bucketOf(name, spec.hash).fold(s"no bucket id in the file name: $name") { bucket =>
        s"a file of bucket $bucket, but the spec has ${spec.numBuckets} buckets: $name"
      })
    private var unsorted: Option[String] = None
    private var last: InternalRow = _

    private def column(name: String): Expression =
      BindReferences.bindReference(attributes.find(_.name.equalsIgnoreCase(name)).get: Expression, attributes)

    private val bucket = spec.hash.bucketId(spec.columns.map(column), spec.numBuckets)
    private val sortKey = UnsafeProjection.create(spec.sortColumns.map(column))
    private val ordering = RowOrdering.createNaturalAscendingOrdering(spec.sortColumns.map(column(_).dataType))

    def matches: Boolean = misplaced.isEmpty

    def check(row: InternalRow): Unit = if (matches) {
      val found = bucket.eval(row).asInstanceOf[Int]
      if (found != expected.get) misplaced = Some(s"a row of bucket $found in a file of bucket ${expected.get}: $name")
      else if (days.exists(SealedSpec.isBeforeGregorian(row, _)))
        misplaced = Some(s"a date before 1582-10-15, which engines interpret differently: $name")
      else if (spec.sortColumns.nonEmpty && unsorted.isEmpty) {
        val key = sortKey(row)
        if (last != null && ordering.gt(last, key)) unsorted = Some(s"rows not sorted by ${spec.sortColumns.mkString(", ")}: $name")
        last = key.copy()
      }
    }

    def result: FileValidation = FileValidation(misplaced, unsorted)
  }
}
