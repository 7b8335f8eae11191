package org.apache.spark.sql.bucketing
package write

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.bucketing.metadata.FileStatistics
import org.apache.spark.sql.bucketing.read.{CurrentFiles, FileStatisticsColumns}
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.expressions.{Cast, EvalMode, Literal}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{StructField, StructType}

/** Range boundaries that an organized table gets from the files of another organized table. */
object SharedBoundaries {

  /** The table property with the SQL name of the other table. */
  private val Property = "bucketing.range_boundaries_from"

  /**
   * Returns the boundaries of each group of files, by the values of [[InsertedGroup]]; None if the table has boundaries of its own.
   *
   * @param columns the columns of the table. The other table has the same partition and implicit partition columns, and a range column of any name.
   */
  def of(session: SparkSession, table: CatalogTable, columns: FileStatisticsColumns, order: RangeOrder): Option[Map[Seq[Any], Array[Any]]] =
    table.properties.get(Property).filter(_ => columns.organized.nonEmpty).map { name =>
      val lowers = lowersOf(session, other(session, table, name, columns), columns)
      // The first file also gets the rows below its minimum.
      lowers.groupBy(_._1).map { case (group, of) => group -> order.distinct(of.map(_._2)).drop(1) }
    }

  private def other(session: SparkSession, table: CatalogTable, name: String, columns: FileStatisticsColumns): CatalogTable = {
    def refused(found: String, expected: String) = Compat.refusal(s"Cannot write into ${table.identifier.quotedString}.", s"$found in the table property '$Property'", expected,
      s"set the property to such a table, or remove it with ALTER TABLE ... UNSET TBLPROPERTIES ('$Property'); nothing has been inserted")
    val catalog = Compat.catalog(session)
    val identifier = Compat.tableNamed(session, name)
    if (!catalog.tableExists(identifier)) throw refused(s"the table $name, which does not exist,", "an existing table with a range column")
    val found = catalog.getTableMetadata(identifier)
    def names(of: FileStatisticsColumns) = Seq(of.partition, of.implicitPartition).map(_.fieldNames.map(_.toLowerCase(java.util.Locale.ROOT)).toSeq)
    val others = FileStatisticsColumns(found)
    if (others.organized.isEmpty || names(others) != names(columns))
      throw refused(s"the table $name", "a table with a range column, and with the same partition and implicit partition columns")
    found
  }

  /** Returns the group and the minimum of each file of the other table, with the column types of the table. */
  private def lowersOf(session: SparkSession, other: CatalogTable, columns: FileStatisticsColumns): Seq[(Seq[Any], Any)] = {
    val of = FileStatisticsColumns(other)
    val statistics = FileStatistics.read(session, new Path(other.location), other.partitionColumnNames.size)
    for {
      directory <- CurrentFiles.now(session, other)
      file <- directory.files
      stats <- statistics.toSeq.flatMap(_.of(file.fileStatus)) if of.describe(stats)
      lower <- Option(converted(stats.column(of.organized.head).lower, of.organized.head, columns.organized.head)).toSeq
    } yield {
      val partition = all(directory.values.copy().toSeq(of.partition), of.partition, columns.partition)
      val implicitPartition = all(of.implicitPartition.map(stats.column(_).lower), of.implicitPartition, columns.implicitPartition)
      (GroupKey.ofPartition(partition) ++ GroupKey.of(implicitPartition), lower)
    }
  }

  private def all(values: Seq[Any], from: StructType, to: StructType): Seq[Any] =
    values.zip(from.zip(to)).map { case (value, (from, to)) => converted(value, from, to) }

  private def converted(value: Any, from: StructField, to: StructField): Any = if (from.dataType == to.dataType) value
    else if (!Cast.canCast(from.dataType, to.dataType)) null
    else Cast(Literal(value, from.dataType), to.dataType, Some(SQLConf.get.sessionLocalTimeZone), EvalMode.TRY).eval()
}
