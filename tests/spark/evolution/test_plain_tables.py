"""Tests that ALTER TABLE ... CLUSTERED BY gives an unbucketed Spark table the Hive layout without a rewrite."""

from __future__ import annotations

from pathlib import Path

import pytest
from bucketed_tables import Tables
from partition_specs import StoredSpec, kept, places, refused

from conftest import all_long_but

pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions")

CLUSTERED = "alter table p clustered by (k) into 4 buckets"
COLUMNS = """Id bigint, n decimal(38, 10), at timestamp, c char(3), vc varchar(5), s struct<a: int, b: array<map<string, double>>>,
    b binary, d date, Ds string"""
VALUES = """select id, id * 1.5, timestamp'2024-01-01 01:02:03.456789' + make_dt_interval(int(id)), 'ab', 'abc',
    named_struct('a', int(id), 'b', array(map('x', double(id)))), cast('x' as binary), date'2024-02-03',
    array('a b/c=d', 'it''s "100%"', null, 'é')[id % 4] from range({rows})"""


@pytest.mark.parametrize("file_format", ["parquet", pytest.param("orc", marks=pytest.mark.long)])
@pytest.mark.parametrize("how", all_long_but("managed", ("managed", "external", "unpartitioned")))
def test_alter_adds_buckets_to_an_unbucketed_table(tables: Tables, file_format: str, how: str, tmp_path: Path) -> None:
    partitioned = "" if how == "unpartitioned" else "partitioned by (Ds)"
    location = f"location '{tmp_path}/a place'" if how == "external" else ""
    compressed = "options (compression 'zlib')" if file_format == "orc" else "options (compression 'gzip')"
    tables.create(f"p ({COLUMNS}) using {file_format} {compressed} {partitioned} {location}")
    tables.sql(f"insert into p {VALUES.format(rows=20)}")
    before = tables.rows("select * from p")
    tables.sql("alter table p clustered by (ID, d) sorted by (id) into 4 buckets")
    assert places(tables, "p").descriptor == (4, ["id", "d"], ["id"])
    assert places(tables, "p").spark == "4 [`Id`, `d`] [`Id`]"
    assert ("Provider", "hive", "") in tables.sql("describe formatted p")
    assert tables.rows("select * from p") == tables.stock_rows("select * from p") == before
    assert {of.of_seal for of in kept(tables, "p").values()} == {None}
    tables.sql(f"insert overwrite table p {VALUES.format(rows=40)}")
    after = tables.rows("select * from p")
    assert len(after) == 40 and after == tables.stock_rows("select * from p")
    assert set(before) < set(after)
    assert set(kept(tables, "p").values()) == {StoredSpec(4, 4)}
    suffix = ".zlib.orc" if file_format == "orc" else ".gz.parquet"
    assert all(path.name[:3] == "000" and path.name.endswith(suffix) for path in tables.files("p")), tables.files("p")
    serde = {"spark.sql.hive.convertMetastoreParquet": "false", "spark.sql.hive.convertMetastoreOrc": "false"}
    hives = "select id, n, at, c, vc, s, b, d from p where ds is null or ds <> 'x'"
    expected = tables.rows(hives)
    with tables.settings(serde):
        assert tables.rows(hives) == expected, "Hive's classes must read the same rows"


def test_not_clustered_leaves_an_unbucketed_table_unchanged(tables: Tables) -> None:
    tables.create("p (k int, ds string) using parquet partitioned by (ds)")
    tables.sql("alter table p not clustered")
    assert ("Provider", "parquet", "") in tables.sql("describe formatted p")


def test_types_without_a_hive_equivalent_are_refused(tables: Tables) -> None:
    tables.create("p (k int, at timestamp_ntz, ds string) using parquet partitioned by (ds)")
    tables.sql("insert into p values (1, timestamp_ntz'2024-01-01', 'x')")
    refused(tables, CLUSTERED, r"`p`\.\n  found:    columns that Spark could not store .*: k, at")
    assert ("Provider", "parquet", "") in tables.sql("describe formatted p")
    assert kept(tables, "p") == {"ds=x": StoredSpec(None, 0)}
    assert tables.sql("select k, ds from p") == [(1, "x")]


def test_names_that_hive_cannot_read_are_refused(tables: Tables) -> None:
    tables.create("p (k int, `a,b` string) using orc")
    refused(tables, CLUSTERED, r"`p`\.\n  found:    the column name a,b with a comma")


def test_table_with_partitions_unknown_to_the_metastore_is_refused(tables: Tables, tmp_path: Path) -> None:
    tables.spark.range(3).selectExpr("id as k", "id as p").write.partitionBy("p").parquet(str(tmp_path / "files"))
    with tables.settings({"spark.sql.hive.manageFilesourcePartitions": "false"}):
        tables.create(f"p using parquet location '{tmp_path}/files'")
    refused(tables, CLUSTERED, r"partitions that are not in the metastore.*MSCK REPAIR TABLE")
    tables.sql("msck repair table p")
    tables.sql(CLUSTERED)
    assert kept(tables, "p") == {f"p={i}": StoredSpec(None, 0) for i in range(3)}
    assert tables.sql("select count(*), sum(k) from p") == [(3, 3)]
