package org.apache.spark.sql.bucketing
package metadata

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.{AnalysisException, SparkSession}
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTablePartition, ExternalCatalogUtils}
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec

/**
 * The complete new content of a partition, in a build directory.
 *
 * @param values the values of all partition columns, as the metastore stores them
 * @param location the directory with the new files; an empty directory for a partition that loses all its rows
 * @param seal the seal of the new files; None if they are not sealed
 * @param read the state of the table's partition when the build read it, from [[Publication.states]]; None if the build
 *             replaces the partition whatever it contains
 */
case class BuiltPartition(values: TablePartitionSpec, location: String, seal: Option[Seal], read: Option[String]) {
  def isEmpty: Boolean = BuildDirectory.isEmptyName(new Path(location).getName)
}

/**
 * Publishes builds of partitioned tables. Readers see the old rows of all partitions or the new rows of all partitions.
 *
 * The metastore changes up to a thousand partitions in one transaction: their location, seal and descriptor. It creates new
 * partitions in an earlier transaction, with an empty directory, so that rows change in one transaction only.
 */
object Publication {

  /** The parameter of a build's partition with the state of the table's partition that the build read. */
  val Read = "bucketing.read"

  /** The state of a partition that does not exist. */
  val Absent = "absent"

  /** Returns the current state of partitions by name: their directory and files. */
  def states(session: SparkSession, table: CatalogTable, values: Seq[TablePartitionSpec]): Map[String, String] = {
    val store = PartitionStore.of(session)
    val conf = Compat.hadoopConf(session)
    val found = PartitionFiles.atOnce(store.find(table, values)) { partition =>
      val files = PartitionFiles.digest(PartitionFiles.children(new Path(partition.location), conf)._1)
      partition.name -> s"${files.count} files, ${files.bytes} bytes, ${files.hex} in ${partition.location}"
    }.toMap
    values.map(store.nameOf(table, _)).map(name => name -> found.getOrElse(name, Absent)).toMap
  }

  /**
   * Points partitions of a table to their new content. Then deletes the default directories of these partitions.
   *
   * @throws AnalysisException if a partition is no longer in the state that the build read. Nothing has changed then.
   */
  def publish(session: SparkSession, table: CatalogTable, built: Seq[BuiltPartition]): Unit = {
    checkFiles(session, table, built)
    checkStates(session, table, built)
    withEmpty(session, built).grouped(PartitionStore.AtATime).foreach(publishTogether(session, table, _))
    new BuildCleanup(session, table).deleteDefaults(built.map(_.values))
    Compat.updateStatistics(session, table)
    Compat.refresh(session, table.identifier)
  }

  private def publishTogether(session: SparkSession, table: CatalogTable, built: Seq[BuiltPartition]): Unit = {
    val store = PartitionStore.of(session)
    val existing = store.find(table, built.map(_.values)).map(_.name).toSet
    val (old, absent) = built.partition(partition => existing(store.nameOf(table, partition.values)))
    val added = absent.filterNot(_.isEmpty)
    if (added.nonEmpty) Compat.externalCatalog(session).createPartitions(table.database, table.identifier.table, added.map { partition =>
      if (old.isEmpty) described(table, partition, new Path(partition.location), partition.seal)
      else described(table, partition, emptyDirectory(session, partition), None)
    }, ignoreIfExists = false)
    if (old.nonEmpty) {
      val now = store.find(table, built.map(_.values)).map(partition => partition.name -> partition).toMap
      store.change(table, (old ++ added).map { partition =>
        val found = now.getOrElse(store.nameOf(table, partition.values), throw changed(store.nameOf(table, partition.values), table))
        val buckets = partition.seal.map(_.spec).filter(_.hash.inHiveLayout).map(spec => BucketDescriptor.of(Some(spec.bucketSpec)))
        PartitionChange(found, partition.seal, buckets, location = Some(partition.location))
      })
    }
  }

  private def described(table: CatalogTable, partition: BuiltPartition, location: Path, seal: Option[Seal]): CatalogTablePartition =
    CatalogTablePartition(partition.values, table.storage.copy(locationUri = Some(location.toUri)),
      PartitionStore.withSeal(Map.empty, seal))

  /** Points partitions without rows to a directory whose name tells the next cleanup to drop them. */
  private def withEmpty(session: SparkSession, built: Seq[BuiltPartition]): Seq[BuiltPartition] = {
    val (filled, others) = built.partition(_.seal.isDefined)
    filled ++ PartitionFiles.atOnce(others) { partition =>
      val (files, _) = PartitionFiles.children(new Path(partition.location), Compat.hadoopConf(session))
      if (files.isEmpty) partition.copy(location = emptyDirectory(session, partition).toString) else partition
    }
  }

  private def emptyDirectory(session: SparkSession, partition: BuiltPartition): Path = {
    val folder = BuildDirectory.emptyOf(new Path(partition.location))
    folder.getFileSystem(Compat.hadoopConf(session)).mkdirs(folder)
    folder
  }

  /** Checks that the build still has its files. Another run of the same model may have deleted them. */
  private def checkFiles(session: SparkSession, table: CatalogTable, built: Seq[BuiltPartition]): Unit = {
    val conf = Compat.hadoopConf(session)
    val store = PartitionStore.of(session)
    val sealedOnes = built.filter(_.seal.isDefined)
    PartitionFiles.atOnce(sealedOnes) { partition =>
      val files = PartitionFiles.digest(PartitionFiles.children(new Path(partition.location), conf)._1)
      if (partition.seal.exists(_.files == files)) None else Some(partition)
    }.flatten.headOption.foreach { partition =>
      throw refused(table, s"found other files in ${partition.location} than the build of ${store.nameOf(table, partition.values)} has written",
        "a build that nothing has changed", "run the model again, only once at a time")
    }
  }

  private def checkStates(session: SparkSession, table: CatalogTable, built: Seq[BuiltPartition]): Unit = {
    val reading = built.filter(_.read.isDefined)
    val now = states(session, table, reading.map(_.values))
    val store = PartitionStore.of(session)
    reading.map(partition => store.nameOf(table, partition.values) -> partition.read.get)
      .find { case (name, read) => now(name) != read }
      .foreach { case (name, _) => throw changed(name, table) }
  }

  private def changed(name: String, table: CatalogTable): AnalysisException = refused(table,
    s"another statement has written to the partition $name since the build read it", "no other write to the partition at the same time",
    "run the model again, which reads the new rows")

  def refused(table: CatalogTable, found: String, expected: String, instead: String): AnalysisException = Compat.refusal(
    s"Cannot publish a build of ${table.identifier.quotedString}, which is unchanged: $found. Expected $expected. Instead: $instead.")
}
