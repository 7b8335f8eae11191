package org.apache.spark.sql.bucketing
package write

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec

/**
 * The move of a new file into the table.
 *
 * @param partition the values of a partition that may be new; None otherwise
 */
case class FileMove(from: Path, to: Path, partition: Option[TablePartitionSpec], isNewPartition: Boolean)

/** Another statement has changed the table since this statement read it. */
class ConcurrentChange(message: String, cause: Throwable) extends RuntimeException(message, cause)
