package org.apache.spark.sql.bucketing

import org.apache.spark.SparkException
import org.apache.spark.rdd.{InputFileBlockHolder, RDD}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen._
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.execution._
import org.apache.spark.sql.types._

/**
 * Holds a bucketed scan to its word, row by row: each row is of the bucket that its partition reads, and comes after
 * the row before it. A row that is not fails the query; nothing above may rely on it.
 *
 * {{{
 *   SortMergeJoin
 *   +- BucketCheck k % 8 buckets, order k
 *      +- ColumnarToRow
 *         +- FileScan ... Bucketed: true (8 Hive buckets, sorted)
 * }}}
 */
case class BucketCheckExec(guards: Seq[Expression], child: SparkPlan) extends UnaryExecNode with CodegenSupport {

  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  // Two checks of equal scans are equal, whatever they report to: the exchange above them can be reused.
  override protected def doCanonicalize(): SparkPlan = child.canonicalized
  override def inputRDDs(): Seq[RDD[InternalRow]] = child.asInstanceOf[CodegenSupport].inputRDDs()
  override protected def doProduce(ctx: CodegenContext): String = child.asInstanceOf[CodegenSupport].produce(ctx, this)

  override def doConsume(ctx: CodegenContext, input: Seq[ExprCode], row: ExprCode): String = {
    val needed = evaluateRequiredVariables(child.output, input, AttributeSet(guards.flatMap(_.references)))
    ctx.currentVars = input
    val checks = guards.map { guard =>
      val checked = BindReferences.bindReference(guard, child.output).genCode(ctx)
      s"${checked.code}\nif (!${checked.value}) continue;"
    }
    s"""
       |do {
       |  $needed
       |  ${checks.mkString("\n")}
       |  ${consume(ctx, input)}
       |} while (false);
     """.stripMargin
  }

  override protected def doExecute(): RDD[InternalRow] = {
    val (condition, input) = (guards.reduce(And(_, _)), child.output)
    child.execute().mapPartitionsWithIndexInternal { (index, rows) =>
      val check = Predicate.create(condition, input)
      check.initialize(index)
      rows.filter(check.eval)
    }
  }

  override protected def withNewChildInternal(newChild: SparkPlan): BucketCheckExec = copy(child = newChild)
}

/**
 * What is done about a row out of place: the query fails, and the files, or only their order, are not trusted in this
 * session again.
 */
case class BucketAlarm(table: String, roots: Seq[String], distrust: Findings[Distrust], oneFileAtATime: Boolean) {

  def misplaced(found: Int, partition: Int): Unit =
    raise(s"a row of bucket $found among those of bucket $partition", OfRows, "reads these files plainly")

  def unsorted(): Unit =
    raise("a row that is not in the order of the sort columns", OfOrder, "does not rely on the order of these files")

  private def raise(what: String, of: Distrust, after: String): Unit = {
    // The task's current file may be that of another scan, whose rows this one's are joined with. So all files of the scan
    // are distrusted, and the one only named where it can be the one.
    val current = Option(InputFileBlockHolder.getInputFilePath.toString).filter(_.nonEmpty)
    val file = current.filter(path => oneFileAtATime && roots.exists(root => path.startsWith(root + "/")))
    distrust.add(of)
    throw new SparkException(
      s"Table $table is not bucketed as its metadata says: found $what" + file.fold("")(" in file " + _) +
        s". The query was stopped, and its result is not complete. Run it again: this session now $after. " +
        s"A DataFrame or a cached table keeps its plan, and has to be made (or UNCACHE TABLE) anew. To read the " +
        s"table plainly from the start, set ${BucketingConf.ENABLED.key}=false; to repair it, write it again.")
  }
}

/**
 * True for the rows of the bucket whose number is the index of the partition. Others are dropped where several partitions
 * share a bucket of the table and the row is one of another of these; any other row raises the alarm. Nondeterministic:
 * it depends on the index of the partition, which Spark keeps track of for such expressions only.
 *
 * @param child the row's bucket, of as many as there are partitions
 * @param shared partitions whose indexes are equal modulo this number read the same bucket
 */
case class InBucket(child: Expression, shared: Int, alarm: BucketAlarm) extends UnaryExpression with Nondeterministic {

  @transient private var partition: Int = -1

  override def dataType: DataType = BooleanType
  override def nullable: Boolean = false
  override protected def initializeInternal(partitionIndex: Int): Unit = partition = partitionIndex

  override protected def evalInternal(input: InternalRow): Any = {
    val bucket = child.eval(input).asInstanceOf[Int]
    if (bucket != partition && bucket % shared != partition % shared) alarm.misplaced(bucket, partition)
    bucket == partition
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val index = ctx.addMutableState(CodeGenerator.JAVA_INT, "bucketIndex")
    ctx.addPartitionInitializationStatement(s"$index = partitionIndex;")
    val bucket = child.genCode(ctx)
    val alarmTerm = ctx.addReferenceObj("alarm", alarm)
    ev.copy(
      code = code"""
        ${bucket.code}
        boolean ${ev.value} = ${bucket.value} == $index;
        if (!${ev.value} && ${bucket.value} % $shared != $index % $shared) {
          $alarmTerm.misplaced(${bucket.value}, $index);
        }""",
      isNull = FalseLiteral)
  }

  override def toString: String = s"in bucket $child"
  override protected def withNewChildInternal(newChild: Expression): InBucket = copy(child = newChild)
}

/** Fails for a row that is smaller than the row before it, NULL first, as Spark and Hive sort ascending. */
case class InOrder(children: Seq[Expression], alarm: BucketAlarm) extends Expression with Nondeterministic {

  @transient private var last: InternalRow = _
  @transient private lazy val ordering = InterpretedOrdering.forSchema(children.map(_.dataType))

  override def dataType: DataType = BooleanType
  override def nullable: Boolean = false
  override def stateful: Boolean = true
  override protected def initializeInternal(partitionIndex: Int): Unit = last = null

  override protected def evalInternal(input: InternalRow): Any = {
    val row = InternalRow.fromSeq(children.map(child => InternalRow.copyValue(child.eval(input))))
    if (last != null && ordering.gt(last, row)) alarm.unsorted()
    last = row
    true
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val seen = ctx.addMutableState(CodeGenerator.JAVA_BOOLEAN, "rowSeen", v => s"$v = false;")
    val order = ctx.freshName("order")
    val columns = children.map { child =>
      val now = child.genCode(ctx)
      val javaType = CodeGenerator.javaType(child.dataType)
      val wasNull = ctx.addMutableState(CodeGenerator.JAVA_BOOLEAN, "lastIsNull")
      val was = ctx.addMutableState(javaType, "last")
      val kept = if (child.dataType.isInstanceOf[StringType]) s"${now.value}.clone()" else now.value.toString
      val compared = s"""
        if ($order == 0) {
          if ($wasNull || ${now.isNull}) { $order = $wasNull == ${now.isNull} ? 0 : ($wasNull ? -1 : 1); }
          else { $order = ${ctx.genComp(child.dataType, was, now.value)}; }
        }"""
      val keep = s"$wasNull = ${now.isNull}; if (!$wasNull) { $was = $kept; }"
      (now.code, compared, keep)
    }
    val alarmTerm = ctx.addReferenceObj("alarm", alarm)
    val evaluate = columns.map(_._1).reduceLeft((a, b) => code"$a\n$b")
    ev.copy(
      code = code"""
        $evaluate
        int $order = $seen ? 0 : -1;
        ${columns.map(_._2).mkString("\n")}
        if ($order > 0) $alarmTerm.unsorted();
        if ($order != 0) {
          ${columns.map(_._3).mkString("\n")}
          $seen = true;
        }""",
      isNull = FalseLiteral,
      value = JavaCode.literal("true", BooleanType))
  }

  override def toString: String = s"in order ${children.mkString("(", ", ", ")")}"
  override protected def withNewChildrenInternal(newChildren: IndexedSeq[Expression]): InOrder =
    copy(children = newChildren)
}
