package org.apache.spark.sql.bucketing
package write

import org.apache.spark.internal.Logging
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.{Compat, SealedCommands}
import org.apache.spark.sql.bucketing.ddl.BucketDdl
import org.apache.spark.sql.catalyst.catalog.{BucketSpec, CatalogTable}
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, AttributeReference, Cast, Expression}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.command.{CreateDataSourceTableAsSelectCommand, DDLUtils}
import org.apache.spark.sql.execution.datasources.{BucketingUtils, V1WriteCommand, WriteFiles}
import org.apache.spark.sql.internal.SQLConf

/**
 * Makes every write into a bucketed table write buckets, and one file for each (of each partition).
 *
 * An optimizer rule that comes just before Spark's `V1Writes`, which puts the sort and the files on top:
 * {{{
 *   INSERT                     INSERT
 *   +- query         =>        +- BucketedRows      the shuffle by bucket
 *                                 +- query
 * }}}
 */
case class BucketedWrites(session: SparkSession) extends Rule[LogicalPlan] with Logging {

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!BucketingConf.enabled) plan
    else plan.transformDown {
      case write: V1WriteCommand if !write.query.isInstanceOf[WriteFiles] => prepared(write)
      case create: CreateDataSourceTableAsSelectCommand if create.table.bucketSpec.isDefined => SealedCreateTableAsSelect(create)
    }

  private def prepared(write: V1WriteCommand): V1WriteCommand = {
    val table = Compat.writtenTable(write).filter(isBucketable).map(Compat.current(session, _))
    val buckets = distributed(table.filter(DDLUtils.isHiveTable).fold(write)(intoBuckets(write, _)))
    if (buckets.bucketSpec.isDefined && BucketedWrites.isSealable(buckets)) sealedWrite(buckets, table) else buckets
  }

  // In a Spark whose commands are other ones, rows are written without a seal.
  private def sealedWrite(write: V1WriteCommand, table: Option[CatalogTable]): V1WriteCommand =
    try SealedCommands(write, table) catch { case error: LinkageError =>
      logWarning(s"What is written into ${table.fold("a new table")(_.identifier.quotedString)} is not sealed.", error)
      write
    }

  private def isBucketable(table: CatalogTable): Boolean = DDLUtils.isHiveTable(table) || table.bucketSpec.isDefined

  /**
   * The write with the buckets that the metastore has for its table. After a SELECT from a table of the Hive layout,
   * Spark's cache holds a relation without buckets, and an INSERT that finds it there would write none.
   */
  private def intoBuckets(write: V1WriteCommand, table: CatalogTable): V1WriteCommand = table.bucketSpec match {
    case Some(spec) =>
      BucketedWrites.refuseOtherVersions(table)
      BucketedWrites.unlikeHive(table, spec).foreach(warning => logWarning(warning))
      Compat.withBuckets(write, spec, write.options + (BucketingUtils.optionForHiveCompatibleBucketWrite -> "true"))
    case None => write
  }

  private def distributed(write: V1WriteCommand): V1WriteCommand = (for {
    spec <- write.bucketSpec if BucketingConf.distributesWrites
    keys <- BucketedWrites.columns(spec, write.query.output)
  } yield {
    val whole = Compat.withBuckets(write, spec, BucketedWrites.uncapped(write.options))
    if (BucketedWrites.isDistributed(write.query)) whole
    else {
      val rows = BucketedRows(Compat.dynamicPartitions(write), keys, SealedWrites.hashOf(write), spec.numBuckets,
        SQLConf.get.numShufflePartitions, BucketedWrites.unshuffled(write.query))
      whole.withNewChildren(rows :: Nil).asInstanceOf[V1WriteCommand]
    }
  }).getOrElse(write)
}

object BucketedWrites {

  private val CapOnRows = "maxRecordsPerFile"

  /** The column by which this package's dbt macros spread the rows. */
  private val MacrosKey = "__spark_bucketing_key"

  private def columns(spec: BucketSpec, output: Seq[Attribute]): Option[Seq[Attribute]] = {
    val found = spec.bucketColumnNames.map(name => output.find(column => SQLConf.get.resolver(column.name, name)))
    if (found.forall(_.isDefined)) Some(found.flatten) else None
  }

  /** A cap on rows per file, in whichever spelling, would make several files of a bucket. */
  private def uncapped(options: Map[String, String]): Map[String, String] =
    options.filterNot { case (name, _) => name.equalsIgnoreCase(CapOnRows) } + (CapOnRows -> "0")

  /**
   * Not where rows come in an order: Spark takes a descending one for that of the buckets. Nor where a task has several
   * files open, and does not say which partition each of them is in.
   */
  private def isSealable(write: V1WriteCommand): Boolean =
    write.query.outputOrdering.isEmpty && SQLConf.get.maxConcurrentOutputFileWriters == 0

  private def isDistributed(query: LogicalPlan): Boolean = query match {
    case Project(_, child) => isDistributed(child)
    case RepartitionByExpression(Seq(key: AttributeReference), _, _, _) => key.name == MacrosKey
    case _: BucketedRows => true
    case _ => false
  }

  /**
   * The query without the shuffles and sorts on top of it, which the one by bucket would undo. What is computed above them
   * may depend on the order of the rows, or be the reason to spread them over more tasks, and keeps what is below it.
   */
  private def unshuffled(query: LogicalPlan): LogicalPlan = query match {
    case Project(columns, child) if columns.forall(isCheap) => Project(columns, unshuffled(child))
    case shuffle: RepartitionOperation if shuffle.shuffle => unshuffled(shuffle.child)
    case rebalance: RebalancePartitions => unshuffled(rebalance.child)
    case sort: Sort => unshuffled(sort.child)
    case _ => query
  }

  private def isCheap(column: Expression): Boolean = column match {
    case Alias(child, _) => isCheap(child)
    case cast: Cast => isCheap(cast.child)
    case _ => column.isInstanceOf[Attribute] || column.foldable && column.deterministic
  }

  /** What to say of a bucket column whose hash by Spark is not Hive's. Spark has written such tables always. */
  private def unlikeHive(table: CatalogTable, spec: BucketSpec): Option[String] =
    BucketDdl.unlikeHive(table, spec.bucketColumnNames).map { key =>
      s"Table ${table.identifier.quotedString} is bucketed by ${key.name} ${key.dataType.sql}, a type that Spark hashes " +
        "otherwise than Hive: Hive and Trino may look for rows in other buckets than they are in. Spark reads it plainly."
    }

  private def refuseOtherVersions(table: CatalogTable): Unit =
    table.properties.get("bucketing_version").filter(_.trim != "1").foreach { version =>
      val name = table.identifier.quotedString
      throw Compat.refusal(
        s"Cannot write into $name: its bucketing_version is $version, and Spark computes buckets of version 1, so that " +
          "Hive and Trino would look for the rows in other buckets than they are in. Expected bucketing_version 1. " +
          s"Write the table with the engine that created it; or create it with TBLPROPERTIES " +
          s"('bucketing_version'='1'); or, while it is empty, ALTER TABLE $name SET TBLPROPERTIES " +
          "('bucketing_version'='1').")
    }
}
