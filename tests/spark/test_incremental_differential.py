"""Random tables and increments: what each strategy leaves in the table, against the same strategy in plain Python."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest
from test_bucketed_table import assert_one_file_per_bucket, assert_sorted

from conftest import Project

Row = tuple[Any, ...]
COLUMNS = ("k", "k2", "v", "w", "p", "q")
KEYS = [None, 0, 1, 2, 3, 4, 5, -(2**62), 2**62]
TEXTS = [None, "", "a", "é", "null", "x/y=z", " "]
PARTITIONS = [None, 0, 1, 2]


@dataclass(frozen=True)
class Case:
    name: str
    config: dict[str, Any]


def random_rows(dice: random.Random, count: int) -> list[Row]:
    def row() -> Row:
        key, text, number, other = dice.choice(KEYS), dice.choice(TEXTS), dice.randrange(1000), dice.choice(TEXTS)
        return key, text, number, other, dice.choice(PARTITIONS), dice.choice(["", *TEXTS[2:]])

    return [row() for _ in range(count)]


def random_case(dice: random.Random, number: int) -> Case:
    strategy = dice.choice(["append", "insert_overwrite", "merge", "merge"])
    config: dict[str, Any] = {
        "materialized": "bucketed_incremental",
        "incremental_strategy": strategy,
        "bucket_hash": dice.choice(["hive", "spark"]),
        "file_format": dice.choice(["parquet", "orc"]),
        "clustered_by": dice.choice([["k"], ["k2"], ["k2", "k"]]),
        "buckets": dice.choice([1, 3, 8]),
        "partition_by": dice.choice([[], ["p"], ["q"], ["p", "q"]]),
    }
    if strategy == "merge":
        config["unique_key"] = dice.choice([["k"], ["k", "k2"], ["k", "p"]])
        config |= dice.choice(
            [
                {},
                {"merge_update_columns": ["w"]},
                {"merge_exclude_columns": ["V", "p"]},
                {"incremental_predicates": ["DBT_INTERNAL_DEST.v >= 300"]},
            ]
        )
    return Case(f"m{number}", config)


def distinct_keys(rows: list[Row], key: list[str]) -> list[Row]:
    """One row for each key, since MERGE refuses two new rows for one old row."""
    positions = [COLUMNS.index(name) for name in key]
    return list({tuple(row[i] for i in positions): row for row in rows}.values())


def after(case: Case, old: list[Row], new: list[Row]) -> list[Row]:
    """The table after an increment, by the strategy's definition."""
    strategy = case.config["incremental_strategy"]
    partition = [COLUMNS.index(name) for name in case.config["partition_by"]]
    if strategy == "append":
        return old + new
    if strategy == "insert_overwrite":
        touched = {tuple(row[i] or None if i == 5 else row[i] for i in partition) for row in new}
        kept = [row for row in old if tuple(row[i] or None if i == 5 else row[i] for i in partition) not in touched]
        return (kept if partition else []) + new
    key = [COLUMNS.index(name) for name in case.config["unique_key"]]
    updates = [i for i, name in enumerate(COLUMNS) if name in case.config.get("merge_update_columns", COLUMNS)]
    updates = [i for i in updates if COLUMNS[i] not in map(str.lower, case.config.get("merge_exclude_columns", []))]
    matched, result = set(), []
    for row in old:
        merged = row
        for candidate in new:
            same = all(row[i] is not None and row[i] == candidate[i] for i in key)
            if same and ("incremental_predicates" not in case.config or row[2] >= 300):
                matched.add(candidate)
                merged = tuple(candidate[i] if i in updates else row[i] for i in range(len(COLUMNS)))
        result.append(merged)
    return result + [row for row in new if row not in matched]


def comparable(rows: list[Row], partition_by: list[str]) -> list[str]:
    """Rows as sorted texts; a partition column has NULL for the empty string."""
    blank = COLUMNS.index("q") if "q" in partition_by else None
    return sorted(repr(tuple(v or None if i == blank else v for i, v in enumerate(row))) for row in rows)


@pytest.mark.parametrize(
    ("seed", "number"), [(1, 2), *(pytest.param(seed, 8, marks=pytest.mark.long) for seed in range(2, 12))]
)
def test_strategies_against_plain_python(project: Project, seed: int, number: int) -> None:
    dice = random.Random(seed)
    cases = [random_case(dice, place) for place in range(number)]
    project.spark.sql(f"create schema if not exists {project.schema}_feed")
    for case in cases:
        project.model(case.name, f"select * from {project.schema}_feed.{case.name}", **case.config)
    expected: dict[str, list[Row]] = {case.name: [] for case in cases}
    for turn in range(3):
        for case in cases:
            rows = random_rows(dice, dice.choice([0, 3, 25]) if turn else 40)
            if case.config["incremental_strategy"] == "merge":
                rows = distinct_keys(rows, case.config["unique_key"])
            expected[case.name] = after(case, expected[case.name], rows) if turn else rows
            feed = project.spark.createDataFrame(rows, "k bigint, k2 string, v int, w string, p int, q string")
            feed.write.mode("overwrite").saveAsTable(f"{project.schema}_feed.{case.name}")
        project.dbt("run")
        for case in cases:
            found = [tuple(row) for row in project.rows(f"select k, k2, v, w, p, q from {project.table(case.name)}")]
            partition_by = case.config["partition_by"]
            assert comparable(found, partition_by) == comparable(expected[case.name], partition_by), (turn, case)
            expected[case.name] = found
            if found:
                assert_one_file_per_bucket(project, case.name, case.config["bucket_hash"], case.config["buckets"])
                assert_sorted(project, case.name, case.config["clustered_by"])
