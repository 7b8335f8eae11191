package org.apache.spark.sql.bucketing
package ddl

import org.apache.spark.sql.{AnalysisException, SparkSession}
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.metadata.{BucketValidation, PartitionStore, StoredPartition}
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.plans.logical.{Filter, LocalRelation}
import org.apache.spark.sql.catalyst.types.DataTypeUtils.toAttributes
import org.apache.spark.sql.internal.SQLConf

/** Selects the partitions that a statement names by their values or by a predicate. */
object SealPartitions {

  def selected(
      session: SparkSession, table: CatalogTable, partition: Option[TablePartitionSpec],
      where: Option[Expression]): StoredPartition => Boolean = {
    if ((partition.isDefined || where.isDefined) && table.partitionColumnNames.isEmpty)
      throw refused(table, "no partitions", "a partitioned table for a PARTITION or WHERE clause", "omit these clauses")
    val store = PartitionStore.of(session)
    def named = partition.map(given => store.list(table, BucketValidation.stored(table, given)).map(_.name).toSet)
    def filtered = where.map { asked =>
      Compat.externalCatalog(session)
        .listPartitionsByFilter(table.database, table.identifier.table, Seq(predicate(session, table, asked)),
          SQLConf.get.sessionLocalTimeZone)
        .map(found => store.nameOf(table, found.spec)).toSet
    }
    val names = Seq(named, filtered).flatten
    found => names.forall(_.contains(found.name))
  }

  private def predicate(session: SparkSession, table: CatalogTable, asked: Expression): Expression = {
    val columns = LocalRelation(toAttributes(table.partitionSchema))
    try Compat.analyzed(session, Filter(asked, columns)) match {
      case Filter(resolved, _) if resolved.deterministic && !resolved.exists(_.isInstanceOf[org.apache.spark.sql.catalyst.expressions.SubqueryExpression]) => resolved
      case _ => throw refused(table, s"the predicate ${asked.sql}", "a deterministic predicate on the partition columns, without subqueries",
        s"use only the columns ${table.partitionColumnNames.mkString(", ")}")
    } catch { case error: AnalysisException if !Compat.isRefusal(error) =>
      throw refused(table, s"the predicate ${asked.sql}: ${error.getSimpleMessage.linesIterator.next()}",
        s"a predicate on the partition columns ${table.partitionColumnNames.mkString(", ")}", "use only these columns")
    }
  }

  def refused(table: CatalogTable, found: String, expected: String, instead: String): AnalysisException =
    Compat.refusal(s"Cannot seal ${table.identifier.quotedString}.", found, expected, instead)
}
