package org.apache.spark.sql.bucketing
package ddl

import org.apache.hadoop.fs.FileStatus

import org.apache.spark.sql.bucketing.hash.BucketHash
import org.apache.spark.sql.bucketing.metadata._
import org.apache.spark.sql.bucketing.read.BucketFileValidator
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.execution.datasources.HadoopFsRelation

/**
 * What the files of a partition, or of a table without partitions, prove about its bucket spec.
 *
 * @param sealedAs the spec of a seal that still covers the older files
 * @param validated the specs that the files were compared with, the most likely first
 * @param read how many files were read
 */
private case class SealEvidence(
    part: PartitionFiles, sealedAs: Option[SealedSpec], validated: Seq[ValidatedSpec], read: Int) {

  def matching: Seq[ValidatedSpec] = validated.filter(_.misplaced.isEmpty)

  /** Few rows may match the specs of several hashes. */
  def hashes: Seq[BucketHash] = matching.map(_.spec.hash).distinct

  def and(later: SealEvidence): SealEvidence = copy(validated = validated ++ later.validated, read = read.max(later.read))
}

/**
 * The results of comparing files with a spec.
 *
 * @param misplaced why files are not buckets of the spec
 * @param unsorted why files are not sorted by the spec's sort columns
 */
private case class ValidatedSpec(spec: SealedSpec, misplaced: Seq[String], unsorted: Seq[String])

/**
 * Compares the files of a table with the bucket specs that they may have.
 *
 * @param hashes the hashes that the files may have, starting with the stated hash
 */
private class SealValidation(table: CatalogTable, relation: HadoopFsRelation, hashes: Seq[BucketHash]) {

  /** The specs to compare files with. */
  private case class Candidate(part: PartitionFiles, sealedAs: Option[SealedSpec], specs: Seq[SealedSpec], unread: Seq[FileStatus])

  /**
   * Returns the evidence of each partition. Its first matching spec has the hash to seal the partition with: the hash that
   * most other partitions prove or are sealed with, or else the stated hash.
   *
   * A seal only proves that its files match one hash. If the other partitions have another hash, or if later files do not match
   * the seal, this method compares all files with the other specs.
   *
   * @param others the hashes of the seals of partitions that the statement does not select
   */
  def of(parts: Seq[PartitionFiles], others: Seq[BucketHash]): Seq[SealEvidence] = {
    val first = read(parts.map(newFiles))
    val differ = (first.flatMap(_.hashes.headOption) ++ others).distinct.length > 1
    val doubtful = first.filter(of => of.sealedAs.isDefined && (of.matching.isEmpty || differ))
    val again = read(doubtful.map(otherSpecs)).map(of => of.part -> of).toMap
    val evidence = first.map(of => again.get(of.part).fold(of)(of.and))
    val votes = evidence.map(_.hashes).collect { case Seq(hash) => hash } ++ others
    val preferred = hashes.maxBy(hash => votes.count(_ == hash))
    evidence.map(of => of.copy(validated = of.validated.sortBy(_.spec.hash != preferred)))
  }

  /** Returns the files that the partition's seal does not cover. */
  private def newFiles(part: PartitionFiles): Candidate = {
    val before = sealBefore(part)
    // An append keeps the sealed files and adds newer files.
    val (older, later) = part.files.sortBy(file => (file.getModificationTime, file.getPath.getName))
      .splitAt(before.fold(0)(_.files.count.toInt))
    before.filter(seal => older.nonEmpty && seal.files == PartitionFiles.digest(older)) match {
      case Some(seal) => Candidate(part, Some(seal.spec), Seq(seal.spec), later)
      case None => Candidate(part, None, specsOf(part), part.files)
    }
  }

  /** Returns all files, with the specs that the partition's seal leaves open. */
  private def otherSpecs(of: SealEvidence): Candidate = Candidate(of.part, of.sealedAs,
    specsOf(of.part).filter(spec => of.sealedAs.forall { known =>
      if (of.matching.isEmpty) spec.unsorted != known.unsorted else spec.hash != known.hash
    }), of.part.files)

  private def sealBefore(part: PartitionFiles): Option[Seal] =
    part.seal.flatMap(_.toOption).filter(seal => hashes.contains(seal.spec.hash) && seal.spec.fits(relation.dataSchema))

  /** Returns no specs for a partition without files, which proves nothing. */
  private def specsOf(part: PartitionFiles): Seq[SealedSpec] = (if (part.files.isEmpty) Nil else hashes).flatMap { hash =>
    (table.bucketSpec.toSeq ++ part.described).flatMap(SealedSpec.ofFiles(_, hash, relation.dataSchema)) ++
      sealBefore(part).map(_.spec.copy(hash = hash))
  }.distinct

  private def read(candidates: Seq[Candidate]): Seq[SealEvidence] = {
    val specs = candidates.flatMap(_.specs).distinct
    val unread = candidates.filter(_.specs.nonEmpty).flatMap(_.unread)
    val validations = new BucketFileValidator(relation, table.identifier.unquotedString, specs).of(unread)
    val bySpec = unread.map(_.getPath).zip(validations.map(specs.zip(_).toMap)).toMap
    candidates.map { case Candidate(part, sealedAs, specs, unread) =>
      val validated = specs.map { spec =>
        val found = unread.map(file => bySpec(file.getPath)(spec))
        ValidatedSpec(spec, found.flatMap(_.misplaced), found.flatMap(_.unsorted))
      }
      SealEvidence(part, sealedAs, validated, if (specs.isEmpty) 0 else unread.length)
    }
  }
}
