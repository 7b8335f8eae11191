package org.apache.spark.sql.bucketing
package ddl

import org.apache.spark.sql.{AnalysisException, Row, SparkSession}
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.metadata._
import org.apache.spark.sql.bucketing.read.SealedSpecs
import org.apache.spark.sql.bucketing.write.FileReplacement
import org.apache.spark.sql.catalyst.TableIdentifier
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, SubqueryExpression}
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LocalRelation}
import org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes
import org.apache.spark.sql.execution.command.LeafRunnableCommand
import org.apache.spark.sql.execution.datasources.HadoopFsRelation
import org.apache.spark.sql.types._

/**
 * Seals existing files. Spark reads their bucket and sort columns once. The command reports for each partition whether its
 * files match the bucket spec. The command skips files that are already sealed.
 */
case class SealBucketsCommand(name: TableIdentifier, partition: Option[TablePartitionSpec], asked: SealOptions)
    extends LeafRunnableCommand {

  override val output: Seq[Attribute] = PartitionSpecs.attributes(
    ("partition", StringType, false), ("status", StringType, false), ("num_buckets", IntegerType, true), ("bucket_columns", PartitionSpecs.Names, true),
    ("sort_columns", PartitionSpecs.Names, true), ("hash", StringType, true), ("files", LongType, false), ("bytes", LongType, false),
    ("files_read", LongType, false), ("problem", StringType, true))

  override def run(session: SparkSession): Seq[Row] = {
    Compat.refresh(session, name)
    val table = Compat.catalog(session).getTableMetadata(name)
    // A seal must not cover both the old and the new files of a statement that a crash has interrupted.
    if (!asked.dryRun) new FileReplacement(session, table).awaitOthers()
    val relation = checked(session, table)
    val stored = if (table.partitionColumnNames.isEmpty) Nil else PartitionStore.of(session).list(table)
    val (selected, others) = stored.partition(selection(session, table))
    val hashesOfOthers = others.flatMap(_.seal.flatMap(_.toOption)).map(_.spec.hash)
    val evidence = new SealValidation(table, relation, PartitionFiles.hashesOf(table))
      .of(PartitionFiles.list(session, table, selected), hashesOfOthers)
    val outcomes = SealOutcome.of(evidence, hashesOfOthers, isWhole = others.isEmpty, table.properties)
    (if (asked.dryRun) outcomes.map(_.unwritten) else write(session, table, outcomes)).map(_.row)
  }

  /**
   * Writes the new seals. The metastore can only replace a partition's metadata as a whole. Therefore, this method skips a
   * partition that another statement has altered in the meantime.
   */
  private def write(
      session: SparkSession, table: CatalogTable, outcomes: Seq[SealOutcome]): Seq[SealOutcome] = {
    val store = PartitionStore.of(session)
    lazy val now = store.list(table).map(partition => partition.name -> partition).toMap
    def isAltered(partition: StoredPartition) = !now.get(partition.name).exists(_.isSame(partition))
    val kept = outcomes.map { outcome =>
      if (outcome.isNew && outcome.part.partition.exists(isAltered)) outcome.altered else outcome
    }
    val (ofTable, ofPartitions) = kept.filter(_.isNew).partition(_.part.partition.isEmpty)
    ofTable.foreach(outcome => store.sealTable(table, outcome.seal))
    if (ofPartitions.nonEmpty) store.change(table, ofPartitions.map { outcome =>
      val described = outcome.seal.map(_.spec).filter(_.hash.inHiveLayout).map(spec => BucketDescriptor.of(Some(spec.bucketSpec)))
      PartitionChange(now(outcome.part.name), outcome.seal, described)
    })
    if (ofTable.nonEmpty || ofPartitions.nonEmpty) Compat.refresh(session, table.identifier)
    kept
  }

  /** Returns the files of a table, or throws an error if they cannot be sealed. */
  private def checked(session: SparkSession, table: CatalogTable): HadoopFsRelation = {
    if (table.bucketSpec.isEmpty) throw refused(table, "a table without buckets", "a bucketed table",
      s"declare the bucket spec of its files with ALTER TABLE ${table.identifier.quotedString} CLUSTERED BY (...) INTO n BUCKETS")
    if (table.partitionColumnNames.nonEmpty && !table.tracksPartitionsInCatalog) throw refused(table,
      "partitions that are not in the metastore", "partitions in the metastore",
      s"run MSCK REPAIR TABLE ${table.identifier.quotedString}, and then this statement again")
    if (!SealedFormats.has(table)) throw refused(table, s"files in the format ${SealedFormats.of(table)}",
      "PARQUET or ORC, whose readers return rows exactly as they were written", "write its rows into a table with one of these formats")
    val relation = Compat.filesOf(session, table.identifier).getOrElse(throw refused(table,
      "files that Spark reads with Hive's SerDe",
      "spark.sql.hive.convertMetastoreParquet and spark.sql.hive.convertMetastoreOrc to be true", "set both to true"))
    WriteTarget.check(session, table, "seal", Some(relation.location))
    SealedSpecs.otherColumns(relation).foreach { why =>
      throw refused(table, why.words, "the default reader, which returns the same rows in every session", "set the option to its default")
    }
    relation
  }

  /** Selects the partitions that the statement names by their values or by a predicate. */
  private def selection(session: SparkSession, table: CatalogTable): StoredPartition => Boolean = {
    if ((partition.isDefined || asked.where.isDefined) && table.partitionColumnNames.isEmpty)
      throw refused(table, "no partitions", "a partitioned table for a PARTITION or WHERE clause", "omit these clauses")
    val store = PartitionStore.of(session)
    def named = partition.map(given => store.list(table, BucketValidation.stored(table, given)).map(_.name).toSet)
    def filtered = asked.where.map { where =>
      Compat.partitionsBy(session, table, Seq(predicate(session, table, where))).map(found => store.nameOf(table, found.spec)).toSet
    }
    val names = Seq(named, filtered).flatten
    found => names.forall(_.contains(found.name))
  }

  private def predicate(session: SparkSession, table: CatalogTable, where: Expression): Expression = {
    val columns = LocalRelation(toAttributes(table.partitionSchema))
    try Compat.analyzed(session, Filter(where, columns)) match {
      case Filter(resolved, _) if resolved.deterministic && !SubqueryExpression.hasSubquery(resolved) => resolved
      case _ => throw refused(table, s"the predicate ${where.sql}", "a deterministic predicate on the partition columns, without subqueries",
        s"use only the columns ${table.partitionColumnNames.mkString(", ")}")
    } catch { case error: AnalysisException if !Compat.isRefusal(error) =>
      throw refused(table, s"the predicate ${where.sql}: ${error.getSimpleMessage.linesIterator.next()}",
        s"a predicate on the partition columns ${table.partitionColumnNames.mkString(", ")}", "use only these columns")
    }
  }

  private def refused(table: CatalogTable, found: String, expected: String, instead: String): AnalysisException =
    BucketValidation.refused(table, found, expected, instead, "seal")
}
