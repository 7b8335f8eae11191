package org.apache.spark.sql.bucketing
package read

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.metadata.{Replacement, TableFiles}
import org.apache.spark.sql.catalyst.catalog.{CatalogTable, HiveTableRelation}
import org.apache.spark.sql.catalyst.planning.PhysicalOperation
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy}

/**
 * Refuses to read a table with Hive's SerDe while it has files that readers must ignore. Hive's reader lists all files, so that it would return rows twice.
 * Spark reads Parquet and ORC tables with it if spark.sql.hive.convertMetastoreParquet or convertMetastoreOrc is false.
 */
case class RefuseHiveReads(session: SparkSession) extends SparkStrategy {

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = {
    plan match {
      case PhysicalOperation(_, _, relation: HiveTableRelation) if BucketingConf.enabled && CurrentReads.isChangeable(relation.tableMeta) => check(relation.tableMeta)
      case _ =>
    }
    Nil
  }

  private def check(table: CatalogTable): Unit = {
    val (location, conf) = (new Path(table.location), Compat.hadoopConf(session))
    val hidden = Replacement.forReader(location, conf).flatMap(_.hidden).map(TableFiles(location).pathOf)
    Compat.inParallel(hidden)(file => Some(file).filter(file.getFileSystem(conf).exists)).flatten.headOption.foreach { file =>
      throw Compat.refusal(s"Cannot read ${table.identifier.quotedString} with Hive's SerDe.", s"the file $file of a statement that has not finished",
        "spark.sql.hive.convertMetastoreParquet and spark.sql.hive.convertMetastoreOrc to be true, because only Spark's own readers ignore such files",
        s"set both to true, or run the query again after the statement. If it has crashed, run ALTER TABLE ${table.identifier.quotedString} RECOVER FILES")
    }
  }
}
