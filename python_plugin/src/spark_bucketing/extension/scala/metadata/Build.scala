package org.apache.spark.sql.bucketing
package metadata

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, CatalogTableType}

/**
 * A build of a partitioned table: an external table whose partitions contain new rows of the table's partitions. Its directory is
 * build-<id> in the directory of the table.
 */
case class Build(table: CatalogTable, partitions: Seq[StoredPartition]) {

  def location: Path = new Path(table.location)

  /** Returns whether its publication has begun. Only then partitions of the table can point to its directory. */
  def isPublishing: Boolean = table.properties.contains(Build.Publishing)

  /**
   * Records that its publication begins. From now on, its directory is not deleted as a whole. If `external.table.purge` was true, Hive 3 and
   * later would delete the files when the table is dropped.
   */
  def mark(session: SparkSession): Unit = session.sql(
    s"ALTER TABLE ${table.identifier.quotedString} SET TBLPROPERTIES ('${Build.Publishing}' = 'true', 'external.table.purge' = 'false')")

  /** Drops the table of the build. Its files stay, because the table is external. */
  def drop(session: SparkSession): Unit = session.sql(s"DROP TABLE IF EXISTS ${table.identifier.quotedString}")
}

object Build {

  /** The property with the id of the build that created a table. */
  private val Id = "bucketing.build"

  private val Publishing = "bucketing.publishing"

  // The dbt macros name a build by its time in microseconds.
  private val Name = """build-\d{20}""".r.pattern

  /**
   * Returns the build in a table.
   *
   * @throws org.apache.spark.sql.AnalysisException if the table is not a build
   */
  def of(session: SparkSession, target: CatalogTable, name: String): Build = {
    val found = Compat.catalog(session).getTableMetadata(Compat.tableNamed(session, name))
    val folder = new Path(found.location).getName
    if (found.tableType != CatalogTableType.EXTERNAL || !isName(folder) || !found.properties.get(Id).contains(folder)) throw Publication.refused(target,
      s"the table ${found.identifier.quotedString}, which is not a build", s"an external table at ${target.location}/build-<id> with the property $Id=build-<id>",
      "use the name of a build, or rename this table if the name is reserved for a build")
    Build(found, if (found.partitionColumnNames.isEmpty) Nil else PartitionStore.of(session).list(found))
  }

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
