package org.apache.spark.sql.bucketing
package metadata

import org.apache.hadoop.fs.Path

import org.apache.spark.internal.Logging
import org.apache.spark.sql.{AnalysisException, SparkSession}
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTablePartition, ExternalCatalogUtils}
import org.apache.spark.sql.execution.command.DDLUtils

/**
 * Points partitions of a table to builds. One metastore transaction changes all partitions, so that readers see the old rows of
 * all of them, or the new rows of all of them.
 *
 * It records the directory that it replaces in a parameter of each partition, and then deletes default directories: a partition that is
 * dropped and created again would get their files. Directories in builds stay until the next publication of the same partition,
 * so that running queries can finish.
 */
class Publication(session: SparkSession, table: CatalogTable, builds: Seq[Build]) extends Logging {
  import Publication._

  private val conf = Compat.hadoopConf(session)
  private val store = PartitionStore.of(session)
  private lazy val directoriesBefore = new ReplacedDirectories(table, store.list(table), conf)

  /** Publishes the builds, and drops their tables. If several builds have the same partition, the last one counts. Returns the partitions. */
  def publish(): Seq[String] = {
    builds.foreach(checkBuild(table, _))
    val all = for (build <- builds; partition <- build.partitions) yield BuiltPartition(build, partition)
    val latest = all.map(built => built.name -> built).toMap
    if (latest.isEmpty) {
      own(Build.Delete)
      delete()
    } else {
      val old = store.find(table, all.map(_.valuesIn(table))).map(partition => partition.name -> partition).toMap
      val states = PartitionFiles.atOnce(old.values.toSeq)(partition => partition.name -> DirectoryState.of(partition.location, conf)).toMap
      check(all, latest.values.toSeq, old, states)
      val filled = filledOf(latest.values.toSeq)
      own(Build.Publish)
      deleteEarlier(old, all.filterNot(built => latest(built.name) eq built))
      change(latest.values.toSeq.filter(built => filled(built.name) || old.contains(built.name)), old, states)
      Compat.refresh(session, table.identifier)
      // As soon as possible: until then, a partition that is dropped and created again gets the rows in its default directory.
      finish()
      Compat.updateStatistics(session, table)
    }
    latest.keys.toSeq.sorted
  }

  /** Makes this statement the owner of all builds. Before that, another statement may delete their files; after that, no statement deletes them. */
  private def own(purpose: String): Unit = builds.foreach { build =>
    if (!build.own(session, purpose)) throw Build.lost(table, s"no build of this run in ${build.table.identifier.quotedString}")
  }

  /** Completes what the owner of the builds has begun. */
  def recover(): Unit = {
    def isOwnedTo(purpose: String) = builds.forall(_.purpose.contains(purpose))
    if (isOwnedTo(Build.Delete)) delete() else if (isOwnedTo(Build.Publish)) finish()
  }

  /** Completes a publication after its transaction: deletes default directories, and drops partitions without rows and the builds. */
  private def finish(): Unit = {
    val partitions = if (table.partitionColumnNames.isEmpty) Nil else store.list(table)
    val own = partitions.filter(partition => builds.exists(build => isIn(partition, build)))
    val isEmpty = PartitionFiles.atOnce(own)(partition => partition.name -> DirectoryState.files(new Path(partition.location), conf).isEmpty).toMap
    // Another run may have filled or moved the partition since.
    val empty = store.find(table, own.filter(partition => isEmpty(partition.name)).map(partition => PartitionStore.valuesOf(table, partition.name)))
      .filter(partition => own.exists(_.isSame(partition)) && DirectoryState.files(new Path(partition.location), conf).isEmpty)
    if (empty.nonEmpty) {
      // Retains the data, because only the conditions of ReplacedDirectories decide what is deleted.
      Compat.externalCatalog(session).dropPartitions(table.database, table.identifier.table,
        empty.map(partition => PartitionStore.valuesOf(table, partition.name)), ignoreIfNotExists = true, purge = false, retainData = true)
      Compat.refresh(session, table.identifier)
    }
    val directories = new ReplacedDirectories(table, partitions.filterNot(partition => empty.exists(_.name == partition.name)), conf)
    PartitionFiles.atOnce(own)(partition => directories.delete(partition)(name => isEmpty(partition.name) || !directories.isInBuild(name)))
    empty.foreach(partition => directories.deleteEmptyBuild(new Path(partition.location)))
    builds.foreach { build =>
      val places = placesOfNew(build)
      if (!directories.deleteWithoutFiles(places)) logWarning(s"$places stays, because another statement has written files to it. No query reads them")
      directories.deleteEmptyBuild(build.location)
      if (!own.exists(isIn(_, build)) && DirectoryState.files(build.location, conf).nonEmpty)
        logWarning(s"${build.location} stays, because its publication has begun. No partition of ${table.identifier.quotedString} points to it")
      build.drop(session)
    }
    val unused = directories.unusedBuilds
    if (unused.nonEmpty) logWarning(s"No partition of ${table.identifier.quotedString} uses these directories of ${table.location}, and no build will delete them: " +
      s"${unused.mkString(", ")}. If no run of the model is active, they can be deleted")
  }

  /** Deletes the directories of builds that are not published, and drops their tables. */
  private def delete(): Unit = {
    val partitions = if (table.partitionColumnNames.isEmpty) Nil else store.list(table)
    val directories = new ReplacedDirectories(table, partitions, conf)
    builds.foreach { build =>
      if (directories.below(build.location).exists(name => directories.isInBuild(name)) && !directories.isUsed(build.location))
        build.location.getFileSystem(conf).delete(build.location, true)
      build.drop(session)
    }
  }

  private def check(all: Seq[BuiltPartition], latest: Seq[BuiltPartition], old: Map[String, StoredPartition], states: Map[String, DirectoryState]): Unit = {
    builds.foreach(checkColumns(table, _))
    val recorded = all.flatMap(built => built.read.map(built.name -> _)).groupBy(_._1)
    latest.foreach { found =>
      val read = recorded.getOrElse(found.name, Nil).map(_._2)
      if (read.exists(_ != states.get(found.name).fold(Absent)(_.toString))) throw changed(table, found.name)
      val inTable = s"of ${found.build.table.identifier.quotedString}"
      if (recorded.nonEmpty && read.isEmpty) throw refused(table, s"new rows in the partition ${found.name} $inTable, which START BUILD has not recorded",
        "rows only in recorded partitions", "run the model again")
      if (read.exists(_ != Absent) && (found.build ne builds.last)) throw refused(table, s"only new rows in the partition ${found.name} $inTable",
        s"all rows of the partition in ${builds.last.table.identifier.quotedString}, because it exists in the table", "run the model again")
    }
    PartitionFiles.atOnce(old.values.toSeq.flatMap(replaced)) { state =>
      if (directoriesBefore.isUsed(new Path(state.location)) || !state.hasOtherFiles(conf)) None else Some(state)
    }.flatten.headOption.foreach { state => throw refused(table,
      s"files in ${state.location} that another statement has written while a build replaced this directory. No query reads them",
      "no other write during a publication", "insert the rows that the table lacks, and delete the directory")
    }
  }

  /** Returns the names of partitions that have files. Throws an error if files of a build are gone: another run may have deleted them. */
  private def filledOf(built: Seq[BuiltPartition]): Set[String] = PartitionFiles.atOnce(built) { found =>
    val files = DirectoryState.files(new Path(found.partition.location), conf)
    val isComplete = found.partition.seal.flatMap(_.toOption).fold(files.nonEmpty || found.read.isDefined)(_.files == PartitionFiles.digest(files))
    if (!isComplete) throw refused(table,
      s"other files in ${found.partition.location} than the build of ${found.name} has written", "a build that nothing has changed",
      "run the model again, only once at a time")
    if (files.isEmpty) None else Some(found.name)
  }.flatten.toSet

  /** Deletes directories that earlier publications replaced, and directories of builds that are not published because a later build has the partition. */
  private def deleteEarlier(old: Map[String, StoredPartition], superseded: Seq[BuiltPartition]): Unit = {
    PartitionFiles.atOnce(old.values.filter(replaced(_).isDefined).toSeq)(partition => directoriesBefore.delete(partition)(_ => true))
    val unpublished = superseded.filter(built => isIn(built.partition, built.build)).map(built => new Path(built.partition.location))
    PartitionFiles.atOnce(unpublished.filterNot(directoriesBefore.isUsed))(folder => folder.getFileSystem(conf).delete(folder, true))
  }

  private def change(built: Seq[BuiltPartition], old: Map[String, StoredPartition], states: Map[String, DirectoryState]): Unit = {
    val added = built.filterNot(found => old.contains(found.name))
    // If this statement has taken long, another run may have recovered its builds, and may have changed the partitions since.
    builds.filterNot(_.exists(session)).foreach(build => throw Build.lost(table, s"no table ${build.table.identifier.quotedString}"))
    if (added.nonEmpty && added.length == built.length) store.add(table, added.map(found => changeOf(found, found.partition.copy(parameters = Map.empty), states)))
    else {
      // New partitions have no files until all partitions change together.
      if (added.nonEmpty) Compat.externalCatalog(session).createPartitions(table.database, table.identifier.table, added.map { found =>
        CatalogTablePartition(found.valuesIn(table), table.storage.copy(locationUri = Some(new Path(placesOfNew(found.build), found.name).toUri)))
      }, ignoreIfExists = false)
      val now = store.find(table, built.map(_.valuesIn(table))).map(partition => partition.name -> partition).toMap
      store.change(table, built.map { found =>
        val before = now.getOrElse(found.name, throw changed(table, found.name))
        if (old.get(found.name).exists(_.location != before.location)) throw changed(table, found.name)
        changeOf(found, before, states)
      })
    }
  }

  private def changeOf(found: BuiltPartition, before: StoredPartition, states: Map[String, DirectoryState]): PartitionChange = {
    val seal = found.partition.seal.flatMap(_.toOption)
    val buckets = if (DDLUtils.isHiveTable(table)) Some(BucketDescriptor.of(seal.map(_.spec.bucketSpec).orElse(found.build.table.bucketSpec))) else None
    // An INSERT that does not know the new partition yet writes to its default directory.
    val default = ExternalCatalogUtils.generatePartitionPath(found.valuesIn(table), table.partitionColumnNames, new Path(table.location))
    val replaced = states.get(found.name).orElse(Some(DirectoryState.empty(default.toString)).filter(_.isCurrent(conf)))
    PartitionChange(before, seal, buckets, Some(found.partition), replaced.map(Replaced -> _.toString).toMap)
  }

  /** Returns the directory with the empty directories of new partitions. */
  private def placesOfNew(build: Build): Path = new Path(build.location, "_new")

  private def isIn(partition: StoredPartition, build: Build): Boolean = {
    val root = build.location.getFileSystem(conf).makeQualified(build.location).toString + "/"
    val folder = new Path(partition.location)
    folder.getFileSystem(conf).makeQualified(folder).toString.startsWith(root)
  }
}

/** A partition of a build. */
private case class BuiltPartition(build: Build, partition: StoredPartition) {
  def name: String = partition.name
  def read: Option[String] = partition.parameters.get(Publication.Read)
  def valuesIn(table: CatalogTable): Map[String, String] = PartitionStore.valuesOf(table, name)
}

object Publication {

  /** The parameter of a build's partition with the state of the table's partition before the build has read it. */
  private[metadata] val Read = "bucketing.read"

  /** The parameter of a table's partition with the state of the directory that the last publication replaced. */
  private val Replaced = "bucketing.replaced"

  private val Absent = "absent"

  def replaced(partition: StoredPartition): Option[DirectoryState] = partition.parameters.get(Replaced).flatMap(DirectoryState.parse)

  /**
   * Records in each partition of a build what the table's partition contains now. Its publication then refuses to replace rows that
   * the build has not read. Returns the names of the partitions that exist in the table.
   *
   * The build must read the table after this statement: only then, it reads at least the files that are recorded.
   */
  def start(session: SparkSession, table: CatalogTable, build: Build): Seq[String] = {
    checkBuild(table, build)
    val (store, conf) = (PartitionStore.of(session), Compat.hadoopConf(session))
    val found = store.find(table, build.partitions.map(partition => PartitionStore.valuesOf(table, partition.name)))
    val states = PartitionFiles.atOnce(found)(partition => partition.name -> DirectoryState.of(partition.location, conf).toString).toMap
    store.change(build.table, build.partitions.map { partition =>
      PartitionChange(partition, partition.seal.flatMap(_.toOption), None, parameters = Map(Read -> states.getOrElse(partition.name, Absent)))
    })
    // After the record, because another query of the session may list the files in between.
    Compat.refresh(session, table.identifier)
    build.partitions.map(_.name).filter(states.contains)
  }

  private def checkBuild(table: CatalogTable, build: Build): Unit = {
    if (build.purpose.isDefined) throw Build.lost(table, s"another owner of the build in ${build.table.identifier.quotedString}")
    if (table.partitionColumnNames.isEmpty) throw refused(table, "a table without partitions", "a partitioned table",
      s"run ALTER TABLE ${table.identifier.quotedString} SET LOCATION")
    if (build.location.getParent.toUri.getPath != new Path(table.location).toUri.getPath) throw refused(table,
      s"the build ${build.table.identifier.quotedString} at ${build.table.location}", s"a table at ${table.location}/build-<id>", "create the build there")
    if (SealedSpec.lower(build.table.partitionColumnNames) != SealedSpec.lower(table.partitionColumnNames)) throw refused(table,
      s"the build ${build.table.identifier.quotedString}, partitioned by ${build.table.partitionColumnNames.mkString(", ")}",
      s"the partition columns ${table.partitionColumnNames.mkString(", ")}", "create the build with these columns")
  }

  private def checkColumns(table: CatalogTable, build: Build): Unit = {
    val (columns, built) = (SealedSpec.lower(table.dataSchema.fieldNames.toSeq), SealedSpec.lower(build.table.dataSchema.fieldNames.toSeq))
    if (columns != built) throw refused(table, s"the columns ${built.mkString(", ")} in ${build.table.identifier.quotedString}",
      s"the columns of the table in the same order: ${columns.mkString(", ")}", "run the model again")
  }

  private def changed(table: CatalogTable, name: String): AnalysisException = refused(table,
    s"changes by another statement in the partition $name since the build read it", "no other write to the partition at the same time",
    "run the model again, which reads the new rows")

  def refused(table: CatalogTable, found: String, expected: String, instead: String): AnalysisException = Compat.refusal(
    s"Cannot publish a build of ${table.identifier.quotedString}, whose rows are unchanged.", found, expected, instead)
}
