"""Tests of tables that other engines or streams wrote, and of partition values that a metastore cannot tell apart."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from bucketed_tables import Tables
from metastore_interception import failing
from partition_specs import put_skew
from pyspark.errors import PySparkException

pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions")
BUCKETS = "clustered by (k) sorted by (k) into 2 buckets"
ORGANIZED = """tblproperties ('bucketing.range_by'='["k"]')"""
# Every statement that writes into a table or into its metadata.
STATEMENTS = (
    "insert into t values (1, 1)",
    "insert overwrite t values (1, 1)",
    "update t set v = 1",
    "delete from t where k = 1",
    "merge into t using (select 1 as k, 1 as v) s on t.k = s.k when matched then update set v = s.v when not matched then insert *",
    "alter table t clustered by (k) into 4 buckets",
    "alter table t seal buckets",
)


def content(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if not path.name.endswith(".crc"))


def failures(tables: Tables, statements: tuple[str, ...] = STATEMENTS) -> list[str]:
    """Run statements that must fail and change no file; return their messages."""
    before, messages = content(tables.folder("t")), []
    for statement in statements:
        with pytest.raises(PySparkException) as error:
            tables.sql(statement)
        messages.append(str(error.value))
        assert content(tables.folder("t")) == before, statement
    return messages


TRANSACTIONAL = "tblproperties ('transactional' = 'true')"
# The end of the DDL, the column of SKEWED BY, and what the error says about the table.
OF_HIVE = {
    "transactional": (TRANSACTIONAL, "", "a transactional table of Hive, full ACID"),
    "skewed": ("", "v", "found:    skewed columns"),
    "skewed by the bucket column": ("", "k", "found:    skewed columns"),
}


@pytest.mark.parametrize("of", OF_HIVE)
@pytest.mark.some(2)
def test_tables_with_features_of_hive_are_refused(tables: Tables, of: str) -> None:
    """The files of such a table are not exactly the files that Spark lists in its directory, and writes there."""
    rest, skewed_by, message = OF_HIVE[of]
    tables.create(f"t (k int, v int) {BUCKETS} stored as orc {rest}")
    tables.sql("stock:insert into t values (1, 1), (2, 2)")
    if skewed_by:
        put_skew(tables, "t", skewed_by, "1")
        tables.sql("refresh table t")
    for found in failures(tables):
        assert message in found and "instead:" in found
    assert tables.rows("select * from t") == tables.stock_rows("select * from t") and tables.rows("select * from t")


def test_insert_only_tables_are_refused(tables: Tables) -> None:
    """The metastore of Spark's built-in client has no such tables, so this test checks the description of one."""
    tables.create(f"t (k int, v int) {BUCKETS} stored as orc {TRANSACTIONAL}")
    jvm: Any = tables.spark.sparkContext._jvm
    table = tables.spark._jsparkSession.sharedState().externalCatalog().getTable(tables.database, "t")
    fields = [table.productElement(number) for number in range(table.productArity())]
    properties = table.properties().updated("transactional_properties", "insert_only")
    described = table.copy(*(properties if field == table.properties() else field for field in fields))
    with pytest.raises(PySparkException, match="of Hive, 'transactional_properties' = 'insert_only'"):
        jvm.org.apache.spark.sql.bucketing.metadata.WriteTarget.check(
            tables.spark._jsparkSession, described, "write into", jvm.scala.Option.empty()
        )


# Tables, and how many of the statements name the stream as the reason. For the others, the layout has an error of its own.
STREAMED = {f"stored as parquet|{BUCKETS}": 7, f"using parquet|{BUCKETS}": 6, f"using orc|{ORGANIZED}": 6}


@pytest.fixture(params=STREAMED)
def streamed(tables: Tables, request: pytest.FixtureRequest, tmp_path: Path) -> int:
    """Let a streaming query write into the directory of a table with rows."""
    stored, rest = request.param.split("|")
    tables.create(f"t (k int, v int) {rest} {stored}" if "stored" in stored else f"t (k int, v int) {stored} {rest}")
    tables.sql("insert into t values (1, 1), (2, 2)")
    source, file_format = tmp_path / "source", stored.split()[-1]
    tables.spark.sql("select 7 as k, 7 as v").write.parquet(str(source))
    stream = tables.spark.readStream.schema("k int, v int").parquet(str(source)).writeStream.format(file_format)
    options = {"checkpointLocation": str(tmp_path / "checkpoint"), "path": str(tables.folder("t"))}
    stream.options(**options).trigger(availableNow=True).start().awaitTermination()
    tables.sql("refresh table t")
    return STREAMED[request.param]


@pytest.mark.some(2)
def test_tables_of_a_stream_are_refused(tables: Tables, streamed: int) -> None:
    """Readers list the log of the stream, and no other file."""
    assert tables.rows("select k from t") == tables.stock_rows("select k from t") == ["(7,)"]
    messages = failures(tables)
    ours = [message for message in messages if "_spark_metadata" in message]
    assert len(ours) == streamed
    assert all("foreachBatch" in message and "instead:" in message for message in ours)


@pytest.mark.parametrize("stored", ["parquet", "orc"])
@pytest.mark.parametrize("partitioned", [True, False])
@pytest.mark.some(1)
def test_files_in_subdirectories_are_no_files_of_a_partition(tables: Tables, stored: str, partitioned: bool) -> None:
    """Hive writes subdirectories for UNION ALL. Spark's queries, the seals and the statements ignore their files, and an INSERT OVERWRITE deletes them."""
    by = "partitioned by (p string)" if partitioned else ""
    tables.create(f"t (k int, v int) {by} {BUCKETS} stored as {stored}")
    values = "'a'" if partitioned else ""
    insert = f"t {'partition (p) ' if partitioned else ''}select cast(id as int), 0{', ' if values else ''}{values} from range(10)"
    tables.sql(f"insert overwrite {insert}")
    folder = tables.folder("t") / "p=a" if partitioned else tables.folder("t")
    (folder / "HIVE_UNION_SUBDIR_1" / "deep").mkdir(parents=True)
    shutil.copy(tables.files("t")[0], folder / "HIVE_UNION_SUBDIR_1" / "deep" / "000000_0")

    def check(rows: int, bucketed: bool = True) -> None:
        assert tables.sql("select count(*) from t") == [(rows,)]
        assert [status for (status,) in tables.sql(f"select status from bucket_specs('{tables.database}.t')")] == [
            "sealed"
        ]
        assert {outcome.status for outcome in tables.seal("t", "dry run")} == {"unchanged"}
        assert ("Bucketed: true" in tables.plan("select k, count(*) from t group by k")) == bucketed

    tables.sql("refresh table t")
    check(10)
    assert tables.sql("update t set v = 1 where k = 3") == [(1,)]
    check(10)
    tables.sql(f"insert into {insert.replace('partition (p) ', '')}")
    check(20)
    tables.sql(f"insert overwrite {insert}")
    assert not (folder / "HIVE_UNION_SUBDIR_1").exists()
    check(10)


def test_recursive_tables_are_not_sealed(tables: Tables) -> None:
    """With the option `recursiveFileLookup`, Spark reads the files in subdirectories."""
    tables.create(f"t (k int, v int) {BUCKETS} stored as parquet")
    tables.sql("alter table t set serdeproperties ('recursiveFileLookup'='true')")
    tables.sql("insert into t select cast(id as int), 0 from range(10)")
    (tables.folder("t") / "empty").mkdir()
    assert tables.seal("t", "dry run")[0].status == "unchanged"
    (tables.folder("t") / "more").mkdir()
    shutil.copy(tables.files("t")[0], tables.folder("t") / "more" / "000000_0")
    tables.sql("refresh table t")
    assert tables.sql("select count(*) > 10 from t") == [(True,)]
    assert tables.seal("t", "dry run")[0].status == "refused"
    assert "Bucketed: true" not in tables.plan("select k, count(*) from t group by k")


WRITES = {
    "insert into": "insert into t {rows}",
    "insert overwrite": "insert overwrite t partition (p) {rows}",
    "merge": "merge into t using ({rows}) s on t.k = s.k and t.p = s.p when matched then update set k = s.k when not matched then insert *",
}
# Spark reads this value, like the empty string, as NULL.
NULL_NAME = "'__HIVE_DEFAULT_PARTITION__'"
VALUES = {
    "string": [r"'\\'", r"'x\\'", r"'\\\\y'", "'it\\'s'", "'\"'", "'\"\\''", "'%'", "'a%25'", "'a=b'", "'a/b'", "'ü漢😀'", "' '", "'a\\nb'", "'{}[]#?*:;'",
               "'.'", "'_x'", "repeat('y', 200)", "''", NULL_NAME, "null"],
    "varchar(3)": ["'a'", "'\\\\'", "''", "null"],
    "char(3)": ["'a'", "'ab'", "null"],
    "int": ["1", "-1", "null"],
    "bigint": ["9223372036854775807"],
    "decimal(10,2)": ["1.50", "-0.01", "null"],
    "date": ["date'2024-01-01'", "date'9999-12-31'", "null"],
    "timestamp": ["timestamp'2024-01-01 00:00:00'", "timestamp'2024-01-01 01:02:03.456789'", "null"],
    "boolean": ["true", "false", "null"],
    "double": ["1.5d", "double('infinity')"],
}  # fmt: skip


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("of", VALUES)
@pytest.mark.some(1)
def test_rows_are_found_under_every_partition_value(tables: Tables, of: str, write: str) -> None:
    tables.create(f"t (k int) partitioned by (p {of}) {BUCKETS} stored as parquet")
    # An INSERT OVERWRITE refuses the name of the directory of NULL beside NULL.
    values = [value for value in VALUES[of] if value != NULL_NAME or write != "insert overwrite"]
    # Spark does not pad a string that a query compares with a column of type CHAR.
    cast = "rpad({}, 3)" if of == "char(3)" else f"cast({{}} as {of})"
    rows = [f"select {number} as k, {cast.format(value)} as p" for number, value in enumerate(values)]
    source = " union all ".join(rows)
    tables.sql(WRITES[write].format(rows=source))
    tables.sql(WRITES["merge"].format(rows=source))
    (found,) = tables.sql("select count(distinct k), count(*) from t")
    nulls = sum(value in ("null", "''", NULL_NAME) for value in values)
    # NULL equals nothing, so that the merge inserts its rows again.
    assert found == (len(rows), len(rows) + nulls)
    wanted = f"select s.k, if(cast(s.p as string) in ('', {NULL_NAME}), null, s.p) as p from ({source}) s"
    assert tables.rows("select distinct * from t") == tables.rows(wanted)


@pytest.mark.parametrize("lookup", ["all", "single"])
@pytest.mark.some(1)
def test_append_changes_nothing_if_the_metastore_does_not_answer(tables: Tables, lookup: str) -> None:
    """It looks up its new partitions before its commit."""
    tables.create(f"t (k int) partitioned by (p string) {BUCKETS} stored as parquet")
    rows = "values (1, 'a')" if lookup == "single" else "values (1, 'a'), (2, 'b')"
    with failing(tables.spark, "getPartitionsByNames") as failed, pytest.raises(Exception, match="failed on purpose"):
        tables.sql(f"insert into t {rows}")
    assert failed and tables.rows("select * from t") == []
    assert not [path for path in tables.folder("t").rglob("*part-*") if path.is_file()]
    tables.sql(f"insert into t {rows}")
    assert tables.rows("select * from t") == tables.rows(f"select * from {rows}")


@pytest.mark.parametrize("existing", ["", "'a'"])
@pytest.mark.parametrize("layout", ["bucketed", "organized"])
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.some(2)
def test_partition_values_that_the_metastore_mixes_up_change_nothing(
    tables: Tables, layout: str, write: str, existing: str
) -> None:
    """Derby, like most databases of a metastore, ignores spaces at the end of a string."""
    if layout == "bucketed":
        tables.create(f"t (k int) partitioned by (p string) {BUCKETS} stored as parquet")
    else:
        tables.create(f"t (k int, p string) using parquet partitioned by (p) {ORGANIZED}")
    tables.sql("insert into t values (9, 'b')")
    if existing:
        tables.sql(f"insert into t values (1, {existing})")
    before, files = (
        tables.rows("select * from t"),
        [path for path in content(tables.folder("t")) if path.startswith("p=")],
    )
    statement = WRITES[write].format(rows="select * from values (2, 'b'), (3, 'a'), (4, 'a ') as s(k, p)")
    with pytest.raises(PySparkException, match="which the metastore lacks after its creation") as error:
        tables.sql(statement)
    assert "instead:" in str(error.value) and "rtrim" in str(error.value)
    assert tables.rows("select * from t") == before
    assert [path for path in content(tables.folder("t")) if path.startswith("p=")] == files
