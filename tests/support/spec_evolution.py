"""Tables whose partitions differ in their specs, and what the commands of `spark-bucketing table` say of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from bucketed_tables import Tables
from commands import table_commands
from pyspark.sql import SparkSession

from conftest import Project, data_files

DB = "evolution_command"
HARD = ("it's", 'a "b" c', "x/y=z%", "${spark.master}", "b\\c", "ü ~", None)


class SpecEvolution(Tables):
    """The database of these tables, and the commands, run in this process with this session."""

    def __init__(self, spark: SparkSession, project: Project) -> None:
        spark.sql(f"create database if not exists {DB} location '{project.folder / 'a place%20'}'")
        super().__init__(spark, DB)
        self.command = table_commands(project)

    def said(self, command: str, name: str, *arguments: str, code: int = 0) -> str:
        """What a command says of a table; it has to end with this exit code."""
        result = self.command(command, f"{DB}.{name}", *arguments)
        assert result.exit_code == code, result.output
        return result.output

    def report(self, command: str, name: str, code: int = 0) -> dict[str, Any]:
        """The same as JSON."""
        return dict(json.loads(self.said(command, name, "--format", "json", code=code)))

    def new(self, name: str, columns: str = "ds string", stored: str = "stored as parquet") -> None:
        """A table of 4 buckets without partitions."""
        self.make(name, "k int, v bigint", "k", 4, rest=f"partitioned by ({columns})", stored=stored)

    def write(self, name: str, ds: str | None, rows: int = 40, how: str = "overwrite") -> None:
        self.sql(
            f"insert {how} table {name} partition (ds = {literal(ds)}) select cast(id as int), id + 1 from range({rows})"
        )

    def alter(self, name: str, buckets: int) -> None:
        self.sql(f"alter table {name} clustered by (k) sorted by (k) into {buckets} buckets")

    def evolved(self, name: str, specs: Mapping[str, int], stored: str = "stored as parquet") -> list[str]:
        """A table with partitions of these numbers of buckets, whose own spec is the last one; gives its sums."""
        self.new(name, stored=stored)
        for ds, buckets in specs.items():
            self.alter(name, buckets)
            self.write(name, ds)
        return self.sums(name)

    def record(self, name: str) -> dict[str, tuple[object, ...]]:
        """Status of each partition, number of buckets of its seal, and most files of a bucket."""
        rows = self.sql(f"select partition, status, num_buckets, max_files_per_bucket from bucket_specs('{DB}.{name}')")
        return {str(row[0]): row[1:] for row in rows}

    def locations(self, name: str) -> dict[str, Path]:
        rows = self.sql(f"select partition, location from bucket_specs('{DB}.{name}')")
        return {str(row[0]): Path(str(row[1]).removeprefix("file:").replace("//", "/")) for row in rows}

    def sums(self, name: str) -> list[str]:
        self.sql(f"refresh table {name}")
        return self.rows(f"select ds, count(*), sum(v), count(distinct k) from {name} group by ds")

    def assert_whole(self, name: str, rows: list[str], **buckets: int) -> None:
        """These rows are there, in partitions that are sealed with so many buckets, and nothing is left of what was done.

        Every folder below the table's is a partition's, none is hidden, and no other table is beside it.
        """
        assert self.sums(name) == rows
        if buckets:
            assert self.record(name) == sealed(**buckets)
        folder = self.folder(name)
        data = {path.parent for path in data_files(folder)}
        left = data - set(self.locations(name).values()) | {path for path in folder.rglob(".*") if path.is_dir()}
        assert not left, f"left behind: {left}"
        assert not self.sql(f"show tables like '{name}__*'")
        assert not list(folder.parent.glob(f"{name}__*"))


@pytest.fixture(name="tables", scope="module")
def evolving_tables(spark: SparkSession, new_project: Callable[..., Project]) -> SpecEvolution:
    return SpecEvolution(spark, new_project())


def sealed(**buckets: int) -> dict[str, tuple[object, ...]]:
    """What record() says of partitions ds=a and so on that are sealed with so many buckets, one file for each."""
    return {f"ds={ds}": ("sealed", number, 1) for ds, number in buckets.items()}


def literal(value: str | None) -> str:
    if value is None:
        return "null"
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024") + "'"
