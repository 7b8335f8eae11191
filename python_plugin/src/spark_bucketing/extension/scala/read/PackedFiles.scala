package org.apache.spark.sql.bucketing
package read

import java.net.URI

import scala.collection.mutable

import org.apache.hadoop.fs.{BlockLocation, FileStatus, LocatedFileStatus, Path}

/**
 * The files of a directory in about 150 bytes for each file, where the objects of Hadoop take 800. Spark's cache of listings, which has room for some number of
 * bytes, then holds five times as many files. A packed directory is a single FileStatus, because the cache holds only these.
 *
 * @param directory the URL of the directory, with a slash
 * @param names the names of the files in URLs
 * @param numbers for each file: length, modification time, block size, replication, number of blocks; then for each block: offset, length, index of its hosts
 * @param hosts names and hosts of blocks, without duplicates
 */
private class PackedFiles(directory: String, names: String, numbers: Array[Long], hosts: Array[(Array[String], Array[String])]) extends FileStatus {

  private def unpack: Array[FileStatus] = {
    var at = 0
    def next(): Long = { at += 1; numbers(at - 1) }
    def block() = {
      val (offset, length, (names, hosts)) = (next(), next(), this.hosts(next().toInt))
      new BlockLocation(names, hosts, offset, length)
    }
    names.split('/').map { name =>
      val (length, time, blockSize, replication, blocks) = (next(), next(), next(), next().toInt, next().toInt)
      new UnpackedFile(directory, name, length, time, blockSize, replication, Array.fill(blocks)(block()))
    }
  }
}

/** A file of a packed directory. Its path is made when somebody needs it, because to parse 300,000 URLs takes seconds. */
class UnpackedFile(directory: String, urlName: String, length: Long, time: Long, blockSize: Long, replication: Int, blocks: Array[BlockLocation])
    extends LocatedFileStatus(length, false, replication, blockSize, time, 0, null, null, null, null, null, blocks) {

  def url: String = directory + urlName

  /** Returns whether Spark reads the file. */
  def isData: Boolean = length > 0 && !urlName.startsWith(".") && (!urlName.startsWith("_") || urlName.contains("="))

  override def getPath: Path = {
    if (super.getPath == null) setPath(new Path(URI.create(url)))
    super.getPath
  }
  override def toString: String = { getPath; super.toString }
}

private object PackedFiles {

  /** Packs the files of a directory. Spark keeps the same of files that it lists in a job. Files with other attributes, such as the version of an object, stay. */
  def pack(files: Array[FileStatus]): Array[FileStatus] = {
    val urls = files.map(_.getPath.toUri.toString)
    val directory = urls.headOption.fold("")(url => url.substring(0, url.lastIndexOf('/') + 1))
    if (files.nonEmpty && files.forall(isPlain) && urls.forall(url => url.startsWith(directory) && url.indexOf('/', directory.length) < 0))
      Array(packed(directory, urls.map(_.substring(directory.length)), files))
    else files
  }

  def unpack(kept: Array[FileStatus]): Array[FileStatus] = kept match {
    case Array(packed: PackedFiles) => packed.unpack
    case files => files
  }

  /** Returns the URL of a file that has no path yet. */
  def urlOf(file: FileStatus): Option[String] = file match {
    case unpacked: UnpackedFile => Some(unpacked.url)
    case _ => None
  }

  private def isPlain(file: FileStatus) = file.isFile && (file.getClass == classOf[FileStatus] || file.getClass == classOf[LocatedFileStatus])

  private def packed(directory: String, names: Array[String], files: Array[FileStatus]): PackedFiles = {
    val hosts = mutable.LinkedHashMap.empty[(Seq[String], Seq[String]), Int]
    def numbersOf(block: BlockLocation) =
      Seq(block.getOffset, block.getLength, hosts.getOrElseUpdate((block.getNames.toSeq, block.getHosts.toSeq), hosts.size).toLong)
    val numbers = files.flatMap { file =>
      val blocks = Some(file).collect { case located: LocatedFileStatus if located.getBlockLocations != null => located.getBlockLocations.toSeq }
      Seq(file.getLen, file.getModificationTime, file.getBlockSize, file.getReplication.toLong, blocks.fold(-1L)(_.length.toLong)) ++ blocks.toSeq.flatten.flatMap(numbersOf)
    }
    new PackedFiles(directory, names.mkString("/"), numbers, hosts.keys.map { case (names, of) => (names.toArray, of.toArray) }.toArray)
  }
}
