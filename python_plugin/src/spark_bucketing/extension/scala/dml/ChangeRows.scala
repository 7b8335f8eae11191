package org.apache.spark.sql.bucketing
package dml

import java.util.Locale

import scala.util.Try

import org.apache.spark.sql.{AnalysisException, Row, SparkSession}
import org.apache.spark.sql.bucketing.compat.{Assignments, Compat, SparkVersion}
import org.apache.spark.sql.bucketing.ddl.MergeChecks
import org.apache.spark.sql.bucketing.metadata.{FilesDigest, PartitionSpecs}
import org.apache.spark.sql.bucketing.read.CurrentReads
import org.apache.spark.sql.catalyst.analysis.EliminateSubqueryAliases
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.InlineCTE
import org.apache.spark.sql.catalyst.plans.{LeftOuter, QueryPlan}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.errors.QueryCompilationErrors
import org.apache.spark.sql.execution.{SparkPlan, SparkStrategy, SQLExecution}
import org.apache.spark.sql.execution.command.{ExecutedCommandExec, LeafRunnableCommand}
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.types._

/**
 * A MERGE INTO, UPDATE or DELETE statement on an organized or bucketed table. An UPDATE or DELETE is a merge without a source, whose
 * condition is the WHERE clause. All assignments have a value for each column of the target.
 *
 * @param source the rows of a merge; an empty relation of one row for UPDATE and DELETE
 * @param checks the checks of [[MergeChecks]]
 * @param output the numbers of changed rows
 */
case class ChangeRows(
    target: LogicalPlan, source: LogicalPlan, condition: Expression, matched: Seq[MergeAction], notMatched: Seq[MergeAction],
    notMatchedBySource: Seq[MergeAction], checks: Set[String], override val output: Seq[Attribute]) extends BinaryCommand with SupportsSubquery with PredicateHelper {
  override def left: LogicalPlan = target
  override def right: LogicalPlan = source
  override protected def withNewChildrenInternal(newTarget: LogicalPlan, newSource: LogicalPlan): LogicalPlan =
    copy(target = newTarget, source = newSource)

  override def producedAttributes: AttributeSet = outputSet

  override def nodeName: String = if (isMerge) "MERGE INTO" else if (matched.exists(_.isInstanceOf[DeleteAction])) "DELETE" else "UPDATE"

  /** The plan of the target. Only the queries of the statement read it, so the optimizer of the statement does not see it. */
  def read: ExactRead = target.collectFirst { case read: ExactRead => read }.get
  def relation: LogicalRelation = read.plan.collectFirst { case relation: LogicalRelation => relation }.get
  def table: CatalogTable = relation.catalogTable.get
  def files: HadoopFsRelation = relation.relation.asInstanceOf[HadoopFsRelation]
  def actions: Seq[MergeAction] = matched ++ notMatched ++ notMatchedBySource
  def isMerge: Boolean = !source.isInstanceOf[OneRowRelation]

  /** The conditions whose conjunction a matched row meets. */
  def conditions: Seq[Expression] = splitConjunctivePredicates(condition)

  /** The conditions on the target alone that a matched row meets. */
  def onTarget: Seq[Expression] = conditions.filter { condition =>
    condition.deterministic && condition.references.nonEmpty && condition.references.subsetOf(target.outputSet) && !SubqueryExpression.hasSubquery(condition)
  }

  /** Those of these conditions that files can be pruned by. Spark pads the values of CHAR columns after it reads them. */
  def pruning: Seq[Expression] = onTarget.filter(condition => condition.references.forall(isStored) && !callsPython(condition))

  private def callsPython(of: Expression): Boolean = of.exists(_.isInstanceOf[PythonUDF])

  def isStored(column: Attribute): Boolean = relation.outputSet.contains(column)

  def partitionColumns: AttributeSet = AttributeSet(target.output.filter(column => files.partitionSchema.exists(_.name.equalsIgnoreCase(column.name))))

  /** The conditions that select the partitions whose rows the statement reads or writes. Without conditions, it may use all partitions. */
  def partitionFilters: Seq[Expression] = {
    val positions = target.output.indices.filter(at => partitionColumns.contains(target.output(at)))
    val moves = matched.exists { case update: UpdateAction => positions.exists(!keeps(update, _)); case _ => false }
    if (moves || notMatched.nonEmpty || notMatchedBySource.nonEmpty) Nil else pruning.filter(_.references.subsetOf(partitionColumns)).map(onPartitions)
  }

  /** Returns a condition on partition columns as a filter of partitions. The metastore compares names with their case. */
  def onPartitions(condition: Expression): Expression = condition.transform {
    case column: AttributeReference => files.partitionSchema.find(_.name.equalsIgnoreCase(column.name)).fold(column)(of => column.withName(of.name))
  }

  /** Pairs of a target column and a source expression that are equal in every matched row. */
  def keys: Seq[(Attribute, Expression)] = if (!isMerge) Nil else conditions.collect {
    case EqualTo(column: Attribute, value) if isKey(column, value) => column -> value
    case EqualTo(value, column: Attribute) if isKey(column, value) => column -> value
  }

  private def isKey(column: Attribute, value: Expression) = target.outputSet.contains(column) && value.deterministic &&
    value.references.subsetOf(source.outputSet) && !SubqueryExpression.hasSubquery(value)

  /** Those keys that files can be pruned by. Under a collation, equal strings may differ from the values in files and directories. */
  def pruningKeys: Seq[(Attribute, Expression)] = keys.filter { case (column, value) =>
    isStored(column) && !callsPython(value) && (!column.dataType.isInstanceOf[StringType] || column.dataType == StringType)
  }

  /** The keys on partition columns that every written row also takes from the source. */
  def partitionKeys: Seq[(Attribute, Expression)] = if (notMatchedBySource.nonEmpty) Nil else pruningKeys.filter { case (column, value) =>
    def isAssigned(assignments: Seq[Assignment], values: Expression*) =
      assignments.exists(of => of.key.semanticEquals(column) && values.exists(of.value.semanticEquals))
    partitionColumns.contains(column) && actions.forall {
      case update: UpdateAction => isAssigned(update.assignments, column, value)
      case insert: InsertAction => isAssigned(insert.assignments, value)
      case _ => true
    }
  }

  /**
   * Returns whether an update leaves the column at a position as it is. It does if it assigns the value that a matched row has anyway, except for types with
   * values that are equal but not identical.
   */
  def keeps(update: UpdateAction, at: Int): Boolean = {
    val (column, value) = (target.output(at), update.assignments(at).value)
    def isExact = column.dataType match {
      case _: IntegralType | _: DecimalType | DateType | TimestampType | TimestampNTZType | BooleanType => true
      case other => other == StringType
    }
    // Only a matched row can get a value that refers to the source.
    value.semanticEquals(column) || value.references.nonEmpty && isExact &&
      keys.exists { case (key, of) => key.semanticEquals(column) && of.semanticEquals(value) }
  }

  /** Whether the statement deletes all rows of the selected partitions. */
  def deletesPartitions: Boolean = !isMerge && matched == Seq(DeleteAction(None)) && conditions.forall(pruning.contains) && condition.references.subsetOf(partitionColumns)

  /** Whether the effect of the statement depends on more than its text, its source and its table. */
  def hasSubqueries: Boolean = (condition +: actions).exists(SubqueryExpression.hasSubquery)

  /** Returns an id of the condition and the actions. The id does not contain the queries of subqueries. */
  def id: String = {
    val parts = condition.sql +: actions.flatMap(action => action.getClass.getSimpleName +: action.children.map(_.sql))
    FilesDigest.of(Nil).plus(parts.mkString("\n"), 1).hex
  }

  /** Throws Spark's own errors for expressions that a statement may not contain. Spark's errors for an operator of the extension would not name them. */
  def check(): Unit = {
    val conditions = condition +: actions.flatMap(_.condition)
    val all = conditions ++ actions.flatMap(_.children).collect { case assignment: Assignment => assignment.value }
    def sql(found: Expression*) = found.map(QueryCompilationErrors.toSQLExpr).mkString(", ")
    conditions.find(_.dataType != BooleanType).foreach { of =>
      throw new AnalysisException("DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN",
        Map("sqlExpr" -> sql(of), "filter" -> sql(of), "type" -> QueryCompilationErrors.toSQLType(of.dataType)))
    }
    val random = all.filterNot(_.deterministic)
    if (random.nonEmpty) throw new AnalysisException("INVALID_NON_DETERMINISTIC_EXPRESSIONS", Map("sqlExprs" -> sql(random: _*)))
    val ofSeveralRows = all.flatMap(_.collect { case found @ (_: aggregate.AggregateExpression | _: WindowExpression | _: Generator) => found })
    if (ofSeveralRows.nonEmpty) throw new AnalysisException("UNSUPPORTED_EXPR_FOR_OPERATOR", Map("operator" -> nodeName, "invalidExprSqls" -> sql(ofSeveralRows: _*)))
  }

  /** Whether only one source row may match a row of the target. The actions for other statements do not depend on the source row. */
  def needsOneMatch: Boolean = matched match {
    case Seq() | Seq(DeleteAction(None)) => false
    case _ => true
  }
}

/** Replaces statements on organized and bucketed tables, which Spark's analyzer has resolved completely and its planner rejects. */
object ResolveRowChanges extends Rule[LogicalPlan] {

  private def Counts: Seq[Attribute] = PartitionSpecs.attributes(
    ("num_affected_rows", LongType, false), ("num_updated_rows", LongType, false), ("num_deleted_rows", LongType, false),
    ("num_inserted_rows", LongType, false))

  def refusal(table: String, found: String, expected: String, instead: String): AnalysisException =
    Compat.refusal(s"Cannot change rows of $table.", found, expected, instead)

  override def apply(plan: LogicalPlan): LogicalPlan = AnalysisHelper.allowInvokingTransformsInAnalyzer(resolved(plan))

  private def resolved(plan: LogicalPlan): LogicalPlan = plan match {
    case merge: MergeIntoTable if isSupported(merge.targetTable) => ifResolved(merge) { merge =>
      val columns = merge.targetTable.output
      ChangeRows(target(merge.targetTable), merge.sourceTable, merge.mergeCondition,
        merge.matchedActions.map(aligned(columns)), merge.notMatchedActions.map(aligned(columns)),
        merge.notMatchedBySourceActions.map(aligned(columns)), MergeChecks.of(merge), Counts)
    }
    case update: UpdateTable if isSupported(update.table) => ifResolved(update) { update =>
      ofTable(update.table, update.condition, aligned(update.table.output)(UpdateAction(None, update.assignments)))
    }
    case delete: DeleteFromTable if isSupported(delete.table) =>
      ifResolved(delete)(delete => ofTable(delete.table, Some(delete.condition), DeleteAction(None)))
    case merge: MergeIntoTable => notOfView(merge, merge.targetTable)
    case update: UpdateTable => notOfView(update, update.table)
    case delete: DeleteFromTable => notOfView(delete, delete.table)
    // Before statements, Spark keeps only recursive common table expressions, and only for its own statements.
    case WithCTE(statement, definitions) => resolved(statement) match {
      case changed: ChangeRows => InlineCTE(alwaysInline = true)(WithCTE(changed, definitions))
      case _ => plan
    }
    case other => other
  }

  /** Changes a statement if it is resolved without the casts of the analyzer. Spark casts structs by position, which may be impossible. */
  private def ifResolved[A <: LogicalPlan](statement: A)(changed: A => ChangeRows): LogicalPlan = {
    val assigned = statement.transformExpressions { case assignment: Assignment => withoutCast(assignment) }.asInstanceOf[A]
    if (!assigned.resolved) statement else {
      val rows = changed(assigned)
      rows.check()
      DeferredFunction.deferred(rows)
    }
  }

  /** Rejects views of these tables. Spark's own error says nothing about the view. */
  private def notOfView(statement: LogicalPlan, target: LogicalPlan): LogicalPlan = {
    val view = target.collectFirst { case view: View if BucketingConf.enabled => view }
    view.flatMap(_.collectFirst { case relation: LogicalRelation if isSupported(relation) => relation.catalogTable.get }).foreach { table =>
      throw refusal(named(target), s"a view of ${table.identifier.quotedString}", "an organized or bucketed table",
        "name the table, and add the conditions of the view")
    }
    statement
  }

  def named(target: LogicalPlan): String =
    target.collectFirst { case SubqueryAlias(name, of) if !of.isInstanceOf[SubqueryAlias] =>
      (name.qualifier :+ name.name).map(part => s"`$part`").mkString(".") }.getOrElse("a query")

  private def ofTable(table: LogicalPlan, condition: Option[Expression], action: MergeAction): ChangeRows = ChangeRows(
    target(table), OneRowRelation(), condition.getOrElse(Literal.TrueLiteral), Seq(action), Nil, Nil, Set.empty, Counts.take(1))

  /**
   * Returns the target with its own read options, so that Spark reads its files even if the table is cached. Without the bucket spec, Spark's own reader
   * accepts files without a bucket.
   */
  private def target(table: LogicalPlan): ExactRead = {
    val plan = EliminateSubqueryAliases(table).transform { case relation: LogicalRelation =>
      val files = relation.relation.asInstanceOf[HadoopFsRelation]
      // A file that Spark skips without an error would lose its rows.
      val options = files.options ++ Seq("ignoreCorruptFiles" -> "false", "ignoreMissingFiles" -> "false")
      relation.copy(relation = files.copy(bucketSpec = None, options = options)(files.sparkSession))
    }
    ExactRead(plan.collectFirst { case relation: LogicalRelation => relation }.flatMap(_.catalogTable).get, plan)
  }

  def isSupported(target: LogicalPlan): Boolean = BucketingConf.enabled && (EliminateSubqueryAliases(target) match {
    case relation: LogicalRelation => isSupported(relation)
    case Project(_, relation: LogicalRelation) => isSupported(relation)
    case _ => false
  })

  private def isSupported(relation: LogicalRelation): Boolean =
    relation.relation.isInstanceOf[HadoopFsRelation] && relation.catalogTable.exists(CurrentReads.isChangeable)

  private def aligned(columns: Seq[Attribute])(action: MergeAction): MergeAction = action match {
    case update: UpdateAction => update.copy(assignments = Assignments.ofUpdate(columns, update.assignments))
    case insert: InsertAction => insert.copy(assignments = Assignments.ofInsert(columns, insert.assignments))
    case other => other
  }

  /** Removes the cast and the length check that the analyzer adds for these tables. Unlike store assignment, this cast does not check the types. */
  private def withoutCast(assignment: Assignment): Assignment = assignment.value.collectFirst {
    case cast: Cast if cast.getTagValue(Cast.BY_TABLE_INSERTION).isDefined => assignment.copy(value = cast.child)
  }.getOrElse(assignment)
}

/** Rejects MERGE WITH SCHEMA EVOLUTION before Spark resolves its columns, so that columns to add are not reported as missing. */
case class RejectSchemaEvolution(session: SparkSession) extends Rule[LogicalPlan] {

  override def apply(plan: LogicalPlan): LogicalPlan = {
    plan.foreach {
      case merge: MergeIntoTable if BucketingConf.enabled && SparkVersion.evolvesSchema(merge) =>
        // Spark reports a target that it cannot resolve.
        Try(Compat.analyzed(session, merge.targetTable)).filter(ResolveRowChanges.isSupported).foreach { target =>
          throw ResolveRowChanges.refusal(ResolveRowChanges.named(target), "WITH SCHEMA EVOLUTION",
            "a statement that keeps the columns of the table", "add the columns with ALTER TABLE ... ADD COLUMNS, and merge without this clause")
        }
      case _ =>
    }
    plan
  }
}

/** Plans the statements. */
case class PlanRowChanges(session: SparkSession) extends SparkStrategy {
  private val Supported = "bucketed Parquet and ORC tables and for tables with file statistics"

  override def apply(plan: LogicalPlan): Seq[SparkPlan] = plan match {
    case statement: ChangeRows =>
      checkColumns(statement)
      ExecutedCommandExec(ChangeRowsCommand(DeferredFunction.restored(statement), statement.output)(session)) :: Nil
    case ExactRead(table, of) => ExactReadExec(table, planLater(of)) :: Nil
    case merge: MergeIntoTable => reject(merge.targetTable, "MERGE INTO")
    case update: UpdateTable => reject(update.table, "UPDATE")
    case delete: DeleteFromTable => reject(delete.table, "DELETE")
    case _ => Nil
  }

  /** Throws Spark's own error for other tables of files, with the requirements of the extension. */
  private def reject(target: LogicalPlan, statement: String): Seq[SparkPlan] = {
    target.collectFirst { case relation: LogicalRelation if relation.relation.isInstanceOf[HadoopFsRelation] => relation.catalogTable }.flatten.foreach { table =>
      throw new AnalysisException("UNSUPPORTED_FEATURE.TABLE_OPERATION", Map("tableName" -> table.identifier.quotedString, "operation" ->
        s"$statement (the session extension supports it for $Supported, with ${BucketingConf.ENABLED.key}=true)"))
    }
    Nil
  }

  /** Throws an error if the columns of the rows to read are not exactly the columns of the table. */
  private def checkColumns(statement: ChangeRows): Unit = {
    val names = statement.table.schema.fieldNames.toSeq
    def refused(found: String, expected: String, instead: String) =
      ResolveRowChanges.refusal(statement.table.identifier.quotedString, found, expected, instead)
    names.groupBy(_.toLowerCase(Locale.ROOT)).values.find(_.size > 1).foreach { alike =>
      throw refused(s"the columns ${alike.mkString(" and ")}, whose names differ only in case", "different names", "rewrite the table with other names")
    }
    // Spark cannot plan such a function in the outer joins of a merge.
    if (DeferredFunction.in(statement.condition).exists(of => Seq(statement.target, statement.source).forall(_.outputSet.intersect(of.references).nonEmpty)))
      throw QueryCompilationErrors.usePythonUDFInJoinConditionUnsupportedError(LeftOuter)
    // The optimizer adds file metadata to the columns of the table.
    if (statement.target.output.size != names.size) throw refused(
      "a column of _metadata", "only columns of the table in conditions and values", "select the columns of _metadata in a subquery, and merge its rows")
  }
}

/** Runs a statement: finds the touched files, writes the changed files, and commits them. */
case class ChangeRowsCommand(statement: ChangeRows, override val output: Seq[Attribute])(session: SparkSession) extends LeafRunnableCommand {

  // EXPLAIN is only about the plan, so an error must not hide the statement's own error.
  private lazy val explained = if (isRunning) None else Try(TouchedFiles.explain(session, statement)).toOption

  /** Returns whether Spark runs the statement. Spark then also prints the plan, but listing all files twice would make small statements slow. */
  private def isRunning: Boolean = Option(session.sparkContext.getLocalProperty(SQLExecution.EXECUTION_ID_KEY))
    .flatMap(id => Option(SQLExecution.getQueryExecution(id.toLong))).exists(_.logical.exists(_.isInstanceOf[ChangeRows]))

  override def innerChildren: Seq[QueryPlan[_]] = explained.map(_._2).toSeq

  override def nodeName: String = "ChangeRows"

  override def argString(maxFields: Int): String = statement.table.identifier.unquotedString + explained.fold("")(", " + _._1)

  override lazy val metrics: Map[String, SQLMetric] = ChangeRowsRun.metrics(session.sparkContext)

  override def run(session: SparkSession): Seq[Row] = {
    val counts = ChangeRowsRun(session, statement, metrics).run()
    Seq(Row.fromSeq(Seq(counts.updated + counts.deleted + counts.inserted, counts.updated, counts.deleted, counts.inserted).take(output.size)))
  }

  override protected def otherCopyArgs: Seq[AnyRef] = Seq(session)
}
