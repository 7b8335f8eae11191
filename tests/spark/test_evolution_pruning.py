"""Filters on bucket columns leave out files by the number of buckets of each partition, as far as its files are known."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from bucketed import Tables
from pyspark.sql import SparkSession
from test_evolution_reads import evolve, forget

pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions")

SPECS = {"a": ("k", 4), "b": ("k", 8), "c": ("k", 16)}
Buckets = dict[str, set[int]]
ALL: Buckets = {"a": set(range(4)), "b": set(range(8)), "c": set(range(16))}
# The buckets in which the rows with k = 7 may be, whose hash is 7: by the partitions' own numbers, and by 4.
OWN: Buckets = {"a": {3}, "b": {7}, "c": {7}}
BY_FOUR: Buckets = {"a": {3}, "b": {3, 7}, "c": {3, 7, 11, 15}}
QUERIES = ["select * from pruned where k = 7", "select k, count(*), sum(v) from pruned where k = 7 group by k"]
CHECK = "select k, count(*) from pruned where ds in ({}) group by k"


@pytest.fixture(scope="module")
def pruned(spark: SparkSession) -> Tables:
    """A table with partitions of 4, 8 and 16 buckets."""
    made = Tables(spark, "evolution_pruning")
    evolve(made, "pruned", SPECS)
    return made


@pytest.fixture
def tables(spark: SparkSession, pruned: Tables) -> Iterator[Tables]:
    forget(spark)
    assert _buckets(pruned.files("pruned")) == ALL
    with pruned.settings({"spark.bucketing.pruning": "checked"}):
        yield pruned


def _buckets(files: Iterable[object]) -> Buckets:
    found: Buckets = {}
    for file in files:
        folder, name = str(file).rsplit("/", 2)[1:]
        found.setdefault(folder.removeprefix("ds="), set()).add(int(name.split("_")[0]))
    return found


def _scan(plan: Any) -> Any:
    """The one scan of a plan that was run."""
    name = plan.getClass().getSimpleName()
    if name == "AdaptiveSparkPlanExec":
        return _scan(plan.executedPlan())
    if name.endswith("QueryStageExec"):
        return _scan(plan.plan())
    return _scan(plan.children().apply(0)) if plan.children().size() else plan


def read(tables: Tables, query: str) -> Buckets:
    """The buckets whose files a query reads, of each partition. Its rows are compared with those of stock Spark."""
    expected = tables.stock_rows(query)
    frame = tables.spark.sql(query)
    assert sorted(repr(tuple(row)) for row in frame.collect()) == expected != []
    scan = _scan(frame._jdf.queryExecution().executedPlan())
    files = [file.urlEncodedPath() for file in scan.selectedPartitions().toPartitionArray()]
    assert scan.metrics().apply("numFiles").value() == len(files)
    return _buckets(files)


@pytest.mark.parametrize("query", QUERIES, ids=["plain", "grouped"])
def test_files_are_left_out_by_each_partitions_own_number(tables: Tables, query: str) -> None:
    with tables.settings({"spark.bucketing.pruning": "probed"}):
        assert "SelectedBucketsCount: 1 out of 4, 1 out of 8, 1 out of 16" in tables.plan(query)
        assert read(tables, query) == OWN
        assert read(tables, query.replace("k = 7", "k = 7 and ds > 'a'")) == {day: OWN[day] for day in "bc"}
    with tables.settings({"spark.bucketing.pruning": "off"}):
        assert read(tables, query) == ALL


@pytest.mark.parametrize("query", QUERIES, ids=["plain", "grouped"])
def test_files_are_left_out_by_the_number_that_they_were_checked_for(tables: Tables, query: str) -> None:
    """A query of partitions of several numbers has seen that rows are in their buckets by the common one, and no more."""
    assert read(tables, query) == ALL
    assert "SelectedBucketsCount" not in tables.plan(query)
    tables.rows(CHECK.format("'a', 'b', 'c'"))
    assert read(tables, query) == BY_FOUR
    assert "SelectedBucketsCount: 1 out of 4," in tables.plan(query) + ","
    tables.rows(CHECK.format("'c'"))
    assert read(tables, query) == BY_FOUR | {"c": OWN["c"]}
    tables.rows(CHECK.format("'b'"))
    assert read(tables, query) == OWN
    assert "SelectedBucketsCount: 1 out of 4, 1 out of 8, 1 out of 16" in tables.plan(query)
