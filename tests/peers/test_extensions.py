"""Tests of the extension beside Delta, Iceberg and Comet in one session. Each configuration has its own Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle, permutations
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from peer_tables import PARTITIONED, Rows, Statement, added, evolution, new
from peers import COMET
from peers import EXTENSION_JARS as JARS
from spark_subprocess import SparkSubprocess

from spark_bucketing.extension.settings import EXTENSION_CLASS

EXTENSIONS = {
    "delta": "io.delta.sql.DeltaSparkSessionExtension",
    "iceberg": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    "comet": "org.apache.comet.CometSparkSessionExtensions",
    "ours": EXTENSION_CLASS,
}
MAIN = "spark.sql.catalog.spark_catalog"
ICEBERG = {"spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog", "spark.sql.catalog.ice.type": "hadoop"}
SCANS = {
    "native": {"spark.comet.scan.enabled": "true"},
    "converted": {"spark.comet.scan.enabled": "false", "spark.comet.convert.parquet.enabled": "true"},
    "spark": {"spark.comet.scan.enabled": "false"},
}
NATIVE_WRITES = {"spark.comet.write.parquet.enabled": "true"}


class Session(NamedTuple):
    """The order of the extensions, the settings of the catalog or engine, and a table of another format."""

    name: str
    order: tuple[str, ...]
    settings: dict[str, str]
    other: str  # name and format

    def __str__(self) -> str:
        return f"{'-'.join(self.order)}-{self.name}"


# The catalogs that replace Spark's, or none, and the table of another format that the catalog creates.
CATALOGS = {
    "spark-catalog": ({}, "ice.s.o using iceberg"),
    "delta-catalog": ({MAIN: "org.apache.spark.sql.delta.catalog.DeltaCatalog"}, "s.o using delta"),
    "iceberg-catalog": (
        {MAIN: "org.apache.iceberg.spark.SparkSessionCatalog", f"{MAIN}.type": "hadoop"}, "s.o using iceberg",
    ),
}  # fmt: skip
SESSIONS = [
    Session(name, order, settings, other)
    for order, (name, (settings, other)) in zip(
        permutations(("delta", "iceberg", "ours")), cycle(CATALOGS.items()), strict=False
    )
] + [
    Session(
        f"{scan}-scan-{mode}-shuffle{'-native-write' if more else ''}", order,
        {**COMET, **SCANS[scan], "spark.comet.shuffle.mode": mode, **more}, "s.o using parquet",
    )
    for scan, mode, order, more in (
        ("native", "native", ("comet", "ours"), {}),
        ("native", "jvm", ("ours", "comet"), {}),
        ("native", "auto", ("ours", "comet"), NATIVE_WRITES),
        ("converted", "auto", ("ours", "comet"), {}),
        ("spark", "native", ("comet", "ours"), {}),
    )
]  # fmt: skip
# Bucketed tables of each layout, and an organized table, with the same rows.
HIVE = "(k bigint, v string) partitioned by (p int) clustered by ({0}) sorted by ({0}) into 8 buckets stored as parquet"
WHOLE = "(k bigint, v string, p int) {0} clustered by (k) sorted by (k) into 4 buckets {1}"
VERSION_2 = "tblproperties ('bucketing_version' = '2')"
TABLES = {
    "a": HIVE.format("k"),
    "b": WHOLE.format("", f"stored as orc {VERSION_2}"),
    "c": WHOLE.format("using parquet", ""),
    "d": """(k bigint, v string, p int) using parquet partitioned by (p) tblproperties ('bucketing.range_by' = '["k"]')""",
    "e": f"{HIVE.format('k, v')} {VERSION_2}",
    "f": WHOLE.format("", "stored as parquet"),
    "g": WHOLE.format("", f"stored as parquet {VERSION_2}"),
}
ROWS = "select if(id % 50 = 0, null, id % 200) as k, concat('v', id % 7) as v, cast(id % 3 as int) as p from range(600)"
QUERIES = [
    "select k, count(*), min(v) from {0} group by k",
    "select distinct k from {0}",
    "select k, p, count(*) from {0} group by k, p",
    "select p, count(distinct k) from {0} group by p",
    "select k, row_number() over (partition by k order by v, p) as n from {0}",
    "select k, sum(p) over (partition by k) from {0}",
    "select * from {0} where k = 7",
    "select * from {0} where k in (3, 5, 199) and p = 1",
    "select * from {0} where k is null",
    "select count(*) from {0} where k between 10 and 30",
    "select a.k, count(*) from {0} a join {1} b on a.k = b.k group by a.k",
    "select a.k, a.p, b.v from {0} a left join {1} b on a.k = b.k and a.p = b.p where a.k < 20",
    "select a.k, b.k, a.v from {0} a full join (select * from {1} where k > 150) b on a.k = b.k and a.v = b.v",
    "select k, v from {0} a where exists (select 1 from {1} b where a.k = b.k and b.p = 2)",
    "select k, v from {0} a where not exists (select 1 from {1} b where a.k = b.k and b.k < 100)",
    "select k from {0} where k in (select k from {1} where v = 'v3')",
    "select k, v from {0} union all select k, v from {1}",
    "select k, count(*) from (select k, v from {0} union all select k, v from {1}) group by k",
    "select k, v from {0} intersect select k, v from {1}",
    "select k, v from {0} except select k, v from {1} where k > 9",
    "select k, max(c) from (select k, v, count(*) as c from {0} group by k, v) group by k",
    "select k, v, grouping_id() as g, count(*) from {0} group by rollup (k, v)",
    "select k from {0} order by k desc nulls last, v, p limit 9",
    "select a.k, count(*) from {0} a join {1} b on a.k = b.k join {0} c on b.k = c.k where a.k < 40 group by a.k",
    "select count(*) from {0} a join {1} b on a.k = cast(b.k as int)",
    # The order of collect_set depends on the order in which tasks read the rows.
    "select k % 10 as d, sum(k), sort_array(collect_set(p)) from {0} group by k % 10",
    "with x as (select k, count(*) as c from {0} group by k) select x.k, x.c, y.c from x join x y on x.k = y.k",
    "select /*+ repartition(3, k) */ k, max(v) from {0} group by k having count(*) > 2",
]
# The tables of each query, in turn.
PAIRS = [("a", "c"), ("b", "b"), ("a", "e"), ("d", "a"), ("c", "c"), ("e", "b"), ("a", "a")]
STATEMENTS = [
    *PARTITIONED,
    Statement(
        "merge into t using (select id as k, 'n' as v, 0 as p from range(100)) s on t.k = s.k and t.p = s.p "
        "when matched and s.k < 50 then delete when not matched by source and t.k > 1005 then update set v = 'x'",
        lambda rows: {k: ("x" if k > 1005 else v, p) for k, (v, p) in rows.items() if p or k >= 50},
    ),
    *evolution(16, True),
    Statement(f"insert overwrite t {new(5000, 5060, 'z')}", lambda _: added(5000, 5060, "z")({})),
]
# Some rows of the table in another format are in the bucketed table, too.
OTHER = new(5050, 5080, "o")
MERGE = Statement(
    "merge into t using {0} s on t.k = s.k and t.p = s.p when matched then update set v = s.v when not matched then insert *",
    added(5050, 5080, "o"),
)
# Lists buckets with several files.
SPLIT = (
    "select p, bucket from (select distinct p, input_file_name() as name, "
    "regexp_extract(input_file_name(), '_([0-9]+)[.]c', 1) as bucket from t) group by p, bucket having count(*) > 1"
)


class Step(NamedTuple):
    """A statement, and a condition on the rows that it returns."""

    sql: str
    is_right: Callable[[Any], bool] = lambda _: True


def equal(expected: list[Any]) -> Callable[[Any], bool]:
    return lambda found: sorted(found) == expected


def setup(session: Session) -> Iterator[Step]:
    yield from map(Step, ("create database s", "use s", f"create temporary view v as {ROWS}"))
    for name, columns in TABLES.items():
        yield Step(f"create table {name} {columns}")
        yield Step(f"insert into {name} select * from v")
        yield Step(f"create table plain_{name} using parquet as select * from v")
    for table in ("a", "b", "c", "f", "g"):
        yield Step(
            f"explain select x.k, count(*), max(y.p) from {table} x join {table} y on x.k = y.k group by x.k",
            partial(is_planned, session, table),
        )


def is_planned(session: Session, table: str, rows: list[Any]) -> bool:
    """Return whether a join of a table with itself reads its buckets in the way that the session can have."""
    plan = str(rows[0][0])
    by_stock, by_us, native = (
        len(re.findall(pattern, plan)) for pattern in ("Bucketed: true,", "Scan .*true [(]", "NativeScan .*true [(]")
    )
    if "comet" in session.order and (session.order[0] == "comet" or table == "b"):
        return by_us == 0 and by_stock == 2 * (table == "c") and ("Exchange" in plan) != (table == "c")
    # Comet does not merge the files of several partitions.
    is_sorted = table != "a" or "comet" not in session.order
    is_native = session.name.startswith("native-scan")
    converted = len(re.findall("Comet(?:SortMergeJoin|SortAggregate|HashAggregate)", plan))
    shape = ("Exchange" not in plan, "Sort [" not in plan, by_us, native)
    return shape == (True, is_sorted, 2, 2 * is_native) and (converted == 3 or not is_native)


def changes(session: Session) -> Iterator[Step]:
    """Change the table t, and compare its rows, files and seals after each statement."""
    other = session.other.split()[0]
    yield Step(f"create table t {TABLES['a']}")
    yield Step(f"create table {session.other} as {OTHER}")
    yield Step("show create table t", lambda rows: "CLUSTERED BY" in str(rows))
    rows: Rows = {}
    for statement in [*STATEMENTS, MERGE._replace(sql=MERGE.sql.format(other))]:
        rows = statement.effect(rows)
        expected = sorted([k, v, p] for k, (v, p) in rows.items())
        yield Step(statement.sql)
        yield Step("select k, v, p from t", equal(expected))
        yield Step(
            "select status, problem from bucket_specs('s.t')",
            lambda found: {status for status, _ in found} == {"sealed"},
        )
    # The last INSERT OVERWRITE and the MERGE replaced all files.
    yield Step(SPLIT, lambda found: found == [])
    if not session.other.endswith("parquet"):
        yield Step(
            f"merge into {other} o using t on o.k = t.k when matched then update set v = 'ours' when not matched then insert *"
        )
        yield Step(f"select count(*), count_if(v = 'ours') from {other}", lambda found: found == [[len(rows), 30]])


@pytest.mark.parametrize("session", SESSIONS, ids=str)
def test_rows_files_and_seals_beside_other_extensions(session: Session, tmp_path: Path) -> None:
    spark = SparkSubprocess(tmp_path, "s")
    spark.settings |= {
        **session.settings,
        **ICEBERG,
        "spark.sql.catalog.ice.warehouse": f"file://{tmp_path / 'ice'}",
        "spark.sql.extensions": ",".join(EXTENSIONS[name] for name in session.order),
        # Comet's plugin and shuffle manager must be on the class path when Spark starts.
        "spark.driver.extraClassPath": f"{spark.settings['spark.driver.extraClassPath']}:{JARS}/*",
        "spark.driver.memory": "2g",
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        f"{MAIN}.warehouse": f"file://{tmp_path / 'ice'}",
    }
    names = [pair for pair, _ in zip(cycle(PAIRS), QUERIES, strict=False)]
    queries = [
        query.format(*(of + name for name in pair))
        for query, pair in zip(QUERIES, names, strict=True)
        for of in ("", "plain_")
    ]
    before, after = list(setup(session)), list(changes(session))
    found = spark.run(*(step.sql for step in before), *queries, *(step.sql for step in after))
    rows = found[len(before) : len(before) + len(queries)]
    differing = [
        query for query, one, plain in zip(queries[::2], rows[::2], rows[1::2], strict=True)
        if sorted(map(str, one)) != sorted(map(str, plain)) or not one
    ]  # fmt: skip
    assert differing == []
    results = zip(before + after, found[: len(before)] + found[len(before) + len(queries) :], strict=True)
    assert [(step.sql, str(result)[:500]) for step, result in results if not step.is_right(result)] == []
