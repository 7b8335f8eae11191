"""Tests that compare every strategy, on random tables and increments, with an implementation in plain Python."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import date
from typing import Any

import pytest
from test_bucketed_table import assert_one_file_per_bucket, assert_sorted

from conftest import Project, all_long_but

Row = tuple[Any, ...]
Config = dict[str, Any]
SCHEMA = "k bigint, k2 string, v int, w string, p bigint, q string, r string, d date"
COLUMNS = tuple(column.split()[0] for column in SCHEMA.split(", "))
# Possible values of each column. The metastore cannot filter by the strings in the partition column r.
VALUES: dict[str, list[Any]] = {
    "k": [None, 0, 1, 2, 3, 4, 5, -(2**62), 2**62],
    "k2": [None, "", "a", "é", "null", "x/y=z", " "],
    "v": list(range(1000)),
    "w": [None, "", "a", "é"],
    "p": [None, 0, 1, 2**40],
    "q": [None, "", "null", "007", "it's", "a\\b", "x/y=z", "50%", "é=ü", "a b", " "],
    "r": [None, "q'\\", '"', "'\"", "%"],
    "d": [None, date(2024, 1, 1), date(1969, 12, 31)],
}
APPEND, OVERWRITE, MERGE = ({"incremental_strategy": name} for name in ("append", "insert_overwrite", "merge"))


def layout(bucket_hash: str, file_format: str, clustered_by: list[str], buckets: int, *partition_by: str) -> Config:
    config: Config = {"bucket_hash": bucket_hash, "file_format": file_format, "clustered_by": clustered_by}
    return config | {"buckets": buckets, "partition_by": [*partition_by]}


# These cases cover every strategy with and without partitions, and all options of a merge.
CASES: dict[str, Config] = {
    "append": APPEND | layout("spark", "orc", ["k"], 1),
    "append_partitions": APPEND | layout("hive", "parquet", ["k2"], 3, "p"),
    "overwrite": OVERWRITE | layout("hive", "parquet", ["k2", "k"], 8),
    "overwrite_partitions": OVERWRITE | layout("spark", "parquet", ["k"], 3, "q"),
    "merge": MERGE | {"unique_key": ["k"]} | layout("spark", "orc", ["k"], 8),
    "merge_partitions": MERGE | {"unique_key": ["k"]} | layout("hive", "orc", ["k2"], 3, "q", "d"),
    "merge_some": MERGE | {"unique_key": ["k", "k2"], "merge_update_columns": ["w"]} | layout("spark", "parquet", ["k"], 1, "p"),
    "merge_others": MERGE
    | {"unique_key": ["k", "p"], "merge_exclude_columns": ["V", "p"]}
    | layout("hive", "parquet", ["k2", "k"], 3, "r"),
    "merge_where": MERGE
    | {"unique_key": ["k"], "incremental_predicates": ["DBT_INTERNAL_DEST.v >= 300"]}
    | layout("hive", "parquet", ["k"], 3, "p"),
}  # fmt: skip

# Stock Spark replaces partitions and whole tables.
ON_STOCK_SPARK = ("overwrite", "overwrite_partitions")


def random_layout(dice: random.Random) -> Config:
    """Return a random layout for a case."""
    clustered_by, partition_by = dice.choice([["k"], ["k2"], ["k2", "k"]]), dice.choice(["", "p", "q", "r", "pq", "qd"])
    hash_and_format = dice.choice(["hive", "spark"]), dice.choice(["parquet", "orc"])
    return layout(*hash_and_format, clustered_by, dice.choice([1, 3, 8]), *partition_by)


def distinct_keys(rows: list[Row], key: list[str]) -> list[Row]:
    """Keep one row per key, because MERGE refuses two new rows for one old row."""
    positions = [COLUMNS.index(name) for name in key]
    return list({tuple(row[i] for i in positions): row for row in rows}.values())


def stored(row: Row, config: Config) -> Row:
    """Return a row as Spark stores it: in a partition column, an empty string becomes NULL."""
    return tuple(
        None if value == "" and name in config["partition_by"] else value
        for name, value in zip(COLUMNS, row, strict=True)
    )


def after(config: Config, old: list[Row], new: list[Row]) -> list[Row]:
    """Compute the table after an increment from the definition of the strategy."""
    strategy, new = config["incremental_strategy"], [stored(row, config) for row in new]
    partition = [COLUMNS.index(name) for name in config["partition_by"]]
    if strategy == "append":
        return old + new
    if strategy == "insert_overwrite":
        touched = {tuple(row[i] for i in partition) for row in new}
        return [row for row in old if partition and tuple(row[i] for i in partition) not in touched] + new
    key = [COLUMNS.index(name) for name in config["unique_key"]]
    updates = [i for i, name in enumerate(COLUMNS) if name in config.get("merge_update_columns", COLUMNS)]
    updates = [i for i in updates if COLUMNS[i] not in map(str.lower, config.get("merge_exclude_columns", []))]
    matched, result = set(), []
    for row in old:
        merged = row
        for candidate in new:
            same = all(row[i] is not None and row[i] == candidate[i] for i in key)
            if same and ("incremental_predicates" not in config or row[2] >= 300):
                matched.add(candidate)
                merged = tuple(candidate[i] if i in updates else row[i] for i in range(len(COLUMNS)))
        result.append(merged)
    return result + [row for row in new if row not in matched]


@pytest.mark.parametrize("seed", all_long_but(1, range(1, 12)))
@pytest.mark.long
def test_strategies_give_the_same_rows_as_plain_python(project: Project, extension: None, seed: int) -> None:
    compare_strategies(project, seed, CASES, empty_increment=seed > 1)


@pytest.mark.parametrize("seed", all_long_but(1, range(1, 12)))
@pytest.mark.long
def test_overwrites_give_the_same_rows_on_stock_spark(project: Project, seed: int) -> None:
    compare_strategies(project, seed, ON_STOCK_SPARK)


def compare_strategies(project: Project, seed: int, names: Iterable[str], empty_increment: bool = True) -> None:
    dice, root = random.Random(seed), project.folder / "external"
    place = {} if seed % 2 else {"location_root": str(root)}
    cases = {name: CASES[name] | ({} if seed == 1 else random_layout(dice)) for name in names}
    project.spark.sql(f"create schema if not exists {project.schema}_feed")
    for name, config in cases.items():
        sql = f"select {', '.join(COLUMNS)} from {project.schema}_feed.rows where model = '{name}'"
        project.model(name, sql, materialized="bucketed_incremental", **config, **place)
    expected: dict[str, list[Row]] = {name: [] for name in cases}
    # An increment without rows changes nothing unless it replaces the whole table.
    for turn, count in enumerate((30, dice.choice([3, 25]), *([0] if empty_increment else []))):
        feed: list[Row] = []
        for name, config in cases.items():
            rows = [tuple(map(dice.choice, VALUES.values())) for _ in range(count)]
            if turn and "unique_key" in config:
                rows = distinct_keys(rows, config["unique_key"])
            feed += [(name, *row) for row in rows]
            expected[name] = after(config, expected[name], rows) if turn else [stored(row, config) for row in rows]
        made = project.spark.createDataFrame(feed, f"model string, {SCHEMA}")
        made.write.mode("overwrite").saveAsTable(f"{project.schema}_feed.rows")
        project.dbt("run")
        for name, config in cases.items():
            found = [tuple(row) for row in project.rows(f"select {', '.join(COLUMNS)} from {project.table(name)}")]
            assert sorted(map(repr, found)) == sorted(map(repr, expected[name])), (turn, name, config)
            if found:
                assert_one_file_per_bucket(project, name, config["bucket_hash"], config["buckets"])
                assert_sorted(project, name, config["clustered_by"])
    assert project.tables() == {*cases}, "the runs left unexpected tables behind"
    for name in cases if place else ():
        assert project.detail(name, "Type") == "EXTERNAL"
        assert [path.name for path in (root / name).iterdir()] == [project.location(name).name]
