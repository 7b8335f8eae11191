package org.apache.spark.sql.bucketing
package metadata

import org.apache.hadoop.fs.Path

import org.apache.spark.paths.SparkPath
import org.apache.spark.sql.{AnalysisException, SparkSession}
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.CatalogTable

/**
 * Finds sealed files that are missing although no writer has replaced them. Their rows are lost, unlike those of files that other writers have replaced.
 *
 * A statement of the extension replaces or removes a seal before it deletes sealed files. Therefore, a file is missing for certain if its seal is the same
 * before and after the directory was listed.
 */
object MissingFiles {

  def words(missing: Long, seal: Seal): String = s"$missing of the ${seal.files.count} sealed files ${if (missing == 1) "is" else "are"} missing"

  /** Returns partitions with the numbers of their missing files. */
  def counted(session: SparkSession, table: CatalogTable, parts: Seq[PartitionFiles]): Seq[PartitionFiles] = {
    val conf = Compat.hadoopConf(session)
    def folderOf(part: PartitionFiles) = BucketFiles.folderOf(new Path(part.location), conf)
    val suspects = for (part <- parts; seal <- part.seal.flatMap(_.toOption) if seal.missing(part.files) > 0) yield folderOf(part) -> seal
    val found = certain(session, table.identifier, suspects.toMap)
    if (found.isEmpty) parts else parts.map(part => part.copy(missing = found.getOrElse(folderOf(part), 0L)))
  }

  /**
   * Returns the number of missing files of each directory that lacks any.
   *
   * @param suspects the seals of directories that may lack sealed files, by directory
   */
  def certain(session: SparkSession, name: TableIdentifier, suspects: Map[String, Seal]): Map[String, Long] = if (suspects.isEmpty) Map.empty else {
    val (table, conf) = (Compat.catalog(session).getTableMetadata(name), Compat.hadoopConf(session))
    val names = TableFiles(new Path(table.location))
    val listed = Compat.inParallel(suspects.toSeq) { case (folder, seal) =>
      (folder, seal, PartitionFiles.children(table, SparkPath.fromUrlString(folder).toPath, conf)._1)
    }
    val hidden = Replacement.forReader(new Path(table.location), conf).filterNot(_.isCommitted).flatMap(_.added).toSet
    val missing = listed.map { case (folder, seal, all) =>
      (folder, seal, seal.missing(all.filterNot(file => hidden(names.nameOf(file.getPath)))))
    }.filter(_._3 > 0)
    lazy val now = seals(session, Compat.catalog(session).getTableMetadata(name))
    missing.collect { case (folder, seal, number) if now.get(folder).contains(seal) => folder -> number }.toMap
  }

  /** Returns the seals in the metastore, by directory. */
  private def seals(session: SparkSession, table: CatalogTable): Map[String, Seal] = {
    val conf = Compat.hadoopConf(session)
    val stored = if (table.partitionColumnNames.isEmpty) Seq(new Path(table.location).toString -> Seal.parse(table.properties))
      else PartitionStore.of(session).list(table).map(partition => partition.location -> partition.seal)
    stored.collect { case (location, Some(Right(seal))) => BucketFiles.folderOf(new Path(location), conf) -> seal }.toMap
  }

  /** Returns an error about missing files. Its words name their number and their directory. */
  def refusal(sentence: String, table: TableIdentifier, found: String, instead: String): AnalysisException = Compat.refusal(sentence, found,
    "all files that the seal names", s"restore the files from a backup, or accept the loss with ALTER TABLE ${table.quotedString} SEAL BUCKETS$instead")

  /** Throws an error if sealed files of partitions are missing. */
  def check(table: TableIdentifier, parts: Seq[PartitionFiles], statement: String): Unit = parts.find(_.missing > 0).foreach { part =>
    val where = if (part.name.isEmpty) "" else s" in the partition ${part.name}"
    throw refusal(s"Cannot $statement ${table.quotedString}.", table,
      part.seal.flatMap(_.toOption).fold("")(words(part.missing, _)) + where, "; nothing has been changed")
  }
}
