"""Tests of all statements on S3A, against an S3 server with conditional writes, with each committer of Hadoop.

A proxy fails or holds one request of a statement, and another one of the next statement. `CASES=100` takes more of them, and `SEED=7` other statements to kill.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any, cast

import decisions
import pytest
import statement_loop
from bucketed_tables import ERRORS, Shape, Tables
from cluster import HOST, WITH_PARENT, free_ports, running
from local_files import file_system_settings
from peer_tables import OVERWRITTEN, PARTITIONED, Rows, Statement, added, changed, merge, new
from peers import PEERS
from pyspark.errors import PySparkException
from s3_proxy import LOST, Fate, Rule, S3Proxy, s3_proxy
from spark_subprocess import SparkSubprocess
from statement_loop import Killed, driver, output

pytestmark = pytest.mark.usefixtures("extension", "no_broadcast", "dynamic_partitions")

JARS = PEERS / "s3" / "jars"
BUCKET = "lake"
# The server accepts any credentials that it was started with.
ACCESS_KEY, SECRET_KEY = "test", "testtest"
CLOUD = {
    "spark.sql.sources.commitProtocolClass": "org.apache.spark.internal.io.cloud.PathOutputCommitProtocol",
    "spark.sql.parquet.output.committer.class": "org.apache.spark.internal.io.cloud.BindingParquetOutputCommitter",
}
# With spark-hadoop-cloud on its class path, Spark 4.3 uses the magic committer unless the settings name another.
STOCK = {
    "spark.sql.sources.commitProtocolClass": "org.apache.spark.sql.execution.datasources.SQLHadoopMapReduceCommitProtocol",
    "spark.sql.parquet.output.committer.class": "org.apache.parquet.hadoop.ParquetOutputCommitter",
}
COMMITTERS = {"file": STOCK, "magic": CLOUD, "directory": CLOUD, "partitioned": CLOUD}
LAYOUTS = {
    "hive": "(k bigint, v string) partitioned by (p int) clustered by (k) sorted by (k) into 4 buckets stored as parquet",
    "hive2": (
        "(k bigint, v string) partitioned by (p int) clustered by (k) sorted by (k) into 4 buckets stored as orc "
        "tblproperties ('bucketing_version' = '2')"
    ),
    "organized": """(k bigint, v string, p int) using parquet partitioned by (p) tblproperties ('bucketing.range_by' = '["k"]')""",
}


CASES = int(os.environ.get("CASES", "4"))
SEED = int(os.environ.get("SEED", "4"))
# S3A repeats a failed request once.
FEW_ATTEMPTS = {
    "attempts.maximum": "1",
    "retry.limit": "1",
    "retry.interval": "10ms",
    "retry.throttle.limit": "1",
    "retry.throttle.interval": "10ms",
}


@pytest.fixture(scope="session")
def proxy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Proxy]:
    """Start an S3 server that stores its objects below a temporary folder, and a proxy in front of it."""
    home = tmp_path_factory.mktemp("s3")
    (home / "data" / BUCKET).mkdir(parents=True)
    (port,) = free_ports(1)
    server = [str(JARS.parent / "versitygw"), "--port", f"{HOST}:{port}", "--keep-alive", "--quiet", "posix"]
    credentials = {"ROOT_ACCESS_KEY": ACCESS_KEY, "ROOT_SECRET_KEY": SECRET_KEY}
    with (
        running([*WITH_PARENT, *server, str(home / "data")], port, home, "versitygw", credentials),
        s3_proxy(port) as made,
    ):
        yield made


@pytest.fixture(scope="session")
def more_settings(proxy: S3Proxy, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, str]:
    """Return the settings of a session whose warehouse is on the S3 server."""
    home = tmp_path_factory.mktemp("s3a")
    # Hadoop's own defaults, which the other entry replaces, configure S3A.
    test_files, _ = file_system_settings()["spark.driver.extraClassPath"].split(os.pathsep)
    return {
        "spark.driver.extraClassPath": f"{test_files}{os.pathsep}{JARS / '*'}",
        "spark.sql.warehouse.dir": f"s3a://{BUCKET}/warehouse",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": HOST,
        "spark.driver.bindAddress": HOST,
        "spark.hadoop.fs.s3a.endpoint": f"http://{HOST}:{proxy.port}",
        "spark.hadoop.fs.s3a.endpoint.region": "us-east-1",
        "spark.hadoop.fs.s3a.path.style.access": "true",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.access.key": ACCESS_KEY,
        "spark.hadoop.fs.s3a.secret.key": SECRET_KEY,
        "spark.hadoop.fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.SimpleAWSCredentialsProvider",
        "spark.hadoop.fs.s3a.buffer.dir": str(home / "buffer"),
        "spark.hadoop.fs.s3a.committer.staging.tmp.path": f"file://{home / 'staging'}",
        "spark.hadoop.fs.s3a.committer.staging.conflict-mode": "append",
        **{f"spark.hadoop.fs.s3a.{name}": value for name, value in FEW_ATTEMPTS.items()},
    }


@pytest.fixture(params=COMMITTERS)
def committer(request: pytest.FixtureRequest, tables: Tables) -> Iterator[None]:
    with tables.settings({**COMMITTERS[request.param], "fs.s3a.committer.name": request.param}):
        yield


@pytest.mark.usefixtures("committer")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_statements_write_the_right_rows_and_what_readers_need(tables: Tables, layout: str) -> None:
    tables.create(f"t {LAYOUTS[layout]}")
    rows: Rows = {}
    for statement in PARTITIONED:
        tables.sql(statement.sql)
        rows = statement.effect(rows)
        found: list[Any] = tables.sql("select k, v, p from t")
        assert sorted(found) == sorted((k, v, p) for k, (v, p) in rows.items()), statement.sql
        assert unknown_files(tables, layout) == [], statement.sql
    if layout != "organized":
        join = "select a.k, count(*) from t a join t b on a.k = b.k where a.p = 1 and b.p = 1 group by a.k"
        assert tables.shape(join) == Shape(exchanges=0, sorts=0, bucketed=2)


def unknown_files(tables: Tables, layout: str) -> list[Any]:
    """Return the partitions without a valid seal, or the files without statistics."""
    if layout != "organized":
        specs = tables.sql(f"select partition, status from bucket_specs('{tables.database}.t')")
        return [row for row in specs if row[1] != "sealed"]
    known = {str(row[0]) for row in tables.sql(f"select file from file_statistics('{tables.database}.t')")}
    files = {str(row[0]) for row in tables.sql("select distinct input_file_name() from t")}
    return sorted(file for file in files if not any(file.endswith(name) for name in known))


class Decider:
    """A process that decides records, see decisions.py."""

    def __init__(self, settings: Path, location: str, log: Path) -> None:
        command = [sys.executable, decisions.__file__, str(settings), location]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log.open("w"), text=True
        )

    def say(self, line: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(f"{line}\n")
        self.process.stdin.flush()

    def answer(self, key: str) -> str:
        assert self.process.stdout
        for line in self.process.stdout:
            if line.startswith("{") and key in (said := json.loads(line)):
                return str(said[key])
        raise AssertionError(f"process ended with {self.process.wait()}")


def test_commit_and_undo_by_two_processes_exclude_each_other(
    tables: Tables, more_settings: Mapping[str, str], tmp_path: Path
) -> None:
    """One process commits a record while another one undoes it: SECONDS=600 for more races. Both find the decision of the one that was first."""
    location = f"s3a://{BUCKET}/race"
    records, folder, fs = decisions.records_of(tables.spark, location)
    deciders: list[Decider] = []
    for name in ("commit", "undo"):
        (home := tmp_path / name).mkdir()
        (home / "settings.json").write_text(json.dumps(SparkSubprocess(home, "default").settings | dict(more_settings)))
        deciders.append(Decider(home / "settings.json", location, home / "log"))
    found: Counter[str] = Counter()
    try:
        for decider in deciders:
            decider.answer("ready")
        end = time.monotonic() + int(os.environ.get("SECONDS", "60"))
        while time.monotonic() < end:
            record = records.newFolder(folder, fs)
            lists = json.dumps({"added": [], "removed": [], "created": [], "dropped": [], "exclusive": True})
            write(tables, f"{record}/started", lists)
            # Each process is told first in half of the races.
            told = deciders[:: 1 if found.total() % 2 else -1]
            for decider in told:
                decider.say(f"{record.getName()} {'commit' if decider is deciders[0] else 'undo'}")
            for decider in told:
                decider.answer("record")
            for decider in told:
                decider.say("now")
            (answer,) = {decider.answer("decision") for decider in told}
            outcome = tables.spark.sparkContext.textFile(f"{record}/outcome").collect()
            assert [line.split()[0] for line in outcome] == [
                {"Some(true)": "committed", "Some(false)": "undone"}[answer]
            ]
            found[answer] += 1
            records.forget(record, fs)
    finally:
        for decider in deciders:
            decider.process.kill()
            decider.process.wait()
    print(f"\ns3a: {dict(found)}", flush=True)
    assert min(found["Some(true)"], found["Some(false)"]) > 10


def write(tables: Tables, path: str, text: str) -> None:
    jvm: Any = tables.spark.sparkContext._jvm
    file = jvm.org.apache.hadoop.fs.Path(path)
    fs = file.getFileSystem(tables.spark.sparkContext._jsc.hadoopConfiguration())
    jvm.org.apache.spark.sql.bucketing.metadata.ExclusiveFile.publish(file, text, fs)


def numbered(number: int) -> dict[str, Statement]:
    """Return a statement of each kind, whose effect depends on its number."""
    first = 1000 + 10 * number
    overwritten = {k: (f"o{number}", p) for k, (_, p) in OVERWRITTEN.items()}
    return {
        "insert": Statement(f"insert into t {new(first, first + 3, 'i')}", added(first, first + 3, "i")),
        "merge": merge(first, first + 3),
        "update": Statement(f"update t set v = 'u{number}' where k < 5", changed(lambda k: k < 5, f"u{number}")),
        "delete": Statement(
            f"delete from t where k = {number + 5}",
            lambda rows: {k: row for k, row in rows.items() if k != number + 5},
        ),
        "overwrite": Statement(
            f"insert overwrite t partition (p = 1) select 1000 + id, 'o{number}' from range(10)",
            lambda rows: {k: row for k, row in rows.items() if row[1] != 1} | overwritten,
        ),
    }


def denied(number: int) -> Rule:
    """Deny a request, and the same one later."""
    count, chosen = itertools.count(), set[str]()

    def rule(request: str) -> Fate:
        if next(count) == number:
            chosen.add(request)
        return 403 if request in chosen else None

    return rule


def outage(number: int) -> Rule:
    """Fail a request and all later ones."""
    count = itertools.count()
    return lambda _: 503 if next(count) >= number else None


def lost(number: int) -> Rule:
    """Do not answer a request, although the server does what it says, and fail all later ones."""
    count = itertools.count()

    def rule(_: str) -> Fate:
        place = next(count)
        return None if place < number else LOST if place == number else 503

    return rule


@pytest.mark.parametrize("rule_of", [denied, outage, lost])
@pytest.mark.parametrize("kind", numbered(0))
def test_failed_request_leaves_the_table_as_before_or_as_after(
    tables: Tables, proxy: S3Proxy, kind: str, rule_of: Callable[[int], Rule]
) -> None:
    chosen, outcomes = places(tables, proxy, kind), Counter[str]()
    rows = content(tables)
    for number, place in enumerate(chosen):
        statement, before, error = numbered(number)[kind], rows, cast("Exception | None", None)
        with proxy.with_rule(rule_of(place)) as seen:
            try:
                tables.sql(statement.sql)
            except ERRORS as raised:
                error = raised
        tables.sql("refresh table t")
        rows, where = content(tables), f"{seen[place] if place < len(seen) else 'no request'} failed: {error}"
        assert rows in (before, statement.effect(before)), where
        succeeded = rows == statement.effect(before)
        assert succeeded if error is None else not succeeded or "the outcome is unknown" in str(error), where
        has_begun = any(request.endswith("/begun") for request in seen[:place])
        # PySpark shows Spark's own error for a file that cannot be read with the name of its Java class.
        is_clear = isinstance(error, PySparkException) or "[FAILED_READ_FILE" in str(error)
        assert error is None or not has_begun or is_clear, where
        outcomes["succeeded" if error is None else "unknown" if succeeded else "failed"] += 1
    last = numbered(CASES)[kind]
    tables.sql(last.sql)
    assert content(tables) == content(tables, "stock:") == last.effect(rows)
    print(f"\n{kind}, {rule_of.__name__}: {dict(outcomes)}", flush=True)


def content(tables: Tables, prefix: str = "") -> Rows:
    """Return the rows of the table, and check that none occurs twice."""
    found: list[Any] = tables.sql(f"{prefix}select k, v, p from t")
    rows = {k: (v, p) for k, v, p in found}
    assert len(rows) == len(found)
    return rows


def places(tables: Tables, proxy: S3Proxy, kind: str) -> list[int]:
    """Make a table, and return places in the sequence of the requests of a statement."""
    tables.create(f"t {LAYOUTS['hive2']}")
    tables.sql(f"insert into t {new(0, 300, 'a')}")
    with proxy.with_rule() as seen:
        tables.sql(numbered(CASES + 1)[kind].sql)
    return [len(seen) * (2 * number + 1) // (2 * CASES) for number in range(CASES)]


class Held:
    """A rule that holds one request until `resumed` is set, or for five seconds, because other statements of the process may need a lock."""

    def __init__(self, number: int) -> None:
        self._count, self._number = itertools.count(), number
        self.reached, self.resumed = Event(), Event()

    def __call__(self, _: str) -> Fate:
        if next(self._count) == self._number:
            self.reached.set()
            self.resumed.wait(5)
        return None


@pytest.mark.parametrize("kind", ["insert", "merge", "update", "overwrite"])
def test_statement_that_waits_at_a_request_has_its_effect_or_fails(tables: Tables, proxy: S3Proxy, kind: str) -> None:
    """Another statement takes the waiting one for crashed, completes or undoes it, and changes the same rows."""
    chosen, outcomes = places(tables, proxy, kind), Counter[str]()
    rows = content(tables)
    other = tables.new_session({"spark.bucketing.write.recoverAfter": "0s"})
    for number, place in enumerate(chosen):
        statement, beside, held = numbered(number)[kind], changed(lambda k: k % 7 == 3, f"b{number}"), Held(place)
        with proxy.with_rule(held) as seen, ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(tables.sql, statement.sql)
            assert held.reached.wait(60)
            other.sql(f"update t set v = 'b{number}' where k % 7 = 3").collect()
            held.resumed.set()
            error = waiting.exception()
        where, after = f"{seen[place]} waited: {error}", content(tables)
        with_both = [beside(statement.effect(rows)), statement.effect(beside(rows))]
        assert after in (with_both if error is None else [beside(rows)]), where
        assert error is None or "run it again" in str(error), where
        outcomes["succeeded" if error is None else "failed"] += 1
        rows = after
    last = numbered(CASES)[kind]
    tables.sql(last.sql)
    assert content(tables) == content(tables, "stock:") == last.effect(rows)
    print(f"\n{kind} waited: {dict(outcomes)}", flush=True)


@pytest.mark.parametrize("layout", statement_loop.CREATE)
def test_killed_driver_leaves_the_table_as_before_or_as_after(
    proxy: S3Proxy, more_settings: Mapping[str, str], tmp_path: Path, layout: str
) -> None:
    subprocesses, chosen, killed = SparkSubprocess(tmp_path, "default"), random.Random(SEED), Killed(layout, SEED)
    settings, log = tmp_path / "settings.json", tmp_path / "killed.log"
    more = {
        "spark.sql.warehouse.dir": f"s3a://{BUCKET}/{layout}",
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
    }
    settings.write_text(json.dumps(subprocesses.settings | dict(more_settings) | more))
    for _ in range(CASES):
        number, at_first = chosen.randrange(400), list[int]()

        def has_sent(text: str, number: int = number, at_first: list[int] = at_first) -> bool:
            """Return whether the process has sent a number of requests since its first statement began."""
            if '{"begins"' in text:
                at_first.append(len(proxy.seen))
            return bool(at_first) and len(proxy.seen) - at_first[0] >= number

        with proxy.with_rule():
            command = driver(settings, "loop", layout, SEED, killed.number, 0)
            assert subprocesses.kill(command, has_sent, 0), log.read_text()[-3000:]
        killed.read(output(log))
    command = driver(settings, "loop", layout, SEED, killed.number, 2)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    log.write_text(done.stdout)
    killed.read(output(log))
    print(f"\n{layout} killed: {dict(killed.outcomes)} {dict(killed.statements)}", flush=True)


# The most requests for a table of 20 files. Each INSERT writes 20 files, and the INSERT OVERWRITE also replaces 20.
REQUESTS = {
    "insert into t select 5000 + id, 'b', cast(id % 5 as int) from range(100)": 500,
    "merge into t using (select 7L as k, 'm' as v, 2 as p) s on t.k = s.k and t.p = s.p when matched then update set v = s.v": 80,
    "update t set v = 'u' where p = 1 and k < 50": 150,
    "delete from t where p = 3": 70,
    "insert overwrite t select * from u": 600,
}


def test_queries_send_no_more_requests_for_files_than_stock_spark(tables: Tables, proxy: S3Proxy) -> None:
    for name in ("t", "u"):
        tables.create(f"{name} {LAYOUTS['hive2'].replace('stored as orc', 'stored as parquet')}")
        tables.sql(f"insert into {name} select id as k, 'a' as v, cast(id % 5 as int) as p from range(1000)")
    found: dict[str, list[int]] = {}
    for prefix, (first, again) in {"stock:": ("stock, cold", "stock, warm"), "": ("cold", "warm")}.items():
        tables.sql(f"{prefix}refresh table t")
        tables.sql(f"{prefix}refresh table u")
        for name in (first, again):
            with proxy.with_rule() as seen:
                tables.sql(f"{prefix}select t.k, count(*) from t join u on t.k = u.k group by t.k")
            found[name] = [len(seen), sum("_0_part-" in request for request in seen)]
    for sql in REQUESTS:
        with proxy.with_rule() as seen:
            tables.sql(sql)
        found[sql] = [len(seen), sum("part-" in request for request in seen)]
    print("\n", json.dumps(found, indent=1), flush=True)
    assert found["cold"][1] <= found["stock, cold"][1] and found["warm"][1] <= found["stock, warm"][1]
    assert not {sql: found[sql] for sql, most in REQUESTS.items() if found[sql][0] > most}
