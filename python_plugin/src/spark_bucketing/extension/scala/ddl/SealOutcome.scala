package org.apache.spark.sql.bucketing
package ddl

import org.apache.hadoop.fs.FileStatus

import org.apache.spark.sql.Row
import org.apache.spark.sql.bucketing.hash.{BucketHash, HiveBucketHash}
import org.apache.spark.sql.bucketing.metadata._
import org.apache.spark.sql.bucketing.read.BucketFileValidator
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.execution.datasources.HadoopFsRelation

/** The result of SEAL BUCKETS for one partition. */
private case class SealOutcome(part: PartitionFiles, status: String, seal: Option[Seal], read: Int, problem: Option[String]) {

  def isNew: Boolean = status == SealOutcome.NewlySealed

  /** The result of a dry run. */
  def unwritten: SealOutcome = if (isNew) copy(status = SealOutcome.Sealable) else this

  def altered: SealOutcome = copy(status = SealOutcome.Refused, seal = None,
    problem = Some("a change to the partition while its files were read; run the statement again"))

  def row: Row = {
    val spec = seal.map(_.spec)
    Row(part.name, status, spec.map(_.numBuckets).orNull, spec.map(_.columns).orNull, spec.map(_.sortColumns).orNull,
      spec.map(_.hash.name).orNull, part.files.length.toLong, part.bytes, read.toLong, problem.orNull)
  }
}

private object SealOutcome {

  val NewlySealed = "sealed"
  val Sealable = "sealable"
  private val Unchanged = "unchanged"
  private val Refused = "refused"

  /**
   * Returns the results for partitions.
   *
   * @param evidence what the files of the selected partitions prove
   * @param others the hashes of the seals of partitions that the statement does not select
   * @param isWhole whether the statement selects all partitions
   * @param properties the properties of the table, which state a hash
   */
  def of(evidence: Seq[SealEvidence], others: Seq[BucketHash], isWhole: Boolean, properties: Map[String, String]): Seq[SealOutcome] = {
    val found = evidence.flatMap(_.hashes.headOption) ++ others
    val stated = BucketHash.stated(properties)
    val mostCommon = found.distinct.sortBy(hash => (-found.count(_ == hash), !stated.contains(hash))).headOption
    evidence.map(of(_, mostCommon, isWhole, properties))
  }

  private def of(evidence: SealEvidence, mostCommon: Option[BucketHash], isWhole: Boolean, properties: Map[String, String]): SealOutcome = {
    val part = evidence.part
    def refused(problem: String) = SealOutcome(part, Refused, None, evidence.read, Some(problem))
    if (part.folders.nonEmpty) refused(s"a directory among the files: ${part.folders.head}")
    else if (part.files.isEmpty) part.seal.flatMap(_.toOption).filter(_ => part.missing > 0).fold(SealOutcome(part, PartitionFiles.Empty, None, 0, None)) { lost =>
      SealOutcome(part, NewlySealed, Some(lost.copy(files = PartitionFiles.digest(Nil))), 0, Some(MissingFiles.words(part.missing, lost)))
    }
    else if (evidence.validated.isEmpty) refused("bucket columns that are not in the table, or of a type that engines hash differently")
    else evidence.matching.headOption match {
      case None => refused(mismatch(evidence.validated))
      case Some(ValidatedSpec(spec, _, unsorted)) =>
        val seal = Seal(if (unsorted.isEmpty) spec else spec.unsorted, PartitionFiles.digest(part.files))
        val status = if (part.seal.contains(Right(seal)) && isDescribed(part, seal.spec)) Unchanged else NewlySealed
        val missing = part.seal.flatMap(_.toOption).filter(_ => part.missing > 0).map(MissingFiles.words(part.missing, _))
        val problems = missing ++ spec.hash.asHiveHash.flatMap(otherVersion(_, mostCommon, isWhole, properties)) ++ unsorted.headOption
        SealOutcome(part, status, Some(seal), evidence.read, Some(problems.mkString("; ")).filter(_.nonEmpty))
    }
  }

  /** Returns whether Hive and Trino find this spec in the partition's descriptor. Some statements of Spark remove it. */
  private def isDescribed(part: PartitionFiles, spec: SealedSpec): Boolean = {
    val stored = if (spec.hash.inHiveLayout) part.partition.flatMap(_.described) else None
    stored.forall(_ == BucketDescriptor.of(Some(spec.bucketSpec)))
  }

  /** Returns why files match no spec: the violations of the spec that most files match. */
  private def mismatch(validated: Seq[ValidatedSpec]): String = {
    val ValidatedSpec(spec, problems, _) = validated.minBy(_.misplaced.length)
    val others = validated.map(_.spec.hash).distinct.filter(_ != spec.hash).flatMap(_.asHiveHash)
    val more = if (problems.length > 1) s" (and ${problems.length - 1} more files)" else ""
    s"${problems.head}$more, checked against ${spec.numBuckets} buckets by ${spec.columns.mkString(", ")}" +
      spec.hash.asHiveHash.fold("")(hash => s" in bucketing_version ${hash.bucketingVersion}") +
      others.map(hash => s"; version ${hash.bucketingVersion} does not match either").mkString
  }

  /**
   * Returns how the version of the rows differs from the version that the table states, on which Hive and Trino rely, or from
   * the version of most partitions.
   *
   * The seals of partitions that the statement does not select may also match the other version. Only a statement that selects
   * all partitions can tell which partitions to rewrite, and which version the table should state.
   */
  private def otherVersion(
      found: HiveBucketHash, mostCommon: Option[BucketHash], isWhole: Boolean, properties: Map[String, String]): Option[String] = {
    val rows = s"rows in buckets of bucketing_version ${found.bucketingVersion}"
    def instead(verb: String, of: HiveBucketHash) =
      if (isWhole) s"$verb the table property '${BucketHash.VersionProperty}' = '${of.bucketingVersion}'"
      else "To find the version of most partitions, run SEAL BUCKETS for the whole table"
    mostCommon.flatMap(_.asHiveHash).filter(_ != found) match {
      case Some(other) => Some(s"$rows, but other partitions have version ${other.bucketingVersion}. ${instead("Rewrite this partition with", other)}")
      case None if BucketHash.stated(properties).contains(found) => None
      case None =>
        val stated = properties.get(BucketHash.VersionProperty).fold("none, which means 1")(version => s"'$version'")
        Some(s"$rows, but the table states $stated. ${instead("Set", found)}")
    }
  }
}

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
