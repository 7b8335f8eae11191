package org.apache.spark.sql.bucketing
package metadata

import java.util.Locale

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.execution.command.DDLUtils

/** The file formats whose readers return rows exactly as they were written. CSV, for example, trims text. */
object SealedFormats {

  private val Names = Seq("parquet", "orc")

  /** The option that encrypts ORC columns. A session without the key gets no error, but reads NULL or another masked value. */
  private val Encrypting = "orc.encrypt"

  /** Returns the format of a table's files, which is the table's provider or its input format. */
  def of(table: CatalogTable): String =
    (if (DDLUtils.isHiveTable(table)) table.storage.inputFormat else table.provider).getOrElse("none")

  /** Returns whether the files of a table can be sealed. */
  def has(table: CatalogTable): Boolean = {
    val format = of(table).toLowerCase(Locale.ROOT)
    if (DDLUtils.isHiveTable(table)) Names.exists(format.contains) else Names.contains(format)
  }

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
