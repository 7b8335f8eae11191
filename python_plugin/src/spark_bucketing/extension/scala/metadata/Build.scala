package org.apache.spark.sql.bucketing
package metadata

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.sql.{AnalysisException, SparkSession}
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.catalyst.analysis.{NoSuchTableException, PartitionsAlreadyExistException}
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTablePartition, CatalogTableType}

/**
 * A build of a partitioned table: an external table whose partitions contain new rows of the table's partitions. Its directory is
 * build-<id> in the directory of the table.
 *
 * @param purpose what the statement that owns the build does with it, or None if no statement owns it
 */
case class Build(table: CatalogTable, partitions: Seq[StoredPartition], purpose: Option[String]) {

  def location: Path = new Path(table.location)

  /**
   * Makes a statement the owner of the build, before it publishes or deletes the build. Returns false if the build has an owner, or if its
   * table is gone or is now the table of another build.
   *
   * The owner is a partition of the build's table. The metastore creates it only once, even if several drivers try, and never changes
   * it afterwards. It disappears only with the table.
   */
  def own(session: SparkSession, purpose: String): Boolean = {
    // Otherwise, Hive 3 and later would delete the files when the table is dropped.
    if (purpose == Build.Publish && table.properties.get(Build.Purge).exists(_.equalsIgnoreCase("true")))
      session.sql(s"ALTER TABLE ${table.identifier.quotedString} SET TBLPROPERTIES ('${Build.Purge}' = 'false')")
    val owner = CatalogTablePartition(table.partitionColumnNames.map(_ -> Build.Owner).toMap, table.storage, Map(Build.Purpose -> purpose))
    try {
      Compat.externalCatalog(session).createPartitions(table.database, table.identifier.table, Seq(owner), ignoreIfExists = false)
      // An id is never used again. Therefore, if the table has the same id before and after, the owner was added to this build.
      exists(session)
    } catch { case _: PartitionsAlreadyExistException | _: NoSuchTableException => false }
  }

  /** Returns whether the table of the build exists now. */
  def exists(session: SparkSession): Boolean =
    try Compat.catalog(session).getTableMetadata(table.identifier).properties.get(Build.Id) == table.properties.get(Build.Id)
    catch { case _: NoSuchTableException => false }

  /** Drops the table of the build. Its files stay, because the table is external. */
  def drop(session: SparkSession): Unit = session.sql(s"DROP TABLE IF EXISTS ${table.identifier.quotedString}")
}

object Build {

  val Publish = "publish"
  val Delete = "delete"

  /** The property with the id of the build that created a table. */
  private val Id = "bucketing.build"

  /** The value of the partition columns in the partition that represents the owner. */
  private val Owner = "__dbt_owner"

  /** The parameter of this partition with the purpose: Publish or Delete. */
  private val Purpose = "bucketing.purpose"

  private val Purge = "external.table.purge"

  // The dbt macros name a build by its time in microseconds.
  private val Name = """build-\d{20}""".r.pattern

  /**
   * Returns the build in a table.
   *
   * @param id the id that the build must have
   * @throws org.apache.spark.sql.AnalysisException if the table does not exist, is not a build, or has another id
   */
  def of(session: SparkSession, target: CatalogTable, name: String, id: Option[String] = None): Build = {
    val found = find(session, target, name).getOrElse(throw lost(target, s"no table $name"))
    id.filterNot(found.table.properties.get(Id).contains).foreach(wanted => throw lost(target, s"another build than $wanted in $name"))
    found
  }

  /** Returns the build in a table, or None if the table does not exist. */
  def find(session: SparkSession, target: CatalogTable, name: String): Option[Build] = try {
    val found = Compat.catalog(session).getTableMetadata(Compat.tableNamed(session, name))
    val folder = new Path(found.location).getName
    if (found.tableType != CatalogTableType.EXTERNAL || !isName(folder) || !found.properties.get(Id).contains(folder)) throw Publication.refused(target,
      s"the table ${found.identifier.quotedString}, which is not a build", s"an external table at ${target.location}/build-<id> with the property $Id=build-<id>",
      "use the name of a build, or rename this table if the name is reserved for a build")
    val all = if (found.partitionColumnNames.isEmpty) Nil else PartitionStore.of(session).list(found)
    val (owners, partitions) = all.partition(_.parameters.contains(Purpose))
    Some(Build(found, partitions, owners.headOption.map(_.parameters(Purpose))))
  } catch { case _: NoSuchTableException => None }

  /** Returns the error about a build that another statement owns or has owned. */
  def lost(target: CatalogTable, found: String): AnalysisException = Publication.refused(target,
    s"$found, because another run of the model has taken over the build", "a build that only this run uses",
    "wait for the other run, and run a model only once at a time")

  def isName(folder: String): Boolean = Name.matcher(folder).matches
}

/**
 * The data files in a directory at some time. It is stored as text in parameters of partitions.
 *
 * @param hex the digest of the files
 */
case class DirectoryState(hex: String, location: String) {
  override def toString: String = s"$hex $location"

  def isCurrent(conf: Configuration): Boolean = DirectoryState.of(location, conf) == this

  /** Returns whether the directory now has files, and they are not the same. */
  def hasOtherFiles(conf: Configuration): Boolean = !isCurrent(conf) && DirectoryState.files(new Path(location), conf).nonEmpty
}

object DirectoryState {

  /** Returns the state of a directory without files. */
  def empty(location: String): DirectoryState = DirectoryState(PartitionFiles.digest(Nil).hex, location)

  def of(location: String, conf: Configuration): DirectoryState =
    DirectoryState(PartitionFiles.digest(files(new Path(location), conf)).hex, location)

  def parse(text: String): Option[DirectoryState] = text.split(" ", 2) match {
    case Array(hex, location) => Some(DirectoryState(hex, location))
    case _ => None
  }

  /** Returns all data files that Spark reads from a directory. */
  def files(folder: Path, conf: Configuration): Seq[FileStatus] = {
    val (found, folders) = PartitionFiles.children(folder, conf)
    found ++ folders.flatMap(name => files(new Path(folder, name), conf))
  }
}
