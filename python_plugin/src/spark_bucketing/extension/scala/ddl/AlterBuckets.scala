package org.apache.spark.sql.bucketing
package ddl

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.metadata._
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.ResolvedTable
import org.apache.spark.sql.catalyst.catalog.{BucketSpec, CatalogTable}
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryCommand}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector.catalog.V1Table
import org.apache.spark.sql.execution.command.LeafRunnableCommand

/** ALTER TABLE ... [NOT] CLUSTERED as it was parsed. */
case class AlterBuckets(child: LogicalPlan, partition: Option[TablePartitionSpec], asked: Option[BucketSpec])
    extends UnaryCommand {
  override protected def withNewChildInternal(changed: LogicalPlan): LogicalPlan = copy(child = changed)
}

object ResolveBucketDdl extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case AlterBuckets(ResolvedTable(_, _, found: V1Table, _), partition, asked) =>
      AlterBucketsCommand(found.v1Table.identifier, partition, asked)
    case SealBuckets(ResolvedTable(_, _, found: V1Table, _), partition, asked) =>
      SealBucketsCommand(found.v1Table.identifier, partition, asked)
    case ReplaceFiles(ResolvedTable(_, _, found: V1Table, _), Some((listed, staged))) =>
      ReplaceFilesCommand(found.v1Table.identifier, listed, staged)
    case ReplaceFiles(ResolvedTable(_, _, found: V1Table, _), None) => RecoverFilesCommand(found.v1Table.identifier)
    case ReplaceFiles(table: ResolvedTable, _) => throw refused(table)
    case AlterBuckets(table: ResolvedTable, _, _) => throw refused(table)
    case SealBuckets(table: ResolvedTable, _, _) => throw refused(table)
  }

  private def refused(table: ResolvedTable) = Compat.refusal(
    s"Cannot change ${table.catalog.name}.${table.identifier}: expected a table in Spark's session " +
      "catalog, found a table of another catalog. Create it in the session catalog.")
}

/**
 * Changes the spec of a table, by which it is written from now on; or what the descriptor of a partition says. Files stay
 * what they are: they are read by their seals.
 */
case class AlterBucketsCommand(
    name: TableIdentifier, partition: Option[TablePartitionSpec], asked: Option[BucketSpec])
    extends LeafRunnableCommand {

  override def run(session: SparkSession): Seq[Row] = {
    val table = Compat.catalog(session).getTableMetadata(name)
    BucketDdl.checkTable(table)
    val spec = asked.map(BucketDdl.spec(table, _))
    val store = PartitionStore.of(session)
    store.check(table, toHiveLayout = spec.isDefined && BucketDdl.isPlainOfSpark(table))
    partition match {
      case Some(given) => describe(store, table, find(store, table, BucketDdl.partitionValues(table, given)), spec)
      case None => alterTable(store, table, spec)
    }
    Compat.refresh(session, table.identifier)
    Nil
  }

  private def alterTable(store: PartitionStore, table: CatalogTable, spec: Option[BucketSpec]): Unit = {
    val changes = BucketDescriptor.of(spec) != BucketDescriptor.of(table.bucketSpec)
    val version = Map("bucketing_version" -> table.properties.getOrElse("bucketing_version", "1"))
    if (BucketDdl.isPlainOfSpark(table)) {
      if (changes) {
        val partitions = if (table.partitionColumnNames.isEmpty) Nil else store.list(table)
        val unbucketed = partitions.map(PartitionChange(_, None, Some(BucketDescriptor.Unbucketed)))
        store.change(table, unbucketed, toHiveLayout = true)
        store.alterTable(table, TableChange(spec, version, toHiveLayout = true))
      }
    // Also where nothing changes, so that the places that keep the spec agree.
    } else store.alterTable(table, TableChange(spec, if (changes) version else Map.empty))
  }

  /** A seal of other buckets than a descriptor's goes: it is the descriptor that is to be believed, and sealed next. */
  private def describe(
      store: PartitionStore, table: CatalogTable, partitions: Seq[StoredPartition], spec: Option[BucketSpec]): Unit = {
    val wanted = BucketDescriptor.of(spec)
    store.change(table, partitions.map { partition =>
      val kept = partition.seal.flatMap(_.toOption).filter(seal => BucketDescriptor.of(Some(seal.spec.bucketSpec)) == wanted)
      PartitionChange(partition, kept, Some(wanted))
    }.filterNot(_.isDone))
  }

  private def find(store: PartitionStore, table: CatalogTable, values: TablePartitionSpec): Seq[StoredPartition] = {
    val found = store.list(table, values)
    if (found.isEmpty) throw BucketDdl.refused(table,
      s"found no partition with ${values.map { case (column, value) => s"$column=$value" }.mkString(", ")}",
      "values of partitions that there are", s"values that SHOW PARTITIONS ${table.identifier.quotedString} lists")
    found
  }
}
