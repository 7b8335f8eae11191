"""Tests that queries return the rows of stock Spark for all formats and reader settings."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bucketed_tables import Tables, explain
from partition_specs import put_field_ids, refused, seal_of
from pyspark.sql import SparkSession
from spark_features import COLLATIONS, can

from conftest import all_long_but

pytestmark = pytest.mark.usefixtures("extension", "no_broadcast")

ENCRYPT = "orc.encrypt"
HIVES_ORC = {"spark.sql.orc.impl": "hive"}
BY_IDS = {"spark.sql.parquet.fieldId.read.enabled": "true"}
# Without this setting, Spark refuses files without field ids for columns that have ids.
IDS_ARE_MISSING = {"spark.sql.parquet.fieldId.read.ignoreMissing": "true"}
ROWS = "select cast(id % 10 as string) as k, cast(id as string) as s, id as v from range(200)"
GROUPED = "select k, count(*) from t group by k"
RANKED = "select *, rank() over (partition by k order by s) from t"
JOINED = "select a.k, count(*) from t a join t b on a.k = b.k group by a.k"


@pytest.fixture
def tables(spark: SparkSession) -> Iterator[Tables]:
    made = Tables(spark, "formats")
    yield made
    made.sql("drop table if exists t")


def make(tables: Tables, stored: str, columns: str = "k string, s string, v bigint", rows: str = ROWS) -> None:
    """Create the table `t` with two sorted files per bucket."""
    tables.make("t", columns, "k", 2, stored=stored)
    for _ in range(2):
        tables.sql(f"insert into t {rows}")
    tables.sql("refresh table t")


@pytest.mark.parametrize("file_format", all_long_but("csv", ["json", "csv", "text"]))
def test_other_formats_are_left_to_stock_spark(tables: Tables, file_format: str) -> None:
    """Readers of other formats reuse one row object for all files of a task, and may return different text."""
    columns, rows = (
        ("k string", "select k from ({})") if file_format == "text" else ("k string, s string, v bigint", "{}")
    )
    make(tables, f"using {file_format}", columns, rows.format(ROWS))
    for query in (JOINED, GROUPED):
        assert "Spark buckets" not in tables.read(query)
    assert seal_of(tables, "t") == {}
    refused(
        tables,
        "alter table t seal buckets",
        f"format {file_format}\n  expected: PARQUET or ORC.*instead:  write its rows",
    )


@pytest.mark.parametrize("stored", ["stored as orc", "using orc"])
@pytest.mark.some(1)
def test_files_read_by_hives_orc_reader_are_not_merged(tables: Tables, stored: str) -> None:
    make(tables, stored)
    with tables.settings(HIVES_ORC):
        tables.read(JOINED)
        assert ("Bucketed: false [unsupported-reader] (spark.sql.orc.impl is hive" in explain(tables, JOINED)) == (
            stored == "stored as orc"
        )
        refused(tables, "alter table t seal buckets", "spark.sql.orc.impl is hive.*set the option to its default")
    tables.sql("refresh table t")
    assert "merged" in tables.read(JOINED)


def test_columns_with_mismatched_field_ids_get_an_ordinary_scan(tables: Tables) -> None:
    """Spark reads such columns as NULL, so rows with equal keys are in several buckets."""
    make(tables, "stored as parquet")
    put_field_ids(tables, "t")
    with tables.settings(IDS_ARE_MISSING):
        assert "merged" in tables.read(JOINED), "field ids have no effect unless Spark reads them"
    with tables.settings(IDS_ARE_MISSING | BY_IDS):
        assert tables.rows(GROUPED) == ["(None, 400)"]
        assert "Bucketed: false [field-ids]" in tables.read(GROUPED)
        refused(tables, "alter table t seal buckets", "fieldId.read.enabled is true.*set the option to its default")


def test_spark_layout_with_field_ids_is_left_to_stock_spark(tables: Tables) -> None:
    make(tables, "using parquet")
    put_field_ids(tables, "t")
    with tables.settings(IDS_ARE_MISSING | BY_IDS):
        assert "Spark buckets" not in tables.read(GROUPED)


@pytest.mark.parametrize("by_table", all_long_but(True, [True, False]))
@pytest.mark.long
def test_encrypted_orc_columns_get_an_ordinary_scan(tables: Tables, by_table: bool) -> None:
    """A session without the key reads NULL instead of encrypted values."""
    make(tables, "stored as orc")
    property_of_table = f"tblproperties ('{ENCRYPT}' = 'pii:k')" if by_table else ""
    if by_table:
        tables.sql(f"alter table t set {property_of_table}")
    with tables.settings({} if by_table else {ENCRYPT: "pii:k"}):
        assert f"Bucketed: false [unsupported-reader] ({ENCRYPT} is set" in tables.read(GROUPED)
        refused(tables, "alter table t seal buckets", f"{ENCRYPT} is set")
        tables.make("t", "k string, s string, v bigint", "k", 2, stored=f"stored as orc {property_of_table}")
        # Without a key, only an empty insert succeeds.
        tables.sql(f"insert into t {ROWS.replace('200', '0')}")
    assert seal_of(tables, "t") == {}


@pytest.mark.skipif(not can(COLLATIONS), reason=COLLATIONS)
@pytest.mark.long
def test_sealed_ordering_ends_at_a_collated_string(tables: Tables) -> None:
    texts = "select explode(array('a', 'B', 'b', 'A', 'c')) as s"
    for kind in ("string collate utf8_lcase", "string"):
        tables.make("t", f"k int, s {kind}", "k", 1, sorted_by="k, s", stored="using parquet")
        tables.sql(f"insert into t select 1, s from ({texts})")
        tables.read(RANKED)
    tables.sql("alter table t alter column s type string collate utf8_lcase")
    tables.read(RANKED)


PADDED: tuple[dict[str, str], ...] = (
    {},
    {"spark.sql.legacy.charVarcharAsString": "true"},
    {"spark.sql.readSideCharPadding": "false"},
)


@pytest.mark.parametrize("kind", all_long_but("varchar(4)", ["char(4)", "varchar(4)"]))
@pytest.mark.parametrize(
    "stored", all_long_but("stored as orc", ["stored as orc", "stored as parquet", "using parquet", "using orc"])
)
@pytest.mark.some(1)
def test_sealed_ordering_ends_at_a_padded_string(tables: Tables, stored: str, kind: str) -> None:
    texts = "select explode(array('a', 'a\\t', 'a ', 'b', ' ', '')) as s"
    for created in PADDED[:2]:
        with tables.settings(created):
            tables.make("t", f"k int, s {kind}", "k", 1, sorted_by="k, s", stored=stored)
        for written in PADDED:
            with tables.settings(written):
                tables.sql(f"insert into t select 1, s from ({texts})")
        for read in PADDED:
            with tables.settings(read):
                tables.read(RANKED)


@pytest.mark.parametrize("stored", ["stored as orc", "using orc", "stored as parquet"])
@pytest.mark.some(1)
def test_files_are_not_skipped_by_timestamps_of_another_time_zone(tables: Tables, stored: str) -> None:
    """ORC stores timestamps in local time. Statistics from another time zone do not describe the values that a session reads."""
    ranges = """tblproperties ('bucketing.range_by'='["ts"]', 'bucketing.num_files'='4')"""
    zones = tables.spark.sparkContext._jvm.java.util.TimeZone  # type: ignore[union-attr]
    before = zones.getDefault()
    try:
        for zone, statement in (("UTC", "write"), ("America/New_York", "read")):
            zones.setDefault(zones.getTimeZone(zone))
            with tables.settings({"spark.sql.session.timeZone": zone}):
                if statement == "write":
                    tables.create(f"t (k int, ts timestamp) {stored} {ranges}")
                    tables.sql("insert into t select id, timestamp_seconds(1700000000 + id * 3600) from range(48)")
                    continue
                tables.sql("refresh table t")
                for hour in range(-6, 48, 6):
                    low, high = (f"timestamp_seconds(1700000000 + {of} * 3600)" for of in (hour, hour + 3))
                    query = f"select * from t where ts >= {low} and ts < {high}"
                    assert tables.rows(query) == tables.stock_rows(query), query
                assert tables.sql("select count(*) from t") == [(48,)]
    finally:
        zones.setDefault(before)
