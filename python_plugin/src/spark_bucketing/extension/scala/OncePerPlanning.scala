package org.apache.spark.sql.bucketing

import scala.collection.mutable

/** What is asked of the metastore while a query is planned is asked once, however often its tables occur in it. */
object OncePerPlanning {

  private val known = new ThreadLocal[mutable.Map[Any, Any]]

  def within[T](plan: => T): T = {
    known.set(mutable.Map.empty)
    try plan finally known.remove()
  }

  def apply[T](question: Any)(ask: => T): T = Option(known.get) match {
    case Some(answers) => answers.getOrElseUpdate(question, ask).asInstanceOf[T]
    case None => ask
  }
}
