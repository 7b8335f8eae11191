"""Tests of EXPLAIN BUCKETS: its document has the operators of Spark's plan, and the reasons for shuffles and sorts."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from bucketed_tables import ERRORS, Tables
from jsonschema import Draft202012Validator

from conftest import REPOSITORY

pytestmark = pytest.mark.usefixtures("extension", "no_broadcast")
SCHEMA = REPOSITORY / "docs" / "reference" / "explain-buckets.schema.json"
NO_AQE = {"spark.sql.adaptive.enabled": "false"}
BROADCAST = {"spark.sql.autoBroadcastJoinThreshold": "10m"}
OFF = {"spark.bucketing.enabled": "false"}
# A tree line of EXPLAIN FORMATTED, and the operators that only wrap others.
_OPERATOR = re.compile(r"^(?:[ :]  )*(?:[:+]- )?(?:\* )?(?P<name>[A-Z]\w+)(?: .*)? \((?P<number>\d+)\)$")
_WRAPPERS = ("AdaptiveSparkPlan", "Subquery")

Document = dict[str, Any]


@pytest.fixture(scope="module")
def tables(tables: Tables) -> Tables:
    numbers = "select id as k, cast(id as string) as v, cast(id % 9 as int) as n from range({})"
    for name in ("a", "b"):
        tables.make(name, "k bigint, v string, n int", "k", 8, numbers.format(900))
    tables.make("c16", "k bigint, v string, n int", "k", 16, numbers.format(900))
    tables.make("ints", "k int, v string", "k", 8, "select cast(id as int) as k, string(id) as v from range(900)")
    tables.make("loose", "k bigint, v string, n int", "k", 8, numbers.format(900), sealed=False)
    tables.make("grown", "k bigint, v string, n int", "k", 8, numbers.format(900))
    tables.fill("grown", numbers.format(500))
    tables.make("s8", "k bigint, v string", "k", 8, stored="using parquet")
    tables.sql("insert into s8 select /*+ REPARTITION(8, k) */ * from (select id as k, string(id) from range(900))")
    tables.seal("s8")
    tables.make("days", "k bigint, v string", "k", 8, rest="partitioned by (ds string)")
    tables.fill("days", "select id, string(id), '1' from range(900)")
    tables.sql("alter table days clustered by (k) sorted by (k) into 16 buckets")
    tables.fill("days", "select id, string(id), '2' from range(900)")
    tables.sql("create table plain stored as parquet as select id as k, string(id) as x from range(900)")
    tables.sql("analyze table plain compute statistics")
    tables.sql("create or replace view seen as select k as key, v from a where n > 1")
    return tables


def explain(tables: Tables, query: str, assumed: Mapping[str, object] | None = None) -> Document:
    """Return the document of a query."""
    return dict(json.loads(text(tables, query, assumed, "format json")))


def text(tables: Tables, query: str, assumed: Mapping[str, object] | None = None, how: str = "") -> str:
    literal = json.dumps(assumed).replace("\\", "\\\\").replace("'", "\\'")
    assuming = f"assuming '{literal}'" if assumed else ""
    return str(tables.sql(f"explain buckets {how} {assuming} {query}")[0][0])


def of_kind(document: Document, kind: str) -> list[dict[str, Any]]:
    return [node for node in document["nodes"] if node["kind"] == kind]


def reasons(document: Document) -> list[str]:
    return [node["shuffle"]["reason"]["code"] for node in of_kind(document, "exchange")]


def stock_operators(tables: Tables, query: str, settings: Mapping[str, str]) -> Counter[str]:
    """Return the operators in Spark's own EXPLAIN of the query."""
    with tables.settings(settings):
        lines = str(tables.sql(f"explain formatted {query}")[0][0]).splitlines()
    # A subquery is printed for each operator that uses it.
    found = {match["number"]: match["name"] for line in lines if (match := _OPERATOR.match(line))}
    return Counter(name for name in found.values() if name not in _WRAPPERS)


def spec(buckets: int, bucket_hash: str = "hive", sort_columns: tuple[str, ...] = ("k",)) -> dict[str, object]:
    return {"buckets": buckets, "columns": ["k"], "sort_columns": list(sort_columns), "hash": bucket_hash}


# fmt: off
CASES: list[tuple[str, Mapping[str, str], int, list[str]]] = [
    # query, settings, number of sorts, reasons of the shuffles
    ("select * from a join b using (k)", {}, 0, []),
    ("select * from a join b using (k)", OFF, 2, ["ordinary-scan", "ordinary-scan"]),
    ("select * from a join plain using (k)", {}, 1, ["not-bucketed"]),
    ("select * from a join plain using (k)", BROADCAST, 0, []),
    ("select * from a join ints using (k)", {}, 1, ["other-keys"]),
    ("select * from a join loose using (k)", {}, 1, ["ordinary-scan"]),
    ("select * from a join c16 using (k)", {}, 0, []),
    ("select * from a join c16 using (k)", {"spark.bucketing.join.alignment": "off"}, 1, ["not-aligned"]),
    ("select * from a join s8 using (k)", {}, 1, ["not-aligned"]),
    ("select * from s8 x join s8 y using (k)", NO_AQE, 0, []),
    ("select * from a join grown using (k)", {}, 0, []),
    ("select * from a join grown using (k)", {"spark.bucketing.read.mergeFiles": "0"}, 1, []),
    ("select k, count(*) from days group by k", {}, 0, []),
    ("select * from days join a using (k) where ds = '2'", {}, 0, []),
    ("select v, count(*) from a group by v order by v", {}, 1, ["ordinary-scan", "global-order"]),
    ("select v, k, count(*) from a group by v, k", {}, 0, []),
    ("select n, sum(n) over (partition by n order by v) from a", {}, 1, ["ordinary-scan"]),
    ("select k, row_number() over (partition by k order by v) from a", {}, 1, []),
    ("select count(distinct k) from a", {}, 0, ["one-partition"]),
    ("select k, count(*) from (select k from a union all select k from b) group by k", {}, 0, []),
    ("select /*+ repartition(3) */ * from a", {}, 0, ["requested"]),
    ("select key, count(*) from seen group by key", {}, 0, []),
    ("select * from a where k in (select k from b) and n > (select avg(n) from b)", {}, 0, ["one-partition"]),
    ("with c as (select n, count(*) m from a group by n) select * from c x join c y on x.n = y.n", {}, 2, ["ordinary-scan"] * 2),
    ("with c as (select n, count(*) m from a group by n) select * from c x join c y on x.n = y.n", NO_AQE, 2, ["ordinary-scan"]),
    ("insert into b select k, x, 1 from plain", {}, 1, ["write"]),
    ("select k from a order by v limit 3", {}, 0, []),
    ("select 1", {}, 0, []),
]
# fmt: on


@pytest.mark.some(6)
@pytest.mark.parametrize(("query", "settings", "sorts", "shuffles"), CASES)
def test_document_has_the_operators_of_the_plan(
    tables: Tables, query: str, settings: Mapping[str, str], sorts: int, shuffles: list[str]
) -> None:
    document = explain(tables, query, {"settings": settings} if settings else None)
    Draft202012Validator(json.loads(SCHEMA.read_text())).validate(document)
    assert (len(of_kind(document, "sort")), reasons(document)) == (sorts, shuffles), text(tables, query)
    assert Counter(node["operator"] for node in document["nodes"]) == stock_operators(tables, query, settings)
    for position, node in enumerate(document["nodes"]):
        assert node["id"] == position and all(child < position for child in node["children"])
    printed = text(tables, query, {"settings": settings} if settings else None)
    assert printed.startswith(f"{len(shuffles)} shuffle") and f"{sorts} sort" in printed
    for node in of_kind(document, "exchange") + of_kind(document, "sort"):
        assert f"({node['id']}) " in printed


def test_columns_have_their_origins(tables: Tables) -> None:
    document = explain(
        tables,
        """
        select i.key + 1 as one, count(*) from (select cast(k as bigint) as key from ints) i
        join seen on i.key = seen.key group by i.key + 1
        """,
    )
    (join,) = of_kind(document, "join")
    (left,), (right,) = join["join"]["left_keys"], join["join"]["right_keys"]
    scans = {node["id"]: node["scan"]["table"] for node in of_kind(document, "scan")}
    assert (left["cast"], left["plain"], left["text"]) == ("bigint", False, "cast(k as bigint)")
    assert (right.get("cast"), right["plain"]) == (None, True)
    origins = [(scans[source["scan"]], source["column"]) for key in (left, right) for source in key["sources"]]
    assert origins == [(f"{tables.database}.ints", "k"), (f"{tables.database}.a", "k")]
    keys = of_kind(document, "aggregate")[0]["aggregate"]["keys"]
    assert [(key["plain"], [source["column"] for source in key["sources"]]) for key in keys] == [(False, ["k"])]
    assert join["line"] == 3


def test_scans_have_files_seals_and_partitions(tables: Tables) -> None:
    document = explain(tables, "select * from days join loose using (k) where ds = '2'")
    days, loose = (node["scan"] for node in of_kind(document, "scan"))
    assert (days["partitions"], days["files"], days["files_per_bucket"], days["seal"]) == (1, 16, 1, "sealed")
    assert (days["all_partitions"], loose["seal"], loose["fallback"]["code"]) == (False, "not-sealed", "not-sealed")
    described = document["tables"][days["table"]]
    assert described["spec"] == spec(16) and described["partition_columns"] == ["ds"] and not described["assumed"]
    assert described["size_bytes"] > days["bytes"] > 0


# Queries over `x`, and the definition of `x`.
REAL = {
    "same buckets": ("select * from a join x using (k)", spec(8)),
    "more buckets": ("select k, count(*) from a join x using (k) group by k", spec(16)),
    "incompatible number": ("select * from a join x using (k)", spec(6)),
    "unsorted": ("select * from a join x using (k)", spec(8, sort_columns=())),
    "spark layout": ("select * from s8 join x using (k)", spec(8, "spark")),
    "both layouts": ("select * from a join x using (k)", spec(8, "spark")),
    "not bucketed": ("select k, count(*) from x group by k", None),
    "self join": ("select * from x join (select k from x where v > '1') using (k)", spec(8)),
}


@pytest.mark.some(2)
@pytest.mark.parametrize("settings", [{}, NO_AQE, BROADCAST], ids=["aqe", "no-aqe", "broadcast"])
@pytest.mark.parametrize("case", REAL)
def test_hypothetical_table_has_the_plan_of_a_real_one(tables: Tables, case: str, settings: Mapping[str, str]) -> None:
    query, buckets = REAL[case]
    columns = [{"name": name, "type": kind} for name, kind in (("k", "bigint"), ("v", "string"))]
    rows = "select id as k, string(id) as v from range(900)"
    if buckets:
        stored = "using parquet" if buckets["hash"] == "spark" else "stored as parquet"
        order = "k" if buckets["sort_columns"] else ""
        tables.make("x", "k bigint, v string", "k", int(str(buckets["buckets"])), sorted_by=order, stored=stored)
        tables.sql(f"insert into x {rows}")
    else:
        tables.create(f"x stored as parquet as {rows}")
    tables.sql("analyze table x compute statistics noscan")
    real = explain(tables, query, {"settings": settings})
    size = real["tables"][f"{tables.database}.x"]["size_bytes"]
    tables.sql("drop table x")
    table = {"name": f"{tables.database}.X", "columns": columns, "spec": buckets, "size_bytes": size}
    assumed = explain(tables, query, {"settings": settings, "tables": [table]})
    assert list(map(outline, assumed["nodes"])) == list(map(outline, real["nodes"]))
    assert assumed["tables"][f"{tables.database}.x"]["assumed"]
    with pytest.raises(ERRORS):
        explain(tables, query)


def outline(node: Mapping[str, Any]) -> list[object]:
    """Return what is the same for a hypothetical table and a real one."""
    scan = {key: node.get("scan", {}).get(key) for key in ("bucketed", "by_extension", "buckets", "sorted", "fallback")}
    keys = [node.get(kind, {}).get("text") for kind in ("shuffle", "sort")]
    return [node["operator"], node["children"], node["delivers"], node["requires"], scan, keys]


def test_assumptions_apply_to_views_and_to_this_statement_only(tables: Tables) -> None:
    name = tables.database
    columns = [{"name": "k", "type": "bigint"}, {"name": "v", "type": "string"}, {"name": "n", "type": "void"}]
    assumed = {
        "settings": {"spark.sql.shuffle.partitions": "77", "spark.sql.extensions": "none", "no.such.setting": "1"},
        "tables": [
            {"name": f"{name}.a", "columns": columns, "spec": spec(32), "size_bytes": None},
            {"name": "other.t", "columns": columns, "partition_columns": ["v"], "spec": spec(32), "size_bytes": 1000},
        ],
        "views": [{"name": "other.v", "sql": f"select key as k from {name}.seen"}],
    }
    before = explain(tables, "select key from seen join plain on key = plain.k")
    document = explain(tables, "select * from other.t join other.v using (k)", assumed)
    assert [node["scan"]["buckets"] for node in of_kind(document, "scan")] == [32, 32] and reasons(document) == []
    assert document["settings"]["spark.sql.shuffle.partitions"] == "77"
    assert document["tables"]["other.t"]["partition_columns"] == ["v"]
    # An alias of a common table expression hides a table.
    hidden = explain(tables, "with a as (select 1 as k) select * from a", assumed)
    assert hidden["tables"] == {}
    with pytest.raises(ERRORS):
        explain(tables, "select nothing from other.t", assumed)
    assert explain_without_ids(explain(tables, "select key from seen join plain on key = plain.k")) == (
        explain_without_ids(before)
    )
    with pytest.raises(ERRORS):
        tables.sql("select * from other.t")


def explain_without_ids(document: Document) -> str:
    return re.sub(r'"id": \d+', "", json.dumps(document))


def test_existing_table_needs_only_the_changed_fields(tables: Tables) -> None:
    document = explain(tables, "select * from a join plain using (k)", {
        "tables": [{"name": f"{tables.database}.plain", "spec": spec(8)}]
    })  # fmt: skip
    assert reasons(document) == [] and len(of_kind(document, "sort")) == 0
    assert [column["name"] for column in document["tables"][f"{tables.database}.plain"]["columns"]] == ["k", "x"]


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("explain buckets selec 1", "'selec'"),
        ("explain buckets format xml select 1", "expected JSON"),
        ("explain buckets assuming '[]' select 1", "a JSON object"),
        ("explain buckets assuming '{\"table\": []}' select 1", "the field table"),
        ("explain buckets assuming '{\"tables\": [{\"name\": \"no.such\"}]}' select * from no.such", "no columns"),
        ("explain buckets select no_column from a", "no_column"),
        ("explain buckets assuming '{\"settings\": {\"spark.sql.shuffle.partitions\": \"x\"}}' select 1", "spark.sql.shuffle.partitions"),
    ],
)  # fmt: skip
def test_errors_are_raised(tables: Tables, statement: str, message: str) -> None:
    with pytest.raises(ERRORS, match=re.escape(message)):
        tables.sql(statement)


def test_cached_table_shows_its_plan(tables: Tables) -> None:
    tables.sql("cache table plain")
    try:
        document = explain(tables, "select * from a join plain using (k)")
    finally:
        tables.sql("uncache table plain")
    operators = [node["operator"] for node in document["nodes"]]
    assert operators.index("InMemoryTableScan") == operators.index("InMemoryRelation") + 1
