package org.apache.spark.sql.bucketing
package metadata

import java.util.Locale

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.execution.command.DDLUtils

/** The formats whose readers return the rows of a file as they were written. CSV, for one, trims text. */
object SealedFormats {

  private val Names = Seq("parquet", "orc")

  /** ORC encrypts columns by this setting: a session without the key reads NULL or another mask in their place, without an error. */
  private val Encrypting = "orc.encrypt"

  /** The format of a table's files, as its provider or its input format names it. */
  def of(table: CatalogTable): String =
    (if (DDLUtils.isHiveTable(table)) table.storage.inputFormat else table.provider).getOrElse("none")

  /** Whether files of a table can be sealed. */
  def has(table: CatalogTable): Boolean = {
    val format = of(table).toLowerCase(Locale.ROOT)
    if (DDLUtils.isHiveTable(table)) Names.exists(format.contains) else Names.contains(format)
  }

  /** Why files that are written into a table are not to be sealed. */
  def objectionTo(table: CatalogTable, conf: Configuration): Option[String] =
    if (!has(table)) Some(s"they are of the format ${of(table)}")
    else {
      val ofTable = table.properties ++ table.storage.properties
      ofEncryption(name => ofTable.getOrElse(name, conf.get(name)))
    }

  def ofEncryption(setting: String => String): Option[String] =
    if (setting(Encrypting) == null) None else Some(s"$Encrypting is set, and a session without the key reads other values")
}
