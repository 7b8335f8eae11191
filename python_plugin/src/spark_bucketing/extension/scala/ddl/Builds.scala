package org.apache.spark.sql.bucketing
package ddl

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.metadata._
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, UnaryCommand}
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.types.LongType

/** What a statement does with the builds of a table. */
sealed trait BuildAction
case class StartBuild(build: String) extends BuildAction
case class PublishBuild(build: String) extends BuildAction
case object CleanBuilds extends BuildAction

/** The parsed statement ALTER TABLE ... START BUILD, PUBLISH BUILD or CLEAN BUILDS. */
case class AlterBuilds(child: LogicalPlan, action: BuildAction) extends UnaryCommand {
  override def output: Seq[Attribute] = AlterBuilds.columns(action)
  override protected def withNewChildInternal(changed: LogicalPlan): LogicalPlan = copy(child = changed)
}

object AlterBuilds {
  def columns(action: BuildAction): Seq[Attribute] = PartitionSpecs.attributes((action match {
    case _: StartBuild => "existing"
    case _: PublishBuild => "published"
    case CleanBuilds => "deleted"
  }, LongType, false))
}

/** Runs one of the statements on builds. Each returns the number of partitions or directories. */
case class AlterBuildsCommand(name: TableIdentifier, action: BuildAction) extends LeafRunnableCommand {
  override val output: Seq[Attribute] = AlterBuilds.columns(action)

  override def run(session: SparkSession): Seq[Row] = {
    val table = Compat.catalog(session).getTableMetadata(name)
    val count = action match {
      case StartBuild(build) => new BuildOfTable(session, table, build).start()
      case PublishBuild(build) => new BuildOfTable(session, table, build).publish()
      case CleanBuilds => new BuildCleanup(session, table).run()
    }
    Seq(Row(count.toLong))
  }
}

/** A build of a partitioned table: an external table on a build directory, whose partitions replace those of the table. */
private class BuildOfTable(session: SparkSession, table: CatalogTable, build: String) {

  private val store = PartitionStore.of(session)
  private val source = Compat.catalog(session).getTableMetadata(Compat.tableNamed(session, build))

  if (table.partitionColumnNames.isEmpty) throw Publication.refused(table, "found a table without partitions", "a partitioned table",
    s"run ALTER TABLE ${table.identifier.quotedString} SET LOCATION")
  if (!BuildDirectory.isOf(table, new Path(source.location))) throw Publication.refused(table,
    s"found that ${source.identifier.quotedString} is at ${source.location}", s"a table at ${BuildDirectory.example(table)}", "create the build there")
  if (SealedSpec.lower(source.partitionColumnNames) != SealedSpec.lower(table.partitionColumnNames)) throw Publication.refused(table,
    s"found that ${source.identifier.quotedString} is partitioned by ${source.partitionColumnNames.mkString(", ")}",
    s"the partition columns ${table.partitionColumnNames.mkString(", ")}", "create the build with these columns")

  /** Records what the table contains in each partition of the build. Returns the number of these partitions that have files. */
  def start(): Int = {
    val partitions = store.list(source)
    val states = Publication.states(session, table, partitions.map(valuesOf))
    store.change(source, partitions.map { partition =>
      PartitionChange(partition, partition.seal.flatMap(_.toOption), None, parameters = Map(Publication.Read -> states(partition.name)))
    })
    states.values.count(_ != Publication.Absent)
  }

  def publish(): Int = {
    val partitions = store.list(source)
    Publication.publish(session, table, partitions.map { partition =>
      BuiltPartition(valuesOf(partition), partition.location, partition.seal.flatMap(_.toOption), partition.parameters.get(Publication.Read))
    })
    partitions.length
  }

  private def valuesOf(partition: StoredPartition): TablePartitionSpec = PartitionStore.valuesOf(table, partition.name)
}
