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
        val found = find(store, table, BucketDdl.partitionValues(table, given))
        PartitionRecords.correct(store, table, found.map(_ -> PartitionRecord.of(spec)))
      case None => alterTable(store, table, spec)
    }
    Compat.refresh(session, table.identifier)
    Nil
  }

  private def alterTable(store: PartitionStore, table: CatalogTable, spec: Option[BucketSpec]): Unit = {
    val changes = PartitionRecord.of(spec) != PartitionRecord.of(table.bucketSpec)
    val properties = PartitionRecords.properties(table)
    def partitions = if (table.partitionColumnNames.isEmpty) Nil else store.list(table)
    if (BucketDdl.isPlainOfSpark(table)) {
      if (changes) {
        store.record(table, partitions.map(_ -> PartitionRecord.Unbucketed), toHiveLayout = true)
        store.alterTable(table, TableChange(spec, properties, toHiveLayout = true))
      }
    } else {
      if (changes) store.recordMissing(table, PartitionRecords.unrecorded(table, partitions))
      // Also where nothing changes, so that the places that keep the spec agree.
      store.alterTable(table, TableChange(spec, if (changes) properties else Map.empty))
    }
  }

  private def find(store: PartitionStore, table: CatalogTable, values: TablePartitionSpec): Seq[StoredPartition] = {
    val found = store.list(table, values)
    if (found.isEmpty) throw BucketDdl.refused(table,
      s"found no partition with ${values.map { case (column, value) => s"$column=$value" }.mkString(", ")}",
      "values of partitions that there are", s"values that SHOW PARTITIONS ${table.identifier.quotedString} lists")
    found
  }
}
