package org.apache.spark.sql.bucketing

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.ResolvedTable
import org.apache.spark.sql.catalyst.catalog.{BucketSpec, CatalogTable}
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryCommand}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector.catalog.V1Table
import org.apache.spark.sql.execution.command.LeafRunnableCommand

/** ALTER TABLE ... [NOT] CLUSTERED as it was parsed. */
case class AlterBuckets(child: LogicalPlan, partition: Option[TablePartitionSpec], asked: Option[AskedBuckets])
    extends UnaryCommand {
  override protected def withNewChildInternal(changed: LogicalPlan): LogicalPlan = copy(child = changed)
}

object ResolveAlterBuckets extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case AlterBuckets(ResolvedTable(_, _, found: V1Table, _), partition, asked) =>
      AlterBucketsCommand(found.v1Table.identifier, partition, asked)
    case AlterBuckets(table: ResolvedTable, _, _) => throw Compat.refusal(
      s"Cannot change the buckets of ${table.catalog.name}.${table.identifier}: expected a table of the Hive layout " +
        "in Spark's session catalog, found a table of another catalog. Create it STORED AS PARQUET in the session " +
        "catalog.")
  }
}

/**
 * Changes the spec of a table, or corrects the records of partitions.
 *
 * The partitions come first: each one without a record gets that of the spec by which it was read so far. A process
 * that dies after that has changed nothing for readers.
 */
case class AlterBucketsCommand(
    name: TableIdentifier, partition: Option[TablePartitionSpec], asked: Option[AskedBuckets])
    extends LeafRunnableCommand {

  override def run(session: SparkSession): Seq[Row] = {
    val table = Compat.catalog(session).getTableMetadata(name)
    BucketDdl.checkTable(table)
    val spec = asked.map(BucketDdl.spec(table, _))
    val store = PartitionStore.of(session)
    store.check(table, toHiveLayout = spec.isDefined && BucketDdl.isPlainOfSpark(table))
    partition match {
      case Some(given) =>
        alterPartitions(store, table, BucketDdl.partitionValues(table, given), PartitionRecord.of(spec))
      case None => alterTable(store, table, spec)
    }
    Compat.refresh(session, table.identifier)
    Nil
  }

  private def alterTable(store: PartitionStore, table: CatalogTable, spec: Option[BucketSpec]): Unit = {
    val changes = PartitionRecord.of(spec) != PartitionRecord.of(table.bucketSpec)
    if (BucketDdl.isPlainOfSpark(table)) {
      if (changes) {
        store.record(table, partitions(store, table).map(_ -> PartitionRecord.Unbucketed), toHiveLayout = true)
        store.alterTable(table, TableChange(spec, properties(table), toHiveLayout = true))
      }
    } else {
      if (changes) store.recordMissing(table, unrecorded(table, partitions(store, table)))
      // Also where nothing changes, so that the places that keep the spec agree.
      store.alterTable(table, TableChange(spec, if (changes) properties(table) else Map.empty))
    }
  }

  private def alterPartitions(
      store: PartitionStore, table: CatalogTable, values: TablePartitionSpec, record: PartitionRecord): Unit = {
    val found = store.list(table, values)
    if (found.isEmpty) throw BucketDdl.refused(table,
      s"found no partition with ${values.map { case (column, value) => s"$column=$value" }.mkString(", ")}",
      "values of partitions that there are", s"values that SHOW PARTITIONS ${table.identifier.quotedString} lists")
    val asked = found.filterNot(_.has(record)).map(_ -> record)
    if (isEvolved(table)) store.record(table, asked)
    else {
      val names = found.map(_.name).toSet
      val others = partitions(store, table).filterNot(other => names.contains(other.name))
      store.record(table, asked)
      store.recordMissing(table, unrecorded(table, others))
      store.alterTable(table, TableChange(table.bucketSpec, properties(table)))
    }
  }

  private def partitions(store: PartitionStore, table: CatalogTable): Seq[StoredPartition] =
    if (table.partitionColumnNames.isEmpty) Nil else store.list(table)

  /** Partitions without a record, with that of the spec by which they are read so far: their own, or the table's. */
  private def unrecorded(table: CatalogTable, all: Seq[StoredPartition]): Seq[(StoredPartition, PartitionRecord)] =
    all.filter(_.record.isEmpty).map { partition =>
      partition -> partition.described.flatMap(_.record).getOrElse(PartitionRecord.of(table.bucketSpec))
    }

  private def isEvolved(table: CatalogTable): Boolean = table.properties.get(PartitionRecord.Evolved).contains("true")

  private def properties(table: CatalogTable): Map[String, String] =
    Map("bucketing_version" -> table.properties.getOrElse("bucketing_version", "1"), PartitionRecord.Evolved -> "true")
}
