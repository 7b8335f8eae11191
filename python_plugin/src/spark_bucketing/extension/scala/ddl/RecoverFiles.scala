package org.apache.spark.sql.bucketing
package ddl

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.metadata.PartitionSpecs
import org.apache.spark.sql.bucketing.write.FileReplacement
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryCommand}
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.types.StringType

/** The parsed statement ALTER TABLE ... RECOVER FILES. */
case class RecoverFiles(child: LogicalPlan) extends UnaryCommand {
  override def output: Seq[Attribute] = RecoverFiles.columns
  override protected def withNewChildInternal(changed: LogicalPlan): LogicalPlan = copy(child = changed)
}

object RecoverFiles {
  val columns: Seq[Attribute] = PartitionSpecs.attributes(("recovered", StringType, false))
}

/** Completes or undoes a replacement that a crash interrupted. */
case class RecoverFilesCommand(name: TableIdentifier) extends LeafRunnableCommand {
  override val output: Seq[Attribute] = RecoverFiles.columns
  override def run(session: SparkSession): Seq[Row] =
    Seq(Row(new FileReplacement(session, Compat.catalog(session).getTableMetadata(name)).recover()))
}
