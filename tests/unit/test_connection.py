"""Tests of a Spark server's error messages."""

from spark_bucketing.project.connection import without_stack

SERVERS = """Database Error
  org.apache.hive.service.cli.HiveSQLException: Error running query: [PARSE_SYNTAX_ERROR] org.apache.spark.sql.catalyst.parser.ParseException:
[PARSE_SYNTAX_ERROR] Syntax error at or near 'selec'. SQLSTATE: 42601 (line 1, pos 0)

== SQL ==
selec 1
^^^

\tat org.apache.spark.sql.hive.thriftserver.HiveThriftServerErrors$.runningQueryError(HiveThriftServerErrors.scala:44)
\tat java.base/java.lang.Thread.run(Thread.java:840)
Caused by: org.apache.spark.sql.catalyst.parser.ParseException
"""


def test_server_message_keeps_its_sql_but_not_its_stack_trace() -> None:
    message = without_stack(SERVERS)
    assert message.startswith("[PARSE_SYNTAX_ERROR] Syntax error") and message.endswith("selec 1\n^^^")
    unreached = "Could not connect to any of [('127.0.0.1', 1)]"
    assert without_stack(unreached) == unreached
