package org.apache.spark.sql.bucketing
package ddl

import org.apache.spark.sql.Row
import org.apache.spark.sql.bucketing.hash.{BucketHash, HiveBucketHash}
import org.apache.spark.sql.bucketing.metadata._

/** The result of SEAL BUCKETS for one partition. */
private case class SealOutcome(part: PartitionFiles, status: String, seal: Option[Seal], read: Int, problem: Option[String]) {

  def isNew: Boolean = status == SealOutcome.NewlySealed

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
    else if (part.files.isEmpty) SealOutcome(part, PartitionFiles.Empty, None, 0, None)
    else if (evidence.validated.isEmpty) refused("bucket columns that are not in the table, or of a type that engines hash differently")
    else evidence.matching.headOption match {
      case None => refused(mismatch(evidence.validated))
      case Some(ValidatedSpec(spec, _, unsorted)) =>
        val seal = Seal(if (unsorted.isEmpty) spec else spec.unsorted, PartitionFiles.digest(part.files))
        val status = if (part.seal.contains(Right(seal)) && isDescribed(part, seal.spec)) Unchanged else NewlySealed
        val problems = spec.hash.asHiveHash.flatMap(otherVersion(_, mostCommon, isWhole, properties)) ++ unsorted.headOption
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
