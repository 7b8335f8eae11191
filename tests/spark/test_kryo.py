"""Test of statements whose tasks return results, with Kryo and required registration."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from spark_subprocess import SparkSubprocess

from conftest import REPOSITORY

TABLES = {
    "buckets": "(k int, v string, p int) partitioned by (p) clustered by (k) sorted by (k) into 4 buckets stored as parquet",
    "ranges": "(k int, v string, p int) using parquet "
    """tblproperties ('bucketing.range_by' = '["k"]', 'bucketing.rows_per_file' = '20')""",
    "sizes": "(k int, v string, p int) using parquet "
    """tblproperties ('bucketing.range_by' = '["k"]', 'bucketing.target_file_size' = '1000')""",
}
STATEMENTS = (
    "insert into {t} select id, 'inserted', id % 2 from range(100)",
    "insert overwrite {t} select id, 'overwritten', id % 2 from range(100)",
    "update {t} set v = 'updated' where k < 10",
    "merge into {t} t using (select 20 as k, 'merged' as v, 0 as p union all select 100, 'merged', 0) s "
    "on t.k = s.k and t.p = s.p when matched then update set v = s.v when not matched then insert *",
    "delete from {t} where k >= 90 and k < 100",
)
ROWS = "select v, count(*) from {t} group by v order by v"


@pytest.mark.long
def test_documented_classes_suffice_for_kryo_with_required_registration(tmp_path: Path) -> None:
    guide = (REPOSITORY / "docs" / "how-to" / "deploy.md").read_text()
    (section,) = re.findall(r"\n## Use Kryo with required registration\n(.*?)(?=\n## |$)", guide, re.DOTALL)
    subprocess_spark = SparkSubprocess(tmp_path, "s")
    subprocess_spark.settings |= {
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrationRequired": "true",
        "spark.kryo.classesToRegister": ",".join(re.findall(r"`(org\.[\w.]+)`", section)),
    }
    creates = [f"create table s.{name} {text}" for name, text in TABLES.items()]
    changes = [statement.format(t=f"s.{name}") for name in TABLES for statement in (*STATEMENTS, ROWS)]
    stock = ("set spark.bucketing.enabled = false", "insert into s.buckets values (1, 'stock', 3)")
    seal = ("set spark.bucketing.enabled = true", "alter table s.buckets seal buckets")
    drop = "alter table s.buckets drop partition (p = 3)"
    results = subprocess_spark.run("create database s", *creates, *stock, *seal, drop, *changes)
    sealed, _, *found = results[-len(changes) - 2 :]
    assert [row[:2] for row in sealed] == [["p=3", "sealed"]]
    rows = [["merged", 2], ["overwritten", 79], ["updated", 10]]
    assert found[len(STATEMENTS) :: len(STATEMENTS) + 1] == [rows] * len(TABLES)
