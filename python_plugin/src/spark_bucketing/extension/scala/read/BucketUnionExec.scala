package org.apache.spark.sql.bucketing
package read

import org.apache.spark.rdd.{RDD, UnionRDD}
import org.apache.spark.sql.bucketing.read.BucketAwareScan.like
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.physical._
import org.apache.spark.sql.execution.{FileSourceScanExec, SparkPlan, UnionExec}

/**
 * UNION ALL of inputs with the same buckets. Partition i combines partition i of every input.
 *
 * Stock Spark's `UnionExec` also combines partitions, but only if the partitionings are exactly equal. For example, they are
 * not equal if a filter excludes NULL on one side.
 *
 * @param merged whether to merge the sorted inputs by their common ordering
 */
case class BucketUnionExec(children: Seq[SparkPlan], merged: Boolean = false) extends SparkPlan {

  private def stock: UnionExec = UnionExec(children)

  override def output: Seq[Attribute] = stock.output

  override lazy val outputPartitioning: Partitioning =
    BucketUnionExec.partitioning(children, output).getOrElse(UnknownPartitioning(0))

  /** Returns the ordering that all inputs share, in terms of the union's output columns. */
  private def commonOrder: Seq[SortOrder] = {
    val orders = children.map { child =>
      val places = AttributeMap(child.output.zip(output))
      child.outputOrdering.map(_.transform { case a: Attribute => places.getOrElse(a, a) }.asInstanceOf[SortOrder])
    }
    orders.reduce((a, b) => a.zip(b).takeWhile { case (x, y) => x.semanticEquals(y) }.map(_._1))
  }

  override lazy val outputOrdering: Seq[SortOrder] = if (merged && zips) commonOrder else Nil

  // If no operator above requires the buckets, adaptive execution may change the number of partitions of an exchange below.
  // In that case, the bucket union behaves as an ordinary union.
  private def zips: Boolean = !outputPartitioning.isInstanceOf[UnknownPartitioning]

  override protected def doExecute(): RDD[InternalRow] = if (!zips) stock.execute() else {
    val inputs = children.map(_.execute())
    val n = outputPartitioning.numPartitions
    require(inputs.forall(_.getNumPartitions == n), s"Expected $n partitions in each input of a bucket union")
    new CombinedPartitionsRDD(new UnionRDD(sparkContext, inputs), (0 until n).map(i => inputs.indices.map(_ * n + i)), outputOrdering, output)
  }

  override protected def withNewChildrenInternal(newChildren: IndexedSeq[SparkPlan]): BucketUnionExec =
    copy(children = newChildren)
}

object BucketUnionExec {

  /** Returns the hash partitioning that all inputs share, in terms of the union's output columns, or None if they differ. */
  def partitioning(children: Seq[SparkPlan], output: Seq[Attribute]): Option[HashPartitioning] = {
    val alternatives = children.map { child =>
      val places = AttributeMap(child.output.zip(output))
      hashes(BucketRequirements.partitioning(child)).filter(_.references.forall(places.contains)).map { found =>
        found.transform { case a: Attribute => places(a) }.asInstanceOf[HashPartitioning]
      }
    }
    alternatives.head.find { candidate =>
      alternatives.tail.forall(_.exists(other => candidate.canEqual(other) && candidate.semanticEquals(other)))
    }
  }

  private def hashes(partitioning: Partitioning): Seq[HashPartitioning] = partitioning match {
    case PartitioningCollection(several) => several.flatMap(hashes)
    case hash: HashPartitioning => Seq(hash)
    case _ => Nil
  }
}

/** Replaces unions with bucket unions if all inputs have the same buckets. Undoes the replacement if an input is no longer bucketed. */
object BucketUnions {

  def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
    case union: UnionExec if union.children.forall(ofBuckets) && fits(union) => like(union, BucketUnionExec(union.children))
  }

  def takeBack(plan: SparkPlan): SparkPlan = plan.transformUp {
    case union: BucketUnionExec if !fits(union) => like(union, UnionExec(union.children))
  }

  // Spark's rules do not know this operator. Therefore, they may later replace Spark's own bucketed scans below it with ordinary scans.
  private def fits(union: SparkPlan): Boolean =
    BucketUnionExec.partitioning(union.children, union.output).isDefined && !union.exists {
      case scan: FileSourceScanExec => scan.bucketedScan
      case _ => false
    }

  private def ofBuckets(plan: SparkPlan): Boolean = plan.exists {
    case _: BucketScan | _: RepartitionsByBucket => true
    case _ => false
  }
}
