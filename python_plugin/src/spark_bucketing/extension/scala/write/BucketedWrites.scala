package org.apache.spark.sql.bucketing
package write

import org.apache.spark.internal.Logging
import org.apache.spark.sql.{AnalysisException, SparkSession}
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.hash.HiveBucketHash
import org.apache.spark.sql.bucketing.metadata.{BucketValidation, WriteTarget}
import org.apache.spark.sql.bucketing.read.CurrentReads
import org.apache.spark.sql.catalyst.catalog.{BucketSpec, CatalogTable}
import org.apache.spark.sql.catalyst.expressions.{Alias, Attribute, AttributeReference, Cast, Expression}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.command.{CreateDataSourceTableAsSelectCommand, DDLUtils}
import org.apache.spark.sql.execution.datasources.{V1WriteCommand, WriteFiles}
import org.apache.spark.sql.internal.SQLConf

/**
 * Makes every write into a bucketed table produce one file per bucket in each partition.
 *
 * This optimizer rule runs just before Spark's `V1Writes`, which adds the sort and the file writer:
 * {{{
 *   INSERT                     INSERT
 *   +- query         =>        +- BucketedRows      the shuffle by bucket
 *                                 +- query
 * }}}
 */
case class BucketedWrites(session: SparkSession) extends Rule[LogicalPlan] with Logging {

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (!BucketingConf.enabled) plan else plan.transformDown {
      case write: V1WriteCommand if !write.query.isInstanceOf[WriteFiles] => prepared(write)
      case create: CreateDataSourceTableAsSelectCommand if create.table.bucketSpec.isDefined => SealedCreateTableAsSelect(create)
    }

  private def prepared(hinted: V1WriteCommand): V1WriteCommand = {
    val (hints, write) = (OverwriteHints.of(hinted), OverwriteHints.without(hinted))
    val table = Compat.writtenTable(write).filter(table => isBucketable(table) || CurrentReads.isChangeable(table)).map(Compat.current(session, _))
    table.filter(WriteTarget.isOurs).foreach(WriteTarget.check(session, _, "write into", Compat.fileIndex(write)))
    val buckets = distributed(table.filter(DDLUtils.isHiveTable).fold(write)(intoBuckets(write, _)))
    val sealable = buckets.bucketSpec.isDefined && BucketedWrites.isSealable(buckets)
    val insert = table.flatMap(AtomicInsert.of(session, buckets, _, sealable, hints))
    if (!hints.isEmpty && insert.isEmpty) hinted
    // The wrapped command also requires the ordering for a bucket hash that stock Spark cannot write.
    else if (insert.isDefined || sealable && table.isEmpty || !SealedWrites.hashOf(buckets.options).isWrittenByStockSpark)
      sealedWrite(if (insert.exists(_.isOrganized)) BucketedWrites.unshuffled(buckets) else buckets, table, insert, hints)
    else buckets
  }

  // If the write commands of this Spark build differ from the release's commands, the write continues without a seal, unless it has hints.
  private def sealedWrite(write: V1WriteCommand, table: Option[CatalogTable], insert: Option[AtomicInsert], hints: OverwriteHints): V1WriteCommand =
    try SealedCommands(write, table, insert) catch { case error: LinkageError if hints.isEmpty && SealedWrites.hashOf(write.options).isWrittenByStockSpark =>
      logWarning(s"The files written into ${table.fold("a new table")(_.identifier.quotedString)} are not sealed: " +
        "found write commands that differ from Spark's release. Expected the Spark build that compiled the session extension. " +
        "Instead: run `spark-bucketing extension build` with this Spark.", error)
      write
    }

  private def isBucketable(table: CatalogTable): Boolean = DDLUtils.isHiveTable(table) || table.bucketSpec.isDefined

  /**
   * Returns the write with the bucket spec that the metastore has for the table. After a SELECT from a table in the Hive
   * layout, Spark caches a relation without buckets. An INSERT with this relation would write an unbucketed file.
   */
  private def intoBuckets(write: V1WriteCommand, table: CatalogTable): V1WriteCommand = table.bucketSpec match {
    case Some(spec) =>
      val hash = BucketedWrites.hashOf(table)
      BucketedWrites.unlikeHive(table, hash, spec).foreach { refusal =>
        if (hash.isWrittenByStockSpark) logWarning(refusal.getSimpleMessage) else throw refusal
      }
      Compat.withBuckets(write, spec, write.options ++ SealedWrites.optionsOf(hash))
    case None => write
  }

  private def distributed(write: V1WriteCommand): V1WriteCommand = (for {
    spec <- write.bucketSpec if BucketingConf.distributesWrites
    keys <- BucketedWrites.columns(spec, write.query.output)
  } yield {
    val whole = Compat.withBuckets(write, spec, BucketedWrites.uncapped(write.options))
    if (BucketedWrites.isDistributed(write.query)) whole
    else {
      val rows = BucketedRows(Compat.dynamicPartitions(write), keys, SealedWrites.hashOf(write.options), spec.numBuckets,
        SQLConf.get.numShufflePartitions, BucketedWrites.unshuffled(write.query))
      whole.withNewChildren(rows :: Nil).asInstanceOf[V1WriteCommand]
    }
  }).getOrElse(write)
}

object BucketedWrites {

  private val CapOnRows = "maxRecordsPerFile"

  /** The column that this package's dbt macros shuffle the rows by. */
  private val MacrosKey = "__spark_bucketing_key"

  private def columns(spec: BucketSpec, output: Seq[Attribute]): Option[Seq[Attribute]] = {
    val found = spec.bucketColumnNames.map(name => output.find(column => SQLConf.get.resolver(column.name, name)))
    if (found.forall(_.isDefined)) Some(found.flatten) else None
  }

  /** Removes the option that limits the rows per file, however it is spelled, because it would split a bucket into several files. */
  private def uncapped(options: Map[String, String]): Map[String, String] =
    options.filterNot { case (name, _) => name.equalsIgnoreCase(CapOnRows) } + (CapOnRows -> "0")

  /**
   * Returns whether the files of a write can be sealed. Writes with ordered input cannot be sealed, because Spark mistakes a
   * descending order for the sort order of the buckets. Writes with concurrent writers cannot be sealed either, because such
   * writers do not report the partition of each file.
   */
  private def isSealable(write: V1WriteCommand): Boolean =
    write.query.outputOrdering.isEmpty && SQLConf.get.maxConcurrentOutputFileWriters == 0

  /** Returns whether a macro of this package has distributed the rows. */
  def isDistributed(query: LogicalPlan): Boolean = query match {
    case Project(_, child) => isDistributed(child)
    case sort: Sort if !sort.global => isDistributed(sort.child)
    case RepartitionByExpression(Seq(key: AttributeReference), _, _, _) => key.name == MacrosKey
    case _: BucketedRows => true
    case _ => false
  }

  /**
   * Returns the query without its topmost shuffles and sorts, which are useless below the shuffle by bucket or file. Shuffles and
   * sorts below a computed column stay, because the column may depend on the order of the rows or on the number of tasks.
   */
  private def unshuffled(query: LogicalPlan): LogicalPlan = query match {
    case Project(columns, child) if columns.forall(isCheap) => Project(columns, unshuffled(child))
    case shuffle: RepartitionOperation if shuffle.shuffle => unshuffled(shuffle.child)
    case rebalance: RebalancePartitions => unshuffled(rebalance.child)
    case sort: Sort => unshuffled(sort.child)
    case _ => query
  }

  private def unshuffled(write: V1WriteCommand): V1WriteCommand =
    write.withNewChildren(unshuffled(write.query) :: Nil).asInstanceOf[V1WriteCommand]

  private def isCheap(column: Expression): Boolean = column match {
    case Alias(child, _) => isCheap(child)
    case cast: Cast => isCheap(cast.child)
    case _ => column.isInstanceOf[Attribute] || column.foldable && column.deterministic
  }

  /** Returns a warning if Spark hashes a bucket column differently from Hive. Stock Spark writes such tables without a warning. */
  private def unlikeHive(table: CatalogTable, hash: HiveBucketHash, spec: BucketSpec): Option[AnalysisException] =
    BucketValidation.unlikeHive(table, hash, spec.bucketColumnNames).map { key =>
      Compat.refusal(s"Table ${table.identifier.quotedString} has a bucket column that Spark hashes differently from Hive.",
        s"${key.name} of type ${key.dataType.sql}; Hive and Trino may look for rows in the wrong buckets, and Spark uses an ordinary scan",
        s"a column of type ${hash.types}", "bucket the table by another column")
    }

  /** Returns the hash that a table states. Throws an error if this session cannot write buckets with this hash. */
  private def hashOf(table: CatalogTable): HiveBucketHash = {
    val hash = BucketValidation.statedHash(table, "write into")
    if (!hash.isWrittenByStockSpark && !SQLConf.get.plannedWriteEnabled) throw Compat.refusal(
      s"Cannot write into ${table.identifier.quotedString}.", s"${SQLConf.PLANNED_WRITE_ENABLED.key}=false",
      s"true, because Spark's own writer does not support bucketing_version ${hash.bucketingVersion}", s"set ${SQLConf.PLANNED_WRITE_ENABLED.key} to true")
    hash
  }
}
