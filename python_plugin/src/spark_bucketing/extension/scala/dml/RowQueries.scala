package org.apache.spark.sql.bucketing
package dml

import org.apache.spark.sql.bucketing.metadata.{Seal, SealedSpec}
import org.apache.spark.sql.bucketing.read.{FixedFiles, SealedFileIndex}
import org.apache.spark.sql.bucketing.write.{FileStatisticsWriter, GroupKey}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.catalog.CatalogTable
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.{ExistenceJoin, Inner, LeftAnti, LeftOuter}
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.datasources.{FileIndex, HadoopFsRelation, LogicalRelation, PartitionDirectory}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{BooleanType, IntegerType, StructType}

/**
 * The row-level plans of a statement: the rows of the target, joined with the source, and the action for each row. The first action whose
 * condition is true applies. Its number is its position from 1, or 0 for none.
 */
class RowQueries(statement: ChangeRows, snapshot: TableSnapshot, source: Option[SourceRows]) {

  private val target = statement.target.output
  private val actions = statement.matched ++ statement.notMatchedBySource
  private val inserts = statement.notMatched

  /** The columns that determine the place of a row. */
  private val layout: Seq[Int] = snapshot.places.columns.map(column => target.indexWhere(_.name.equalsIgnoreCase(column.name)))
  private val paths: Set[Int] = snapshot.partition.map(column => target.indexWhere(_.name.equalsIgnoreCase(column.name))).toSet

  val file: AttributeReference = AttributeReference("__spark_bucketing_file", IntegerType, nullable = false)()
  private val row = Alias(MonotonicallyIncreasingID(), "__spark_bucketing_row")()

  /** Whether each action updates or inserts a row, by number. The others delete it. */
  val isUpdate: IndexedSeq[Boolean] = false +: actions.map(!_.isInstanceOf[DeleteAction]).toIndexedSeq

  /**
   * Returns a plan for the rows of these files that match a source row or have an action, and for the rows to insert. Its columns: the file or -1, the action,
   * the number of matching source rows, and the place of the row after the action. A row that matches several source rows occurs once.
   *
   * @param pairs the output of [[matches]] if it is stored
   * @param unmatched the stored output of [[unmatched]] if the statement inserts rows
   */
  def changes(files: Seq[TableFile], pairs: Option[LogicalPlan], unmatched: Option[LogicalPlan]): LogicalPlan = {
    def changed = source.fold(withoutSource(files))(_ => oncePerRow(pairs.getOrElse(matches(files))))
    unmatched.fold(changed)(rows => if (files.isEmpty) insertions(rows) else Union(Seq(changed, insertions(rows))))
  }

  private def withoutSource(files: Seq[TableFile]): LogicalPlan = {
    val acted = withAction(Filter(statement.condition, scan(files)), Literal.TrueLiteral)
    Project(Seq(file, acted.action, Alias(Literal(1L), "matches")()) ++ places(acted.action), acted.plan)
  }

  /**
   * Returns a plan for the pairs of a row of these files and a matching source row. Its columns: the file, the row, the source row, the action, and the place of
   * the row after the action.
   */
  def matches(files: Seq[TableFile]): LogicalPlan = {
    val of = source.get
    val onlyMatched = statement.notMatchedBySource.isEmpty
    val rows = scan(files)
    val numbered = Project(rows.output :+ row, if (onlyMatched) statement.onTarget.reduceOption(And).fold(rows)(Filter(_, rows)) else rows)
    val joined = Join(numbered, of.plan, if (onlyMatched) Inner else LeftOuter, Some(statement.condition), JoinHint.NONE)
    val acted = withAction(joined, if (onlyMatched) Literal.TrueLiteral else IsNotNull(of.id))
    val kept = if (onlyMatched) acted.plan else Filter(Or(IsNotNull(of.id), GreaterThan(acted.action, Literal(0))), acted.plan)
    Project(Seq(file, row.toAttribute, Alias(of.id, "source")(), acted.action) ++ places(acted.action), kept)
  }

  /** Returns one row for each row of the target, from the output of [[matches]]. */
  private def oncePerRow(pairs: LogicalPlan): LogicalPlan = {
    def first(column: Attribute) = Alias(aggregate.First(column, ignoreNulls = false).toAggregateExpression(), column.name)()
    val Seq(file, row, _, action) = pairs.output.take(4)
    pairs match {
      // Without an aggregate, Spark needs no job.
      case few: LocalRelation if few.data.map(_.getLong(1)).distinct.size == few.data.size =>
        Project(Seq(file, action, Alias(Literal(1L), "matches")()) ++ pairs.output.drop(4), pairs)
      case _ => Aggregate(Seq(file, row), Seq(file, first(action), Alias(aggregate.Count(Literal(1)).toAggregateExpression(), "matches")()) ++
        pairs.output.drop(4).map(first), pairs)
    }
  }

  private def insertions(unmatched: LogicalPlan): LogicalPlan = {
    val action = unmatched.output.last
    Project(Seq(Alias(Literal(-1), "file")(), action, Alias(Literal(0L), "matches")()) ++ layout.map(at => asStored(at, inserted(action, at))), withInsert(unmatched))
  }

  private def withInsert(unmatched: LogicalPlan): LogicalPlan = Filter(GreaterThan(unmatched.output.last, Literal(0)), unmatched)

  /**
   * Returns a plan for the source rows that match no row of the target, with their action as the last column. It must be stored: a filter by the action
   * in the same query would make Spark evaluate the conditions of the actions before the join, for matching rows too, and fail if they have an error.
   *
   * @param pairs the stored output of [[matches]]
   */
  def unmatched(pairs: LogicalPlan): LogicalPlan = {
    val of = source.get
    withInsertAction((of.plan, pairs) match {
      case (all: LocalRelation, few: LocalRelation) =>
        val matched = few.data.iterator.filterNot(_.isNullAt(2)).map(_.getLong(2)).toSet
        val at = all.output.indexWhere(_.exprId == of.id.exprId)
        all.copy(data = all.data.filterNot(row => matched(row.getLong(at))))
      case _ =>
        val id = Alias(pairs.output(2), "matched")()
        Join(of.plan, Project(Seq(id), Filter(IsNotNull(pairs.output(2)), pairs)), LeftAnti, Some(EqualTo(of.id, id.toAttribute)), JoinHint.NONE)
    })
  }

  /** Returns the same plan as `unmatched(pairs)` if there are no pairs. It need not be stored. */
  def unmatched: LogicalPlan = withInsertAction(source.get.plan)

  private def withInsertAction(rows: LogicalPlan): LogicalPlan = {
    val action = Alias(firstAction(inserts.zipWithIndex.map { case (insert, i) => (insert.condition, Literal.TrueLiteral, i + 1) }), "action")()
    Project(rows.output :+ action, rows)
  }

  /**
   * Returns a plan for the new content of these files and for the inserted rows: the columns of the target, the file or -1, whether the row is new, and its
   * place.
   *
   * @param unmatched the stored output of [[unmatched]] if the statement inserts rows
   * @param distributed distributes inserted rows like the rows of the files
   */
  def content(files: Seq[TableFile], unmatched: Option[LogicalPlan], distributed: LogicalPlan => LogicalPlan): LogicalPlan = {
    val rows = ExactRead(statement.table, scan(files))
    val (joined, present) = withSource(rows)
    val acted = withAction(joined, present)
    val deletes = actions.indices.filterNot(i => isUpdate(i + 1)).map(i => Literal(i + 1))
    val kept = if (deletes.isEmpty) acted.plan else Filter(Not(In(acted.action, deletes)), acted.plan)
    val remaining = Project(target.indices.map(at => asStored(at, updated(acted.action, at))) ++
      Seq(file, Alias(GreaterThan(acted.action, Literal(0)), "is_new")()), kept)
    val all = unmatched.fold[LogicalPlan](remaining) { rows =>
      val added = Project(target.indices.map(at => asStored(at, inserted(rows.output.last, at))) ++
        Seq(Alias(Literal(-1), "file")(), Alias(Literal.TrueLiteral, "is_new")()), withInsert(rows))
      if (files.isEmpty) added else Union(Seq(remaining, distributed(added)))
    }
    Project(all.output ++ layout.map(at => Alias(all.output(at), "place")()), all)
  }

  /** Returns a plan for a join key of several source rows, as JSON. */
  def repeatedKey: Option[LogicalPlan] = source.map { of =>
    val values = statement.keys.map { case (column, value) => Alias(value, column.name)() }
    val several = severalOf(values.map(_.toAttribute), Filter(values.map(value => IsNotNull(value.toAttribute)).reduce[Expression](And), Project(values, of.plan)))
    json(values.map(_.toAttribute), several)
  }

  /** Returns a plan for the join key of a source row that matches several rows of the target, as JSON. */
  def keyOfSeveralRows(pairs: LogicalPlan): Option[LogicalPlan] = source.map { of =>
    val id = Alias(pairs.output(2), "matched")()
    val several = severalOf(Seq(id.toAttribute), Filter(IsNotNull(id.toAttribute), Project(Seq(id), pairs)))
    val joined = Join(of.plan, several, Inner, Some(EqualTo(of.id, id.toAttribute)), JoinHint.NONE)
    val values = statement.keys.map { case (column, value) => Alias(value, column.name)() }
    json(values.map(_.toAttribute), Project(values, joined))
  }

  private def severalOf(columns: Seq[Attribute], rows: LogicalPlan): LogicalPlan = {
    val number = Alias(aggregate.Count(Literal(1)).toAggregateExpression(), "number")()
    Project(columns, Filter(GreaterThan(number.toAttribute, Literal(1L)), Aggregate(columns, columns :+ number, rows)))
  }

  private def json(columns: Seq[Attribute], rows: LogicalPlan): LogicalPlan = {
    val row = CreateNamedStruct(columns.flatMap(column => Seq(Literal(column.name), column)))
    Project(Seq(Alias(StructsToJson(Map.empty, row, Some(SQLConf.get.sessionLocalTimeZone)), "key")()), GlobalLimit(Literal(1), LocalLimit(Literal(1), rows)))
  }

  /** Returns a plan for the rows of these files: the file, the action, and the hash of the row. */
  def hashed(files: Seq[TableFile]): LogicalPlan = {
    val rows = ExactRead(statement.table, scan(files))
    val (joined, present) = withSource(rows)
    val acted = withAction(joined, present)
    Project(Seq(file, acted.action, Alias(FileStatisticsWriter.hash(rows.output.init), "hash")()), acted.plan)
  }

  /** Joins rows of the target with the source. Returns at most one row for each of them, and whether it matches. */
  private def withSource(rows: LogicalPlan): (LogicalPlan, Expression) = source match {
    case None => rows -> statement.condition
    case _ if actions.isEmpty => rows -> Literal.FalseLiteral
    case Some(of) if statement.needsOneMatch => Join(rows, of.plan, LeftOuter, Some(statement.condition), JoinHint.NONE) -> IsNotNull(of.id)
    case Some(of) =>
      val exists = AttributeReference("exists", BooleanType, nullable = false)()
      Join(rows, of.plan, ExistenceJoin(exists), Some(statement.condition), JoinHint.NONE) -> exists
  }

  private case class Acted(plan: LogicalPlan, action: Attribute)

  private def withAction(rows: LogicalPlan, present: Expression): Acted = {
    val absent = Not(Coalesce(Seq(present, Literal.FalseLiteral)))
    val action = Alias(firstAction(actions.zipWithIndex.map { case (action, i) =>
      (action.condition, if (i < statement.matched.size) present else absent, i + 1)
    }), "action")()
    Acted(Project(rows.output :+ action, rows), action.toAttribute)
  }

  private def firstAction(of: Seq[(Option[Expression], Expression, Int)]): Expression =
    if (of.isEmpty) Literal(0) else CaseWhen(of.map { case (condition, applies, number) => condition.fold(applies)(And(applies, _)) -> Literal(number) }, Literal(0))

  private def places(action: Attribute): Seq[NamedExpression] = layout.map(at => asStored(at, updated(action, at)))

  private def updated(action: Attribute, at: Int): Expression = {
    val changed = actions.zipWithIndex.collect {
      case (update: UpdateAction, i) if !statement.keeps(update, at) =>
        EqualTo(action, Literal(i + 1)) -> update.assignments(at).value
    }
    if (changed.isEmpty) target(at) else CaseWhen(changed, target(at))
  }

  private def inserted(action: Attribute, at: Int): Expression = {
    val values = inserts.zipWithIndex.collect { case (insert: InsertAction, i) => (i + 1) -> insert.assignments(at).value }
    if (values.size == 1) values.head._2 else CaseWhen(values.map { case (i, value) => EqualTo(action, Literal(i)) -> value })
  }

  private def asStored(at: Int, value: Expression): NamedExpression = Alias(if (paths(at)) GroupKey.asRead(value) else value, target(at).name)()

  private def scan(files: Seq[TableFile]): LogicalPlan = statement.read.plan.transformUp {
    case relation: LogicalRelation =>
      val of = statement.files
      val schema = of.partitionSchema.add(file.name, IntegerType, nullable = false)
      relation.copy(
        relation = HadoopFsRelation(new SelectedFiles(of.location, files, of.partitionSchema, schema, snapshot), schema, of.dataSchema, None, of.fileFormat, of.options)(of.sparkSession),
        output = relation.output :+ file, catalogTable = None)
    case project: Project => project.copy(projectList = project.projectList :+ file)
  }
}

/** Selected files of a table. The id of a file is an additional partition value. */
class SelectedFiles(all: FileIndex, files: Seq[TableFile], known: StructType, partitionSchema: StructType, snapshot: TableSnapshot) extends FixedFiles(
  all.rootPaths, partitionSchema, files.map(file => PartitionDirectory(InternalRow.fromSeq(file.partition.toSeq(known) :+ file.id), Array(file.status))))
    with SealedFileIndex {

  override lazy val seals: Option[(CatalogTable, SealedSpec, Map[String, Seal])] = snapshot.sealsOf(files).map { case (spec, seals) => (snapshot.table, spec, seals) }
  override def toString: String = s"SelectedFiles(${files.size} files)"
}
