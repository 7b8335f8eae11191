package org.apache.spark.sql.bucketing
package ddl

import org.antlr.v4.runtime.Token
import org.antlr.v4.runtime.misc.Interval

import org.apache.spark.SparkContext
import org.apache.spark.sql.bucketing.compat.{Compat, ForwardingParser, SparkVersion}
import org.apache.spark.sql.bucketing.write.OverwriteHints
import org.apache.spark.sql.catalyst.{FunctionIdentifier, TableIdentifier}
import org.apache.spark.sql.catalyst.analysis.NamedParameter
import org.apache.spark.sql.catalyst.catalog.BucketSpec
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeReference, Expression, Literal}
import org.apache.spark.sql.catalyst.parser._
import org.apache.spark.sql.catalyst.parser.SqlBaseParser._
import org.apache.spark.sql.catalyst.plans.logical.{LeafCommand, LogicalPlan}
import org.apache.spark.sql.execution.{ExplainMode, SparkSqlAstBuilder, SparkSqlParser}
import org.apache.spark.sql.execution.command.ExplainCommand
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{DataType, StringType, StructType}
import org.apache.spark.unsafe.types.UTF8String

/**
 * Extends Spark's parser with Hive's statements that change the buckets of a table. Spark recognizes them, but rejects them:
 * {{{
 *   ALTER TABLE t [PARTITION (ds = 'x')] CLUSTERED BY (a, b) [SORTED BY (a)] INTO 16 BUCKETS
 *   ALTER TABLE t [PARTITION (ds = 'x')] NOT CLUSTERED
 * }}}
 * It also adds a statement that seals existing files:
 * {{{
 *   ALTER TABLE t [PARTITION (ds = 'x')] SEAL BUCKETS [WHERE predicate] [DRY RUN]
 * }}}
 * Another statement completes or undoes a file replacement that a crash interrupted:
 * {{{
 *   ALTER TABLE t RECOVER FILES [FORCE]
 * }}}
 * These statements also work in EXPLAIN. A further statement explains the plan of a query:
 * {{{
 *   EXPLAIN BUCKETS [FORMAT JSON] [ASSUMING '{"tables": ...}'] query
 * }}}
 * A SQL script (BEGIN ... END) cannot contain them, because Spark parses a script as a whole.
 */
case class BucketDdlParser(spark: ParserInterface) extends ForwardingParser {

  override def parsePlan(sql: String): LogicalPlan = orBuckets(sql)(spark.parsePlan)

  override protected def orBuckets(sql: String, named: Map[String, Expression], positional: Seq[Expression])(
      stock: String => LogicalPlan): LogicalPlan = {
    QueryComment.describe(sql)
    def parsed(text: String) = OverwriteHints.aboveQuery(MergeChecks.tagged(stock(text)))
    try parsed(sql) catch {
      case error: ParseException => BucketStatement.parse(sql, named, positional, parsed).getOrElse(throw error)
    }
  }

  override def parseExpression(sql: String): Expression = spark.parseExpression(sql)
  override def parseTableIdentifier(sql: String): TableIdentifier = spark.parseTableIdentifier(sql)
  override def parseFunctionIdentifier(sql: String): FunctionIdentifier = spark.parseFunctionIdentifier(sql)
  override def parseMultipartIdentifier(sql: String): Seq[String] = spark.parseMultipartIdentifier(sql)
  override def parseQuery(sql: String): LogicalPlan = spark.parseQuery(sql)
  override def parseTableSchema(sql: String): StructType = spark.parseTableSchema(sql)
  override def parseDataType(sql: String): DataType = spark.parseDataType(sql)
}

/**
 * The options of SEAL BUCKETS.
 *
 * @param where a predicate on the partition columns, which selects the partitions to seal
 * @param dryRun whether to check the files without writing seals
 */
case class SealOptions(where: Option[Expression], dryRun: Boolean)

/**
 * EXPLAIN BUCKETS, before it is planned.
 *
 * @param query the parsed query
 * @param isJson whether the result is a JSON document instead of text
 * @param assumed hypothetical tables, views and settings as JSON
 * @param firstLine the line of the statement, from 1, after whose keywords the query starts
 */
case class ExplainBuckets(query: LogicalPlan, isJson: Boolean, assumed: Option[String], firstLine: Int) extends LeafCommand {
  override val output: Seq[Attribute] = Seq(AttributeReference("plan", StringType, nullable = false)())
}

/** Parses the bucket statements that Spark's parser rejects. For their clauses, it uses the rules of Spark's grammar. */
private object BucketStatement extends SparkSqlParser {

  /** Parses a statement that changes buckets or files. Returns None for any other statement. */
  def parse(sql: String, named: Map[String, Expression], positional: Seq[Expression], others: String => LogicalPlan): Option[LogicalPlan] =
    parse[Option[LogicalPlan]](sql)(new Build(_, named, positional, others).statement())

  private class Build(
      parser: SqlBaseParser, named: Map[String, Expression], private var positional: Seq[Expression], others: String => LogicalPlan)
      extends SparkSqlAstBuilder {
    private val tokens = parser.getTokenStream

    // Spark substitutes parameters only in statements that its own parser accepts.
    override def visitNamedParameterLiteral(marker: NamedParameterLiteralContext): Expression =
      super.visitNamedParameterLiteral(marker) match {
        case parameter @ NamedParameter(name) => named.getOrElse(name, parameter)
        case other => other
      }

    override def visitPosParameterLiteral(marker: PosParameterLiteralContext): Expression = positional match {
      case value +: rest => positional = rest; value
      case _ => super.visitPosParameterLiteral(marker)
    }

    def statement(): Option[LogicalPlan] =
      if (take(EXPLAIN, BUCKETS)) Some(explainBuckets())
      else if (take(EXPLAIN)) {
        val mode = Seq(LOGICAL, FORMATTED, EXTENDED, CODEGEN, COST).find(take(_)).fold("simple")(VOCABULARY.getSymbolicName)
        alter().map(ExplainCommand(_, ExplainMode.fromString(mode)))
      } else alter()

    private def alter(): Option[LogicalPlan] = if (!take(ALTER, TABLE)) None else {
      val name = parser.identifierReference()
      val partition = if (next(PARTITION)) Some(visitNonOptionalPartitionSpec(parser.partitionSpec())) else None
      def ddl(clause: String)(command: TableIdentifier => LogicalPlan): Option[LogicalPlan] =
        Some(BucketDdl(withIdentClause(name, SparkVersion.unresolvedTable(_, s"ALTER TABLE ... $clause")))(command))
      val found =
        if (next(CLUSTERED)) {
          val spec = bucketSpec()
          ddl("CLUSTERED BY")(AlterBucketsCommand(_, partition, Some(spec)))
        } else if (take(NOT, CLUSTERED)) ddl("NOT CLUSTERED")(AlterBucketsCommand(_, partition, None))
        else if (word("SEAL") && take(BUCKETS)) {
          val options = seal()
          ddl("SEAL BUCKETS")(SealBucketsCommand(_, partition, options))
        } else if (partition.isEmpty && word("RECOVER") && word("FILES")) {
          val isForced = word("FORCE")
          ddl("RECOVER FILES")(RecoverFilesCommand(_, isForced))
        }
        else None
      if (found.isDefined) {
        while (take(SEMICOLON)) ()
        expect(next(Token.EOF), "the end of the statement")
      }
      found
    }

    private def bucketSpec(): BucketSpec = {
      val parsed = parser.bucketSpec()
      try visitBucketSpec(parsed) catch { case error: NumberFormatException =>
        throw Compat.refusal("The number of buckets in ALTER TABLE is out of range.", s"${error.getMessage.filter(_.isDigit)} buckets",
          s"1 to ${SQLConf.get.bucketingMaxBuckets} buckets (spark.sql.sources.bucketing.maxBuckets)", "write a number in this range, as in INTO 16 BUCKETS")
      }
    }

    private def seal(): SealOptions = {
      val where = if (take(WHERE)) Some(expression(parser.booleanExpression())) else None
      val dry = word("DRY")
      if (dry) expect(word("RUN"), "RUN")
      SealOptions(where, dry)
    }

    private def explainBuckets(): LogicalPlan = {
      val isJson = take(FORMAT)
      if (isJson) expect(word("JSON"), "JSON")
      val assumed = if (word("ASSUMING")) Some(expression(parser.primaryExpression())).map {
        case Literal(text: UTF8String, _: StringType) => text.toString
        case other => throw Compat.refusal("The ASSUMING clause of EXPLAIN BUCKETS is invalid.", other.sql, "a JSON document as a string",
          "write the document in quotes, as in ASSUMING '{\"settings\": {}}'")
      } else None
      val lastKeyword = tokens.LT(-1)
      val lastLine = lastKeyword.getLine + lastKeyword.getText.count(_ == '\n')
      val (start, text) = (parser.getCurrentToken.getStartIndex, parser.getCurrentToken.getInputStream)
      // With blanks instead of the clauses before the query, Spark's errors state the position in the statement.
      val blanks = text.getText(Interval.of(0, start - 1)).replaceAll("\\S", " ")
      ExplainBuckets(others(blanks + text.getText(Interval.of(start, text.size - 1))), isJson, assumed, lastLine)
    }

    private def expect(found: Boolean, what: String): Unit =
      if (!found) parser.notifyErrorListeners(s"'${parser.getCurrentToken.getText}': expected $what")

    private def next(token: Int): Boolean = parser.getCurrentToken.getType == token
    private def take(wanted: Int*): Boolean =
      wanted.zipWithIndex.forall { case (token, i) => tokens.LA(i + 1) == token } && { wanted.foreach(_ => tokens.consume()); true }
    private def word(text: String): Boolean = parser.getCurrentToken.getText.equalsIgnoreCase(text) && { tokens.consume(); true }
  }
}

/**
 * Sets the description of Spark's jobs to dbt's query comment, so that the Spark UI and the event logs name the model.
 *
 * A Thrift Server sets the description of a job to its statement, which contains the comment. dbt's session method sets no
 * description.
 */
object QueryComment {
  private val Json = """/\*\s*(\{"app": "dbt".*?\})\s*\*/"""
  // At the start of a statement, or at the end if the project sets `append: true`.
  private val Commented = s"(?s)\\s*$Json.*|.*$Json\\s*;?\\s*".r

  /** Sets the description of this thread's jobs, unless they already have one. A statement inside a view has no comment. */
  def describe(sql: String): Unit = sql match {
    case Commented(first, last) => SparkContext.getActive.foreach { context =>
      val before = context.getLocalProperty(SparkContext.SPARK_JOB_DESCRIPTION)
      if (before == null || before.startsWith("{\"app\": \"dbt\"")) context.setJobDescription(Option(first).getOrElse(last))
    }
    case _ =>
  }
}
