package org.apache.spark.sql.bucketing
package explain

import org.json4s.JsonAST._

import org.apache.spark.util.Utils

/** Prints the document of a plan for people: each shuffle, sort and broadcast with its reason, and each scan. */
object ExplainText {

  def apply(document: JObject): String = {
    val nodes = list(document \ "nodes")
    val names = nodes.map(node => node \ "id" -> s"${string(node \ "operator")} (${number(node \ "id").get})").toMap
    def of(kinds: String*) = nodes.filter(node => kinds.contains(string(node \ "kind")))
    val (shuffles, sorts, broadcasts, scans) = (of("exchange"), of("sort"), of("broadcast"), of("scan"))
    val tables = document \ "tables"
    val sections = Seq(
      "Shuffles" -> shuffles.map(shuffle(_, names)), "Sorts" -> sorts.map(sort(_, names)),
      "Broadcasts" -> broadcasts.map(broadcast(_, names)), "Scans" -> scans.map(scan(_, tables)), "Other engines" -> of("unknown").map { node =>
        s"(${number(node \ "id").get}) ${string(node \ "operator")}: its effect on the rows is unknown"
      })
    val adaptive = if (document \ "adaptive" != JBool(true) || shuffles.isEmpty) Nil
      else Seq("Adaptive execution: this is the initial plan. Spark may change it when the query runs.")
    (Seq(Seq(count(shuffles, "shuffle"), count(sorts, "sort"), count(broadcasts, "broadcast")).mkString(", ")) ++
      sections.collect { case (title, entries) if entries.nonEmpty => (s"\n$title" +: entries.map("  " + _)).mkString("\n") } ++
      adaptive.map("\n" + _)).mkString("\n")
  }

  private def shuffle(node: JValue, names: Map[JValue, String]): String = {
    val of = node \ "shuffle"
    val keys = list(of \ "keys").map(expression).mkString(", ")
    val how = string(of \ "kind") match {
      case "hash" => s"by the ${Some(string(of \ "hash")).filter(_.nonEmpty).fold("")(_ + " ")}hash of $keys"
      case "range" => s"by ranges of $keys"
      case "single" => "of all rows"
      case other => other
    }
    val partitions = number(of \ "partitions").get
    val same = number(of \ "same_as").map(other => s"It is the same as ($other), so that Spark may run only one of them.")
    val changes = list(of \ "adaptive").map(string).flatMap(Changes.get)
    entry(node, s"$how into ${count(partitions.toLong, "partition")}${size(node)}", names, of \ "required_by", string(of \ "reason" \ "words"),
      same.toSeq ++ (if (changes.isEmpty) Nil else Seq(s"Adaptive execution may ${changes.mkString(", or ")}.")))
  }

  private val Changes = Map("coalesce-partitions" -> "combine small partitions", "broadcast-join" -> "broadcast an input of the join instead",
    "skew-join" -> "split skewed partitions")

  private def sort(node: JValue, names: Map[JValue, String]): String = {
    val of = node \ "sort"
    val by = list(of \ "order").map(order => expression(order) + (if (order \ "ascending" == JBool(true)) "" else " DESC")).mkString(", ")
    entry(node, s"by $by${size(node)}", names, of \ "required_by", string(of \ "reason"), Nil)
  }

  private def broadcast(node: JValue, names: Map[JValue, String]): String =
    entry(node, s"to all tasks${size(node)}", names, node \ "broadcast" \ "required_by", string(node \ "broadcast" \ "reason"), Nil)

  private def entry(node: JValue, what: String, names: Map[JValue, String], operator: JValue, reason: String, more: Seq[String]): String = {
    val why = names.get(operator).fold(reason)(name => if (reason.startsWith(name.takeWhile(_ != ' '))) name + reason.dropWhile(_ != ' ') else s"For $name. $reason")
    (s"(${number(node \ "id").get}) $what" +: s"$why." +: more).mkString("\n      ")
  }

  private def scan(node: JValue, tables: JValue): String = {
    val of = node \ "scan"
    val table = string(of \ "table")
    val spec = tables \ table \ "spec" match {
      case spec: JObject => s"${number(spec \ "buckets").get} buckets by ${list(spec \ "columns").map(string).mkString(", ")} (${string(spec \ "hash")} hash)" +
        (if (list(spec \ "sort_columns").isEmpty) "" else s", sorted by ${list(spec \ "sort_columns").map(string).mkString(", ")}")
      case _ => "not bucketed"
    }
    val read = if (of \ "bucketed" == JBool(true)) Some(string(of \ "read")).filter(_.nonEmpty).fold(
        s"reads ${number(of \ "buckets").get} buckets${if (of \ "sorted" == JBool(true)) ", sorted" else ""}")("reads " + _)
      else of \ "fallback" match {
        case why: JObject => s"ordinary scan [${string(why \ "code")}]: ${string(why \ "words")}"
        case _ => "ordinary scan"
      }
    val files = number(of \ "files").map(n => s"${count(n.toLong, "file")}${number(of \ "bytes").fold("")(bytes => s" with ${Utils.bytesToString(bytes)}")}")
    val partitions = number(of \ "partitions").filter(_ => list(tables \ table \ "partition_columns").nonEmpty).map(n => count(n.toLong, "partition"))
    (s"(${number(node \ "id").get}) $table: $spec" +: Seq(read, (files.toSeq ++ partitions).mkString(" in ")).filter(_.nonEmpty)).mkString("\n      ")
  }

  /** Returns an expression with the table of its column. */
  private def expression(of: JValue): String = string(of \ "text")

  private def size(node: JValue): String = {
    val bytes = number(node \ "bytes").map(of => s"about ${Utils.bytesToString(of)}")
    val rows = number(node \ "rows").map(of => count(of.toLong, "row"))
    val known = bytes.toSeq ++ rows
    if (known.isEmpty) ", size unknown" else known.mkString(", ", " and ", "")
  }

  private def count(of: Seq[JValue], noun: String): String = count(of.size.toLong, noun)
  private def count(number: Long, noun: String): String = f"$number%,d $noun${if (number == 1) "" else "s"}"
  private def list(json: JValue): List[JValue] = json match { case JArray(all) => all; case _ => Nil }
  private def string(json: JValue): String = json match { case JString(text) => text; case _ => "" }
  private def number(json: JValue): Option[BigInt] = json match { case JInt(number) => Some(number); case JLong(number) => Some(number); case _ => None }
}
