"""Tests that Spark Connect has the same plans, rows and seals as a session in the driver process."""

from __future__ import annotations

import io
import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from bucketed_tables import Plan, settled
from cluster import PYSPARK
from pyspark.sql import SparkSession
from spark_servers import connect_server
from spark_subprocess import PROGRAM

import spark_bucketing
from spark_bucketing.extension.build import build_jar
from spark_bucketing.extension.settings import server_settings

CLIENT = ("grpc", "grpc_status", "zstandard", "pandas", "pyarrow")
LACKING = [module for module in CLIENT if not find_spec(module)]
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(bool(LACKING), reason=f"not installed: {', '.join(LACKING)}; pip install 'pyspark[connect]'"),
    pytest.mark.skipif(
        not list((PYSPARK / "jars").glob("spark-connect_*.jar")), reason="this PySpark has no Spark Connect server"
    ),
]

ON, OFF = ({"spark.bucketing.enabled": value} for value in ("true", "false"))
# Plan joins as for large tables.
LARGE = {"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.bucketing.read.partitionBytes": "0"}
TABLE = "(k bigint, v bigint) clustered by (k) sorted by (k) into 4 buckets stored as parquet"
PARTITIONED = (
    "create table connected.p (k bigint) partitioned by (ds int) clustered by (k) into 4 buckets stored as orc"
)
SEALED = "select status, num_buckets, files, max_files_per_bucket from bucket_specs('connected.{}')"

# The session class of PySpark's client has the same methods, but is not a subclass of SparkSession.
Session = Any
QUERIES: dict[str, Callable[[Session], Any]] = {
    "sql join": lambda session: session.sql("""
        select k, count(*) as n, sum(a.v - b.v) as s from connected.a join connected.b using (k) group by k
    """),
    "sql union": lambda session: session.sql("""
        select k, count(*) as n from (select k from connected.a union all select k from connected.b) group by k
    """),
    "dataframe join": lambda session: (
        session.table("connected.a").join(session.table("connected.b").select("k"), "k").groupBy("k").count()
    ),
    "dataframe distinct": lambda session: session.table("connected.b").distinct(),
}


def seal(session: Session, table: str) -> list[tuple[object, ...]]:
    return [tuple(row) for row in session.sql(SEALED.format(table)).collect()]


def write(session: Session) -> None:
    """Write one table with SQL, one from a DataFrame, and one without the extension, which is not sealed."""
    session.sql("create database connected")
    for table in "abc":
        session.sql(f"create table connected.{table} {TABLE}")
    session.sql("insert into connected.a select id, id * 7 from range(1000)")
    session.range(0, 1000, 1, 3).selectExpr("id % 500 as k", "id as v").write.insertInto("connected.b")
    session.sql(PARTITIONED)
    session.sql("insert into connected.p partition (ds = 1) select id from range(100)")
    with settled(session, OFF):
        session.sql("insert into connected.c select /*+ repartition(1) */ id, id from range(1000)")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a server that has the extension, and return its address."""
    with connect_server(tmp_path_factory.mktemp("connect"), server_settings(build_jar()) | LARGE) as address:
        yield address


@pytest.fixture(scope="module")
def remote(address: str) -> Iterator[Session]:
    """Return a client session; only the server has the extension."""
    from pyspark.sql.connect.session import SparkSession as RemoteSession

    session = RemoteSession.builder.remote(address).create()
    write(session)
    yield session
    session.stop()


@pytest.fixture(scope="module")
def classic(spark: SparkSession) -> Iterator[SparkSession]:
    """Return this process's session, which has the extension and the same tables."""
    with settled(spark, ON | LARGE):
        write(spark)
        yield spark


def read(session: Session, name: str) -> tuple[Plan, list[tuple[object, ...]]]:
    """Return the plan of a query, as the user sees it, and the query's rows."""
    found, printed = QUERIES[name](session), io.StringIO()
    with redirect_stdout(printed):
        found.explain()
    return Plan(printed.getvalue()), sorted(map(tuple, found.collect()))


@pytest.mark.parametrize("query", QUERIES)
def test_query_has_the_same_plan_and_rows(remote: Session, classic: SparkSession, query: str) -> None:
    plan, rows = read(remote, query)
    expected_plan, expected_rows = read(classic, query)
    assert rows and rows == expected_rows
    assert plan.shape == expected_plan.shape and plan.shape.exchanges == 0 and plan.shape.bucketed > 0, plan
    with settled(remote, OFF):
        stock_plan, stock_rows = read(remote, query)
    assert stock_plan.shape.exchanges > 0 and stock_plan.shape.bucketed == 0, stock_plan
    assert stock_rows == rows


@pytest.mark.parametrize("table", "ab")
def test_insert_seals_its_buckets(remote: Session, classic: SparkSession, table: str) -> None:
    assert seal(remote, table) == seal(classic, table) == [("sealed", 4, 4, 1)]


def test_seal_statement_seals_files(remote: Session) -> None:
    assert [row[0] for row in seal(remote, "c")] == ["not-sealed"]
    remote.sql("alter table connected.c seal buckets").collect()
    assert [row[0] for row in seal(remote, "c")] == ["sealed"]


def test_explain_buckets_returns_the_same_document(remote: Session, classic: SparkSession) -> None:
    # The sessions have different readers.
    settings = json.dumps({"spark.sql.adaptive.enabled": "false", "spark.sql.parquet.enableVectorizedReader": "false"})
    statement = f"""explain buckets format json assuming '{{"settings": {settings}}}'
        select k, count(*) from connected.a join connected.b using (k) group by k"""

    def operators(session: Session) -> list[tuple[object, ...]]:
        nodes = json.loads(session.sql(statement).collect()[0][0])["nodes"]
        return [(node["operator"], node["children"], node["delivers"]) for node in nodes]

    assert operators(remote) == operators(classic) != []


def test_python_api_works_over_connect(remote: Session, classic: SparkSession) -> None:
    sql = "select k, count(*) as n from connected.a join connected.b using (k) group by k"
    before = set(map(tuple, remote.sql("set").collect()))
    found = [spark_bucketing.check(sql, session).to_dict()["models"] for session in (remote, classic)]
    assert found[0] == found[1] and found[0][0]["operators"]
    table = spark_bucketing.table("connected.a", remote)
    results = table.show(), table.verify(deep=True), table.seal(dry_run=True)
    assert [result.state for result in results] == ["ok"] * 3 and "sealed" in results[0]._repr_html_()
    with pytest.raises(spark_bucketing.TableError, match="does not exist"):
        spark_bucketing.table("connected.nowhere", remote).show()
    assert set(map(tuple, remote.sql("set").collect())) == before


# Arguments of a command, and a text in its output. The files of tables `a` and `b` are sealed.
COMMANDS = (
    (["doctor"], "session extension: version"),
    (["table", "show"], "sealed"),
    (["table", "show", "b"], "sealed"),
    (["table", "verify", "--deep", "a"], "a: ok"),
    (["table", "seal", "a"], "unchanged"),
    (["table", "rewrite", "p"], "1 partition rewritten"),
    (["check", "q.sql"], "Spark Connect"),
    (["advise"], "Planned by Spark (live (Spark Connect)"),
    (["check", "--offline", "offline.sql"], "Planned by: offline"),
)


@pytest.mark.parametrize("named", ["environment", "profile"])
def test_commands_work_over_connect(remote: Session, address: str, tmp_path: Path, named: str) -> None:
    remote.sql(f"alter table connected.p clustered by (k) into {8 if named == 'profile' else 16} buckets").collect()
    settings = {"spark.remote": address} if named == "profile" else {}
    target = {
        "type": "spark",
        "method": "session",
        "host": "NA",
        "schema": "connected",
        "server_side_parameters": settings,
    }
    (tmp_path / "profiles.yml").write_text(yaml.safe_dump({"t": {"target": "t", "outputs": {"t": target}}}))
    (tmp_path / "dbt_project.yml").write_text(json.dumps({"name": "t", "profile": "t"}))
    (tmp_path / "q.sql").write_text("select k, a.v from connected.a join connected.b using (k)")
    (tmp_path / "offline.sql").write_text("select k, count(*) as n from values (1), (2) as t(k) group by k")
    environment = {**os.environ, **({"SPARK_REMOTE": address} if named == "environment" else {})}
    for arguments, expected in COMMANDS:
        command = [*PROGRAM, *arguments, "--project-dir", str(tmp_path), "--profiles-dir", str(tmp_path)]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
        output = done.stdout + done.stderr
        # Without the dbt package in the project, doctor exits with code 2.
        assert expected in output and (done.returncode < 2 or arguments == ["doctor"]), (arguments, output)
