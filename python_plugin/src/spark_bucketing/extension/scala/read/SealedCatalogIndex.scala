package org.apache.spark.sql.bucketing
package read

import java.util.IdentityHashMap

import scala.collection.mutable

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.compat.SparkVersion.ClassicSession
import org.apache.spark.sql.bucketing.metadata.Seal
import org.apache.spark.sql.catalyst.catalog.{CatalogStorageFormat, CatalogTablePartition, ExternalCatalogUtils}
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression}
import org.apache.spark.sql.catalyst.plans.logical.{LeafNode, LogicalPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.datasources._

/**
 * Spark's index of a partitioned table, for one query. It keeps the seals of the partitions that the query selects. Spark's own index drops them, and to ask the
 * metastore again would take a second for 10,000 partitions.
 *
 * @param stock Spark's index, which later queries of the session also use
 */
class SealedCatalogIndex(session: ClassicSession, val stock: CatalogFileIndex) extends CatalogFileIndex(session, stock.table, stock.sizeInBytes) {

  private val selections = mutable.Map.empty[Any, SelectedPartitions]

  override def filterPartitions(filters: Seq[Expression]): SelectedPartitions = synchronized {
    selections.getOrElseUpdate(PerQueryCache.comparable(filters), select(filters))
  }

  override def refresh(): Unit = synchronized {
    selections.clear()
    stock.refresh()
  }

  private def select(filters: Seq[Expression]): SelectedPartitions = {
    val start = System.nanoTime()
    val conf = session.sessionState.conf
    val found = ExternalCatalogUtils.listPartitionsByFilter(conf, session.sessionState.catalog, table, filters)
    val partitions = found.map { partition =>
      val path = new Path(partition.location)
      PartitionPath(partition.toRow(partitionSchema, conf.sessionLocalTimeZone), path.getFileSystem(hadoopConf).makeQualified(path))
    }
    new SelectedPartitions(session, PartitionSpec(partitionSchema, partitions), found.map(SealedCatalogIndex.onlySeal),
      Compat.listingCache(stock).getOrElse(NoopCache), System.nanoTime() - start)
  }
}

/**
 * Spark's index of some partitions.
 *
 * @param partitions the partitions, with the seals that they had before Spark listed their files
 */
class SelectedPartitions(session: ClassicSession, spec: PartitionSpec, val partitions: Seq[CatalogTablePartition], cache: FileStatusCache, nanos: Long)
  extends InMemoryFileIndex(session, spec.partitions.map(_.path), Map.empty, Some(spec.partitionColumns), cache, Some(spec), Some(nanos))

object SealedCatalogIndex {

  /** Returns the index that Spark keeps for later queries. */
  def stock(index: FileIndex): FileIndex = index match {
    case of: SealedCatalogIndex => of.stock
    case other => other
  }

  // A query may be kept, so keep little of its partitions.
  private def onlySeal(of: CatalogTablePartition) = CatalogTablePartition(
    of.spec, CatalogStorageFormat.empty.copy(locationUri = of.storage.locationUri), of.parameters.filter { case (key, _) => Seal.Keys.exists(_ == key) })
}

/** Gives the bucketed tables of a query an index that keeps seals, before Spark selects partitions. Relations of the same table share it. */
object KeepSeals extends Rule[LogicalPlan] {

  // Spark's index equals the new one, and transform() keeps an equal node. Therefore, another node is in its place for a moment.
  private case class Changed(relation: LogicalRelation) extends LeafNode {
    override def output: Seq[Attribute] = relation.output
  }

  override def apply(plan: LogicalPlan): LogicalPlan = if (!BucketingConf.enabled) plan else {
    val made = new IdentityHashMap[CatalogFileIndex, SealedCatalogIndex]
    plan.transform { case relation: LogicalRelation =>
      relation.relation match {
        case files @ HadoopFsRelation(stock: CatalogFileIndex, partition, _, _, _, _) if partition.nonEmpty && stock.table.bucketSpec.isDefined =>
          val index = made.computeIfAbsent(stock, new SealedCatalogIndex(files.sparkSession.asInstanceOf[ClassicSession], _))
          Changed(relation.copy(relation = files.copy(location = index)(files.sparkSession)))
        case _ => relation
      }
    }.transform { case Changed(relation) => relation }
  }
}
