"""Filters on bucket columns leave out files by the number of buckets of each partition."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from bucketed import Tables
from pyspark.sql import SparkSession
from test_mixed_specs import evolve

pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions")

SPECS = {"a": ("k", 4), "b": ("k", 8), "c": ("k", 16)}
Buckets = dict[str, set[int]]
ALL: Buckets = {"a": set(range(4)), "b": set(range(8)), "c": set(range(16))}
# The buckets in which the rows with k = 7 may be, whose hash is 7: by the partitions' own numbers.
OWN: Buckets = {"a": {3}, "b": {7}, "c": {7}}
QUERIES = ["select * from pruned where k = 7", "select k, count(*), sum(v) from pruned where k = 7 group by k"]


@pytest.fixture(scope="module")
def pruned(spark: SparkSession) -> Tables:
    """A table with partitions of 4, 8 and 16 buckets."""
    made = Tables(spark, "evolution_pruning")
    evolve(made, "pruned", SPECS)
    return made


@pytest.fixture
def tables(pruned: Tables) -> Tables:
    assert _buckets(pruned.files("pruned")) == ALL
    return pruned


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
    assert "SelectedBucketsCount: 1 out of 4, 1 out of 8, 1 out of 16" in tables.plan(query)
    assert read(tables, query) == OWN
    assert read(tables, query.replace("k = 7", "k = 7 and ds > 'a'")) == {day: OWN[day] for day in "bc"}
