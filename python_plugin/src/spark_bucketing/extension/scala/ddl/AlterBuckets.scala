package org.apache.spark.sql.bucketing
package ddl

import scala.util.Try

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.hash.BucketHash
import org.apache.spark.sql.bucketing.metadata._
import org.apache.spark.sql.bucketing.read.CurrentReads
import org.apache.spark.sql.bucketing.write.{FileReplacement, SealWriter}
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.analysis.ResolvedTable
import org.apache.spark.sql.catalyst.catalog.{BucketSpec, CatalogTable}
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryCommand}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.connector.catalog.V1Table
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}
import org.apache.spark.sql.execution.command.{AlterTableRenamePartitionCommand, AlterTableSetLocationCommand, ExecutedCommandExec, LeafRunnableCommand, RunnableCommand}
import org.apache.spark.sql.types.StringType

/**
 * A parsed statement that changes the buckets or the files of a table.
 *
 * @param command returns the command of the statement, for the name of the table
 */
case class BucketDdl(child: LogicalPlan)(val command: TableIdentifier => LogicalPlan) extends UnaryCommand {
  override protected def otherCopyArgs: Seq[AnyRef] = Seq(command)
  override protected def withNewChildInternal(changed: LogicalPlan): LogicalPlan = copy(child = changed)(command)
}

object ResolveBucketDdl extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan = plan.resolveOperators {
    case statement @ BucketDdl(ResolvedTable(_, _, found: V1Table, _)) => statement.command(found.v1Table.identifier)
    case BucketDdl(table: ResolvedTable) => throw refused(table)
  }

  private def refused(table: ResolvedTable) = Compat.refusal(
    s"Cannot change `${table.catalog.name}`.${table.identifier}.", "a table in another catalog", "a table in Spark's session catalog",
    "create the table in the session catalog")
}

/**
 * Changes either the bucket spec for later writes to a table, or the descriptor of a partition. Existing files do
 * not change, and their seals still describe them.
 */
case class AlterBucketsCommand(
    name: TableIdentifier, partition: Option[TablePartitionSpec], asked: Option[BucketSpec])
    extends LeafRunnableCommand {

  override def run(session: SparkSession): Seq[Row] = {
    val table = Compat.catalog(session).getTableMetadata(name)
    BucketValidation.checkTable(table)
    WriteTarget.check(session, table, "change the buckets of")
    val spec = asked.map(BucketValidation.spec(table, _))
    val store = PartitionStore.of(session)
    store.check(table, toHiveLayout = spec.isDefined && BucketValidation.isPlainOfSpark(table))
    partition match {
      case Some(given) => describe(session, store, table, find(store, table, BucketValidation.partitionValues(table, given)), spec)
      case None => alterTable(store, table, spec)
    }
    Compat.refresh(session, table.identifier)
    Nil
  }

  private def alterTable(store: PartitionStore, table: CatalogTable, spec: Option[BucketSpec]): Unit = {
    val changes = BucketDescriptor.of(spec) != BucketDescriptor.of(table.bucketSpec)
    val version = BucketHash.stated(table.properties).map(BucketHash.VersionProperty -> _.bucketingVersion).toMap
    if (BucketValidation.isPlainOfSpark(table)) {
      if (changes) {
        val partitions = if (table.partitionColumnNames.isEmpty) Nil else store.list(table)
        val unbucketed = partitions.map(PartitionChange(_, None, Some(BucketDescriptor.Unbucketed)))
        store.change(table, unbucketed, toHiveLayout = true)
        store.alterTable(table, TableChange(spec, version, toHiveLayout = true))
      }
    // Alter the table even if the spec does not change, so that all copies of the spec in the metastore agree.
    } else store.alterTable(table, TableChange(spec, if (changes) version else Map.empty))
  }

  /** Sets the descriptors of partitions. Removes seals that have another spec, so that the next SEAL BUCKETS uses the descriptor. */
  private def describe(
      session: SparkSession, store: PartitionStore, table: CatalogTable, partitions: Seq[StoredPartition], spec: Option[BucketSpec]): Unit = {
    val wanted = BucketDescriptor.of(spec)
    MissingFiles.check(table.identifier, PartitionFiles.list(session, table, partitions), "change the buckets of")
    store.change(table, partitions.map { partition =>
      val kept = partition.seal.flatMap(_.toOption).filter(seal => BucketDescriptor.of(Some(seal.spec.bucketSpec)) == wanted)
      PartitionChange(partition, kept, Some(wanted))
    }.filterNot(_.isDone))
  }

  private def find(store: PartitionStore, table: CatalogTable, values: TablePartitionSpec): Seq[StoredPartition] = {
    val found = store.list(table, values)
    if (found.isEmpty) throw BucketValidation.refused(table,
      s"no partition with ${values.map { case (column, value) => s"$column=$value" }.mkString(", ")}",
      "the values of an existing partition", s"use values that SHOW PARTITIONS ${table.identifier.quotedString} lists")
    found
  }
}

/**
 * Completes or undoes a replacement that a crash interrupted.
 *
 * @param isForced whether to do so even if its statement may still be running
 */
case class RecoverFilesCommand(name: TableIdentifier, isForced: Boolean) extends LeafRunnableCommand {
  override val output: Seq[Attribute] = PartitionSpecs.attributes(("recovered", StringType, false))
  override def run(session: SparkSession): Seq[Row] = {
    val replacement = new FileReplacement(session, Compat.catalog(session).getTableMetadata(name))
    val results = if (isForced) replacement.recover() else replacement.awaitOthers()
    replacement.expire()
    Seq(Row(results.lastOption.getOrElse("nothing")))
  }
}

/**
 * Plans Spark's statements that give files of a table other names, or the table another directory. The record of a replacement is in the table's directory, and
 * names its files. After such a statement, readers would not find the record of a crashed statement or its files, and would return old and new rows.
 */
object PlanMovedFiles extends SparkStrategy {
  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case rename: AlterTableRenamePartitionCommand if BucketingConf.enabled => ExecutedCommandExec(MoveFilesCommand(rename.tableName, rename)) :: Nil
    case move: AlterTableSetLocationCommand if BucketingConf.enabled => ExecutedCommandExec(MoveFilesCommand(move.tableName, move)) :: Nil
    case _ => Nil
  }
}

/** Waits for unfinished replacements, or completes or undoes them after a crash, and then runs the statement. */
case class MoveFilesCommand(name: TableIdentifier, statement: RunnableCommand) extends LeafRunnableCommand {
  override def run(session: SparkSession): Seq[Row] = {
    val table = Compat.catalog(session).getTableMetadata(name)
    if (CurrentReads.isChangeable(table)) new FileReplacement(session, table).awaitOthers()
    val rows = statement.run(session)
    statement match {
      // If the new directory cannot be listed, the statement has succeeded nevertheless.
      case move: AlterTableSetLocationCommand if CurrentReads.isChangeable(table) => Try(unsealOtherFiles(session, move.partitionSpec))
      case _ =>
    }
    rows
  }

  /** Removes the seal if the new directory lacks its files. The user knows that the table has other files now. */
  private def unsealOtherFiles(session: SparkSession, partition: Option[TablePartitionSpec]): Unit = {
    val (table, store) = (Compat.catalog(session).getTableMetadata(name), PartitionStore.of(session))
    val moved = PartitionFiles.list(session, table, partition.toSeq.flatMap(values => store.find(table, Seq(BucketValidation.stored(table, values)))))
    val others = moved.filter(_.missing > 0)
    if (others.nonEmpty) SealWriter.unseal(session, table, others.flatMap(_.partition))
  }
}
