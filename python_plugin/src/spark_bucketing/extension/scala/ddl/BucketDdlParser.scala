package org.apache.spark.sql.bucketing
package ddl

import java.util.Locale

import org.apache.spark.sql.AnalysisException
import org.apache.spark.sql.bucketing.compat.Compat
import org.apache.spark.sql.catalyst.{FunctionIdentifier, TableIdentifier}
import org.apache.spark.sql.catalyst.analysis.UnresolvedTable
import org.apache.spark.sql.catalyst.catalog.CatalogTypes.TablePartitionSpec
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.catalyst.parser._
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, SetTableLocation}
import org.apache.spark.sql.catalyst.trees.CurrentOrigin
import org.apache.spark.sql.execution.command.ExplainCommand
import org.apache.spark.sql.internal.VariableSubstitution
import org.apache.spark.sql.types.{DataType, StructType}

/**
 * Spark's parser, and Hive's statements on the buckets of a table, which Spark knows and refuses:
 * {{{
 *   ALTER TABLE t [PARTITION (ds = 'x')] CLUSTERED BY (a, b) [SORTED BY (a)] INTO 16 BUCKETS
 *   ALTER TABLE t [PARTITION (ds = 'x')] NOT CLUSTERED
 * }}}
 * and one of this extension's own:
 * {{{
 *   ALTER TABLE t [PARTITION (ds = 'x')] SEAL BUCKETS [WHERE predicate] [DRY RUN]
 * }}}
 * EXPLAIN of them is understood as well. A script (BEGIN ... END) is parsed by Spark as a whole, which refuses them.
 *
 * Names of tables and values of partitions are left to Spark's parser: they are those of another ALTER TABLE.
 */
case class BucketDdlParser(spark: ParserInterface) extends ParserInterface {

  override def parsePlan(sql: String): LogicalPlan = parsed(sql, spark.parsePlan)

  override def parsePlanWithParameters(sql: String, parameters: ParameterContext): LogicalPlan =
    parsed(sql, spark.parsePlanWithParameters(_, parameters))

  private def parsed(sql: String, parse: String => LogicalPlan): LogicalPlan =
    BucketDdlParser.split(sql).fold(parse(sql)) { case (table, asked) =>
      val stock = s"$table SET LOCATION ''"
      def command(named: LogicalPlan, partition: Option[TablePartitionSpec]): LogicalPlan = asked match {
        case AskedAlter(buckets) => AlterBuckets(renamed(named, "CLUSTERED BY"), partition, buckets)
        case asked: AskedSeal => SealBuckets(renamed(named, "SEAL BUCKETS"), partition, asked)
      }
      (try parse(stock) catch { case error: ParseException => throw BucketDdlParser.refused(reason(error)) }) match {
        case SetTableLocation(named, partition, _) => command(named, partition)
        case explain @ ExplainCommand(SetTableLocation(named, partition, _), _) =>
          explain.copy(logicalPlan = command(named, partition))
        case other => throw BucketDdlParser.refused(s"found ${other.nodeName}")
      }
    }

  /** What Spark's parser says, without the statement, which is not the user's. */
  private def reason(error: ParseException): String =
    error.getMessage.linesIterator.takeWhile(!_.startsWith("== SQL")).mkString(" ").trim

  /** The statement's name in Spark's own errors. */
  private def renamed(named: LogicalPlan, clause: String): LogicalPlan = named match {
    case table: UnresolvedTable =>
      CurrentOrigin.withOrigin(table.origin)(table.copy(commandName = s"ALTER TABLE ... $clause"))
    case other => other
  }

  override def parseExpression(sql: String): Expression = spark.parseExpression(sql)
  override def parseTableIdentifier(sql: String): TableIdentifier = spark.parseTableIdentifier(sql)
  override def parseFunctionIdentifier(sql: String): FunctionIdentifier = spark.parseFunctionIdentifier(sql)
  override def parseMultipartIdentifier(sql: String): Seq[String] = spark.parseMultipartIdentifier(sql)
  override def parseTemporalTableIdentifier(sql: String): TemporalIdentifier = spark.parseTemporalTableIdentifier(sql)
  override def parseQuery(sql: String): LogicalPlan = spark.parseQuery(sql)
  override def parseRoutineParam(sql: String): StructType = spark.parseRoutineParam(sql)
  override def splitStatements(sql: String): SqlStatementSplitResult = spark.splitStatements(sql)
  override def parseTableSchema(sql: String): StructType = spark.parseTableSchema(sql)
  override def parseDataType(sql: String): DataType = spark.parseDataType(sql)
}

/** What a statement asks for behind the table's name. */
sealed trait AskedOfTable

/** None for no buckets. */
case class AskedAlter(buckets: Option[AskedBuckets]) extends AskedOfTable

/** @param where a predicate on the partition columns, as text */
case class AskedSeal(where: Option[String], dryRun: Boolean) extends AskedOfTable

/** The buckets that a statement asks for, not yet looked at. */
case class AskedBuckets(number: BigInt, columns: Seq[String], sortColumns: Seq[String])

object BucketDdlParser {

  private val Usage: String =
    "Write ALTER TABLE t [PARTITION (ds = 'x')] CLUSTERED BY (a, b) [SORTED BY (a)] INTO 16 BUCKETS, or " +
      "ALTER TABLE t [PARTITION (ds = 'x')] NOT CLUSTERED, or " +
      "ALTER TABLE t [PARTITION (ds = 'x')] SEAL BUCKETS [WHERE predicate] [DRY RUN]"

  def refused(why: String): AnalysisException =
    Compat.refusal(s"Cannot parse ALTER TABLE on the buckets of a table: $why. $Usage")

  // Names in back-ticks, strings up to their own quote, words, and anything else. Possessive, which Java's patterns try in a
  // loop: others take a frame of the stack for every character.
  private val Token = raw"""`(?:[^`]++|``)*+`|'(?:[^'\\]++|\\.|'')*+'|"(?:[^"\\]++|\\.|"")*+"|[\p{L}\p{N}_]++|.""".r

  private case class Part(text: String, from: Int) {
    def is(word: String): Boolean = text.equalsIgnoreCase(word)
  }

  /** The text up to the buckets, and these; None for every other statement. Costs next to nothing for most of them. */
  def split(sql: String): Option[(String, AskedOfTable)] =
    if (!isAlter(sql)) None
    else {
      val substituted = new VariableSubstitution().substitute(sql)
      val parts = tokens(substituted)
      start(parts).map { i =>
        val clause = parts.drop(i)
        val asked = if (clause.head.is("seal")) seal(substituted, clause) else AskedAlter(new BucketClause(clause.map(_.text)).parse())
        (substituted.substring(0, parts(i).from), asked)
      }
    }

  private def seal(sql: String, clause: IndexedSeq[Part]): AskedSeal = {
    val parts = clause.reverse.dropWhile(_.is(";")).reverse
    val end = parts.last.from + parts.last.text.length
    val dryRun = parts.length > 3 && parts(parts.length - 2).is("dry") && parts.last.is("run")
    val rest = if (dryRun) parts.drop(2).dropRight(2) else parts.drop(2)
    if (rest.nonEmpty && (!rest.head.is("where") || rest.length == 1))
      throw refused(s"found ${rest.head.text} behind SEAL BUCKETS, expected WHERE and a predicate, DRY RUN, or the end of the statement")
    val where = rest.lift(1).map(first => sql.substring(first.from, if (dryRun) parts(parts.length - 2).from else end).trim)
    AskedSeal(where, dryRun)
  }

  /** ALTER TABLE, or EXPLAIN of it. */
  private def isAlter(sql: String): Boolean = {
    val explained = afterWord(sql, 0, "explain").map { at =>
      Modes.iterator.flatMap(afterWord(sql, at, _)).nextOption().getOrElse(at)
    }
    afterWord(sql, explained.getOrElse(0), "alter").flatMap(afterWord(sql, _, "table")).isDefined
  }

  private val Modes = Seq("logical", "formatted", "extended", "codegen", "cost")

  /** The place behind a word, where that comes next. */
  private def afterWord(sql: String, from: Int, word: String): Option[Int] = {
    val at = afterBlanks(sql, from)
    val end = at + word.length
    val ends = end >= sql.length || !Character.isLetterOrDigit(sql.charAt(end)) && sql.charAt(end) != '_'
    Some(end).filter(_ => ends && sql.regionMatches(true, at, word, 0, word.length))
  }

  private def tokens(sql: String): IndexedSeq[Part] = {
    val found = IndexedSeq.newBuilder[Part]
    val matcher = Token.pattern.matcher(sql)
    var at = afterBlanks(sql, 0)
    while (at < sql.length && matcher.find(at)) {
      found += Part(matcher.group, matcher.start)
      at = afterBlanks(sql, matcher.end)
    }
    found.result()
  }

  /** The place behind white space and comments, of which those in brackets may be nested. */
  @scala.annotation.tailrec
  private def afterBlanks(sql: String, from: Int): Int =
    if (from >= sql.length) sql.length
    else if (Character.isWhitespace(sql.charAt(from))) afterBlanks(sql, from + 1)
    else if (sql.startsWith("--", from)) {
      val end = sql.indexOf('\n', from)
      afterBlanks(sql, if (end < 0) sql.length else end)
    } else if (sql.startsWith("/*", from)) afterBlanks(sql, afterComment(sql, from + 2, depth = 1))
    else from

  @scala.annotation.tailrec
  private def afterComment(sql: String, from: Int, depth: Int): Int =
    if (depth == 0 || from >= sql.length) from
    else if (sql.startsWith("/*", from)) afterComment(sql, from + 2, depth + 1)
    else if (sql.startsWith("*/", from)) afterComment(sql, from + 2, depth - 1)
    else afterComment(sql, from + 1, depth)

  /** Where [NOT] CLUSTERED [BY] or SEAL BUCKETS begins, outside of parentheses and after a name. */
  private def start(parts: IndexedSeq[Part]): Option[Int] = {
    val depths = parts.scanLeft(0)((depth, part) => depth + (if (part.is("(")) 1 else if (part.is(")")) -1 else 0))
    def word(i: Int, text: String): Boolean = parts.lift(i).exists(_.is(text))
    parts.indices.drop(3).find { i =>
      depths(i) == 0 && (word(i, "clustered") && word(i + 1, "by") || word(i, "not") && word(i + 1, "clustered") ||
        word(i, "seal") && word(i + 1, "buckets"))
    }
  }
}

/** Parses what follows the table: tokens, without blanks and comments. */
private class BucketClause(tokens: IndexedSeq[String]) {
  private var at = 0

  def parse(): Option[AskedBuckets] = {
    val asked = if (take("not")) { expect("clustered"); None } else {
      expect("clustered", "by")
      val columns = names(ordered = false)
      val sorts = if (take("sorted")) { expect("by"); names(ordered = true) } else Nil
      expect("into")
      val number = next("a number")
      if (!number.forall(Character.isDigit)) unexpected(number, "a number of buckets")
      expect("buckets")
      Some(AskedBuckets(BigInt(number), columns, sorts))
    }
    while (take(";")) ()
    if (at < tokens.length) unexpected(tokens(at), "the end of the statement")
    asked
  }

  private def names(ordered: Boolean): Seq[String] = {
    expect("(")
    val found = Seq.newBuilder[String]
    do {
      found += name()
      if (ordered && !take("asc") && take("desc"))
        refuse("a column in descending order", "SORTED BY (a, b): Spark sorts buckets in ascending order only")
    } while (take(","))
    expect(")")
    found.result()
  }

  private def name(): String = {
    val found = next("a column")
    if (found.startsWith("`")) found.substring(1, found.length - 1).replace("``", "`")
    else if (found.head.isLetterOrDigit || found.head == '_') found
    else unexpected(found, "a column")
  }

  private def take(word: String): Boolean = {
    val found = tokens.lift(at).exists(_.equalsIgnoreCase(word))
    if (found) at += 1
    found
  }

  private def expect(words: String*): Unit = words.foreach { word =>
    if (!take(word)) unexpected(tokens.lift(at).getOrElse("the end of the statement"), word.toUpperCase(Locale.ROOT))
  }

  private def next(wanted: String): String = {
    val found = tokens.lift(at).getOrElse(unexpected("the end of the statement", wanted))
    at += 1
    found
  }

  private def unexpected(found: String, expected: String): Nothing = refuse(found, expected)

  private def refuse(found: String, expected: String): Nothing =
    throw BucketDdlParser.refused(s"found $found, expected $expected")
}
