"""Tables whose partitions differ in their specs, for the commands of `spark-bucketing evolution`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from bucketed import Tables
from click.testing import Result
from commanded import evolution_of
from pyspark.sql import SparkSession

from conftest import Project

DB = "evolution_command"
HARD = ("it's", 'a "b" c', "x/y=z%", "${spark.master}", "b\\c", "ü ~", None)


@pytest.fixture(name="tables")
def evolving_tables(spark: SparkSession) -> Iterator[Tables]:
    """The database of these tables."""
    made = Tables(spark, DB)
    # dbt-spark, whose tests share this session, switches ANSI mode off.
    with made.settings({"spark.sql.autoBroadcastJoinThreshold": "-1", "spark.sql.ansi.enabled": "true"}):
        yield made


@pytest.fixture(name="command")
def evolution_command(new_project: Callable[..., Project]) -> Callable[..., Result]:
    """The command, run in this process with this session."""
    return evolution_of(new_project())


def literal(value: str | None) -> str:
    if value is None:
        return "null"
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024") + "'"


def make(tables: Tables, name: str, columns: str = "ds string", stored: str = "stored as parquet") -> None:
    tables.sql(f"drop table if exists {name}")
    tables.sql(
        f"create table {name} (k int, v bigint) partitioned by ({columns}) clustered by (k) sorted by (k) "
        f"into 4 buckets {stored}"
    )


def fill(tables: Tables, name: str, ds: str | None, rows: int = 40, how: str = "overwrite") -> None:
    tables.sql(
        f"insert {how} table {name} partition (ds = {literal(ds)}) select cast(id as int), id + 1 from range({rows})"
    )


def alter(tables: Tables, name: str, buckets: int, rest: str = "") -> None:
    tables.sql(f"alter table {name} {rest} clustered by (k) sorted by (k) into {buckets} buckets")


def evolved(tables: Tables, name: str, specs: Mapping[str, int], stored: str = "stored as parquet") -> None:
    """A table with partitions of these numbers of buckets, whose own spec is the last one."""
    make(tables, name, stored=stored)
    for ds, buckets in specs.items():
        alter(tables, name, buckets)
        fill(tables, name, ds)


def record(tables: Tables, name: str) -> dict[str, tuple[object, ...]]:
    """Status of each partition, number of buckets of its seal, and most files of a bucket."""
    rows = tables.sql(f"select partition, status, num_buckets, max_files_per_bucket from bucket_specs('{DB}.{name}')")
    return {str(row[0]): row[1:] for row in rows}


def sealed(**buckets: int) -> dict[str, tuple[object, ...]]:
    """What record() says of partitions ds=a and so on that are sealed with so many buckets, one file for each."""
    return {f"ds={ds}": ("sealed", number, 1) for ds, number in buckets.items()}


def locations(tables: Tables, name: str) -> dict[str, Path]:
    rows = tables.sql(f"select partition, location from bucket_specs('{DB}.{name}')")
    return {str(row[0]): Path(str(row[1]).removeprefix("file:").replace("//", "/")) for row in rows}


def set_parameter(tables: Tables, name: str, ds: str, key: str, value: str | None) -> None:
    """What another engine can do to a record."""
    jvm, session = tables.spark.sparkContext._jvm, tables.spark._jsparkSession
    assert jvm is not None
    client = session.sharedState().externalCatalog().unwrapped().client()
    metastore = jvm.org.apache.hadoop.hive.ql.metadata.Hive.get(client.conf()).getMSC()
    partition = metastore.getPartition(DB, name, f"ds={ds}")
    if value is None:
        partition.getParameters().remove(key)
    else:
        partition.getParameters().put(key, value)
    metastore.alter_partition(DB, name, partition)


def sums(tables: Tables, name: str) -> list[str]:
    tables.sql(f"refresh table {name}")
    return tables.rows(f"select ds, count(*), sum(v), count(distinct k) from {name} group by ds")


def fine(run: Callable[..., Result], name: str) -> None:
    result = run("verify", f"{DB}.{name}")
    assert result.exit_code == 0, result.output


def nothing_is_left(tables: Tables, name: str) -> None:
    """Every folder below the table's is a partition's, none is hidden, and no other table is beside it."""
    used = set(locations(tables, name).values())
    folder = tables.folder(name)
    data = {path.parent for path in folder.rglob("*") if path.is_file() and path.name[0] not in "._"}
    assert data <= used, f"left behind: {data - used}"
    hidden = [path for path in folder.rglob(".*") if path.is_dir()]
    assert not hidden, f"left behind: {hidden}"
    assert not tables.sql(f"show tables like '{name}__*'")
    assert not list(folder.parent.glob(f"{name}__*"))
