package org.apache.spark.sql.bucketing
package ddl

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.metadata.{Build, PartitionSpecs, Publication}
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryCommand}
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.types.StringType

/** What a statement does with builds of a table. */
sealed trait BuildAction
case class StartBuild(build: String) extends BuildAction

/** @param builds the names of the builds' tables, and the ids that they must have */
case class PublishBuild(builds: Seq[(String, Option[String])]) extends BuildAction
case class RecoverBuild(build: String) extends BuildAction

/** The parsed statement ALTER TABLE ... START BUILD, PUBLISH BUILD or RECOVER BUILD. */
case class AlterBuilds(child: LogicalPlan, action: BuildAction) extends UnaryCommand {
  override def output: Seq[Attribute] = AlterBuilds.columns
  override protected def withNewChildInternal(changed: LogicalPlan): LogicalPlan = copy(child = changed)
}

object AlterBuilds {
  val columns: Seq[Attribute] = PartitionSpecs.attributes(("partition", StringType, false))
}

/**
 * Runs a statement on builds. START BUILD returns the partitions that exist in the table, and PUBLISH BUILD the published ones. RECOVER BUILD
 * completes a publication that a crash interrupted, or deletes a build whose publication has not begun.
 */
case class AlterBuildsCommand(name: TableIdentifier, action: BuildAction) extends LeafRunnableCommand {
  override val output: Seq[Attribute] = AlterBuilds.columns

  override def run(session: SparkSession): Seq[Row] = {
    val table = Compat.catalog(session).getTableMetadata(name)
    val partitions = action match {
      case StartBuild(name) => Publication.start(session, table, Build.of(session, table, name))
      case PublishBuild(names) => new Publication(session, table, names.map { case (name, id) => Build.of(session, table, name, id) }).publish()
      case RecoverBuild(name) =>
        // If another statement owns the build, its purpose counts.
        Build.find(session, table, name).foreach(_.own(session, Build.Delete))
        Build.find(session, table, name).foreach(found => new Publication(session, table, Seq(found)).recover())
        Nil
    }
    partitions.map(Row(_))
  }
}
