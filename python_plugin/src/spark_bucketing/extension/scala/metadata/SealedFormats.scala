package org.apache.spark.sql.bucketing
package metadata

import java.util.Locale

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.execution.command.DDLUtils
import org.apache.spark.sql.types.{DataType, TimestampType}

/** The file formats whose readers return rows exactly as they were written. CSV, for example, trims text. */
object SealedFormats {

  private val Parquet = "parquet"
  private val Names = Seq(Parquet, "orc")

  /** The option that encrypts ORC columns. A session without the key gets no error, but reads NULL or another masked value. */
  private val Encrypting = "orc.encrypt"

  /**
   * Returns the format of a table's files: `parquet`, `orc`, or for other formats the provider or the input format. The provider of a table that was created
   * with STORED AS is `hive`. Spark reads its files by its SerDe, and other engines by its input format, so that both must have the format.
   */
  def of(table: CatalogTable): String = {
    val storage = table.storage
    val classes = if (DDLUtils.isHiveTable(table)) Seq(storage.inputFormat, storage.serde) else Nil
    if (classes.isEmpty) table.provider.fold("none")(_.toLowerCase(Locale.ROOT))
    else Names.find(name => classes.forall(_.exists(_.toLowerCase(Locale.ROOT).contains(name)))).getOrElse(storage.inputFormat.getOrElse("none"))
  }

  /** Returns whether the files of a table can be sealed. */
  def has(table: CatalogTable): Boolean = Names.contains(of(table))

  /**
   * Returns whether all sessions read the same values of this type. ORC stores timestamps in the writer's local time, so that a session in another time zone
   * reads other values. Other formats than Parquet may do the same.
   */
  def isTheSameForAll(table: CatalogTable, dataType: DataType): Boolean = dataType != TimestampType || of(table) == Parquet

  /** Returns why files that Spark writes into a table cannot be sealed, or None if they can be sealed. */
  def objectionTo(table: CatalogTable, conf: Configuration): Option[String] =
    if (!has(table)) Some(s"their format is ${of(table)}")
    else {
      val ofTable = table.properties ++ table.storage.properties
      ofEncryption(name => ofTable.getOrElse(name, conf.get(name)))
    }

  def ofEncryption(setting: String => String): Option[String] =
    if (setting(Encrypting) == null) None else Some(s"$Encrypting is set, so a session without the key reads other values")
}
