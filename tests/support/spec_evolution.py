"""Create tables with mixed bucket specs, and run the commands of `spark-bucketing table` on them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from bucketed_tables import Tables
from commands import command
from pyspark.sql import SparkSession

from conftest import Project, data_files
from spark_bucketing import sql

DB = "evolution_command"
HARD = ("it's", 'a "b" c', "x/y=z%", "${spark.master}", "b\\c", "ü ~", None)


class SpecEvolution(Tables):
    """A database of such tables, and the commands, which run in this process and session."""

    def __init__(self, spark: SparkSession, project: Project) -> None:
        spark.sql(f"create database if not exists {DB} location '{project.folder / 'a place%20'}'")
        super().__init__(spark, DB)
        self.command = partial(command, project, "table")

    def said(self, command: str, name: str, *arguments: str, code: int = 0) -> str:
        """Run a command on a table, check its exit code, and return its output."""
        result = self.command(command, f"{DB}.{name}", *arguments)
        assert result.exit_code == code, result.output
        return result.output

    def report(self, command: str, name: str, code: int = 0) -> dict[str, Any]:
        """Run a command with a JSON report, and return the report."""
        return dict(json.loads(self.said(command, name, "--format", "json", code=code)))

    def new(self, name: str, columns: str = "ds string", stored: str = "stored as parquet") -> None:
        """Create a table with 4 buckets and without partitions."""
        self.make(name, "k int, v bigint", "k", 4, rest=f"partitioned by ({columns})", stored=stored)

    def write(self, name: str, ds: str | None, rows: int = 40, how: str = "overwrite") -> None:
        self.sql(
            f"insert {how} table {name} partition (ds = {literal(ds)}) select cast(id as int), id + 1 from range({rows})"
        )

    def alter(self, name: str, buckets: int) -> None:
        self.sql(f"alter table {name} clustered by (k) sorted by (k) into {buckets} buckets")

    def evolved(self, name: str, specs: Mapping[str, int], stored: str = "stored as parquet") -> list[str]:
        """Create partitions with these numbers of buckets; the table has the last number. Return the sums of its rows."""
        self.new(name, stored=stored)
        for ds, buckets in specs.items():
            self.alter(name, buckets)
            self.write(name, ds)
        return self.sums(name)

    def record(self, name: str) -> dict[str, tuple[object, ...]]:
        """Return each partition's status, sealed number of buckets, and maximum number of files per bucket."""
        rows = self.sql(f"select partition, status, num_buckets, max_files_per_bucket from bucket_specs('{DB}.{name}')")
        return {str(row[0]): row[1:] for row in rows}

    def locations(self, name: str) -> dict[str, Path]:
        rows = self.sql(f"select partition, location from bucket_specs('{DB}.{name}')")
        return {str(row[0]): Path(str(row[1]).removeprefix("file:").replace("//", "/")) for row in rows}

    def sums(self, name: str) -> list[str]:
        self.sql(f"refresh table {name}")
        return self.rows(f"select ds, count(*), sum(v), count(distinct k) from {name} group by ds")

    def assert_whole(self, name: str, rows: list[str], **buckets: int) -> None:
        """Check the rows, that partitions are sealed with these numbers of buckets, and that nothing else remains.

        Every folder below the table's folder belongs to a partition and is not hidden. The database has no other table.
        """
        assert self.sums(name) == rows
        if buckets:
            assert self.record(name) == sealed(**buckets)
        folder = self.folder(name)
        data = {path.parent for path in data_files(folder)}
        left = data - set(self.locations(name).values()) | {path for path in folder.rglob(".*") if path.is_dir()}
        assert not left, f"unexpected folders: {left}"
        assert not self.sql(f"show tables like '{name}__*'")
        assert not list(folder.parent.glob(f"{name}__*"))


@pytest.fixture(name="tables", scope="module")
def evolving_tables(spark: SparkSession, new_project: Callable[..., Project]) -> SpecEvolution:
    return SpecEvolution(spark, new_project())


def sealed(**buckets: int) -> dict[str, tuple[object, ...]]:
    """Return the expected record() of partitions ds=a and so on that are sealed with one file per bucket."""
    return {f"ds={ds}": ("sealed", number, 1) for ds, number in buckets.items()}


def literal(value: str | None) -> str:
    return "null" if value is None else sql.text(value)
