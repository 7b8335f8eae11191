"""Tables of many partitions are looked at with few calls, wherever the partitions lie."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from bucketed import Tables
from commanded import evolution_of
from evolved import create, kept, metastore_calls, put_parameters
from evolving import HARD
from pyspark.sql import SparkSession

from conftest import Project
from spark_bucketing.errors import SparkError
from spark_bucketing.evolution.read import read_table
from spark_bucketing.evolution.rows import list_files
from spark_bucketing.evolution.warehouse import Warehouse

pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions")


DB = "evolution_listing"


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Tables:
    """A database for tables of many partitions."""
    return Tables(spark, DB)


def test_folders_are_listed_together_as_one_by_one(tables: Tables, tmp_path: Path) -> None:
    create(tables, "spread", partition="ds string")
    for value in HARD:
        frame = tables.spark.createDataFrame([(1, "v", value), (2, "v", value)], "k bigint, v string, ds string")
        frame.write.insertInto(f"{DB}.spread")
    away = tmp_path / "away [x] %20"
    tables.sql(f"alter table spread add partition (ds = 'away') location '{away}'")
    tables.sql(f"alter table spread add partition (ds = 'gone') location '{tmp_path / 'gone'}'")
    tables.sql("insert into spread partition (ds = 'away') values (1, 1)")
    (away / "_hidden").write_text("x")
    (away / "folder").mkdir()
    (away / "0_empty").touch()
    warehouse = Warehouse(tables.spark)
    partitions = read_table(warehouse, f"{DB}.spread").partitions
    found = list_files(warehouse, partitions)
    assert found == {partition.name: warehouse.files(partition.location) or () for partition in partitions}
    assert [len(found[f"ds={value}"]) for value in ("away", "gone")] == [2, 0]
    fresh = Warehouse(tables.spark)
    assert [warehouse.address(p.location) for p in partitions] == [fresh.address(p.location) for p in partitions]


def test_a_folder_that_cannot_be_listed_is_an_error(tables: Tables) -> None:
    with pytest.raises(SparkError, match=r"folders of the table cannot be listed.*nowhere"):
        Warehouse(tables.spark).listing(["nowhere://x/y"])


def test_verify_and_repair_take_no_call_for_each_partition(
    tables: Tables, new_project: Callable[..., Project], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create(tables, "many", partition="p bigint")
    tables.sql("insert into many select id, cast(id as string), id % 40 from range(80)")
    tables.sql(f"alter table many add partition (p = 77) location '{tmp_path / 'away'}'")
    tables.sql("insert overwrite table many partition (p = 77) select id, 'v' from range(4)")
    tables.sql("alter table many clustered by (k) sorted by (k) into 8 buckets")
    moved = next((tmp_path / "away").glob("0*"))
    moved.rename(moved.with_name("00077_0_x"))
    command = evolution_of(new_project())
    places: list[str] = []
    monkeypatch.setattr(Warehouse, "_place", lambda _, folder: places.append(folder))
    with metastore_calls(tables.spark) as calls:
        found = command("verify", f"{DB}.many", "--rows")
        repaired = command("repair", f"{DB}.many", "--dry-run")
    assert "p=77: found the file 00077_0_x is of bucket 77" in found.output, found.output
    assert "1 finding." in found.output and "41 partitions, 1 partition to be changed." in repaired.output
    assert places == []
    assert len(calls) < 40, calls


def test_a_repair_of_all_partitions_takes_a_few_calls_for_all(
    tables: Tables, new_project: Callable[..., Project]
) -> None:
    create(tables, "mended", partition="ds string")
    for value in HARD:
        frame = tables.spark.createDataFrame(
            [(number, "v", value) for number in range(9)], "k bigint, v string, ds string"
        )
        frame.write.insertInto(f"{DB}.mended")
    tables.sql("alter table mended clustered by (k) sorted by (k) into 8 buckets")
    right = kept(tables, "mended")
    command = evolution_of(new_project())
    assert command("verify", f"{DB}.mended").exit_code == 0
    for partition in right:
        put_parameters(tables, "mended", partition, {"bucketing.hash": "none"})
    with metastore_calls(tables.spark) as calls:
        repaired = command("repair", f"{DB}.mended")
    assert repaired.exit_code == 0, repaired.output
    assert f"{len(HARD)} partitions changed." in repaired.output
    assert [call for call in calls if "alter_partition" in call] == ["alter_partitions"]
    assert kept(tables, "mended") == right
    assert command("verify", f"{DB}.mended", "--rows").exit_code == 0
