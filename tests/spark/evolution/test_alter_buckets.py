"""Tests that ALTER TABLE ... CLUSTERED BY and NOT CLUSTERED change the table's spec and keep partitions' specs."""

from __future__ import annotations

import pytest
from bucketed_tables import Tables
from partition_specs import StoredSpec, create, filled, kept, metastore_calls, places, refused
from pyspark.errors import ParseException, PySparkException
from spark_features import needs_sql_parameters

from conftest import all_long_but

pytestmark = pytest.mark.usefixtures("extension", "dynamic_partitions")


def test_alter_changes_every_copy_of_the_spec(tables: Tables) -> None:
    create(tables, "t")
    tables.sql("alter table t clustered by (v, k) sorted by (v asc) into 8 buckets")
    found = places(tables, "t")
    assert found.descriptor == (8, ["v", "k"], ["v"])
    columns = {"numBucketCols": "2", "bucketCol.0": "v", "bucketCol.1": "k", "numSortCols": "1", "sortCol.0": "v"}
    assert found.properties == {"numBuckets": "8"} | columns
    assert found.spark == "8 [`v`, `k`] [`v`]"
    assert ("bucketing_version", "1") in tables.sql("show tblproperties t")
    tables.sql("alter table t clustered by (k) into 2 buckets")
    assert places(tables, "t").properties == {"numBuckets": "2", "numBucketCols": "1", "bucketCol.0": "k"}
    tables.sql("alter table t not clustered")
    assert places(tables, "t") == ((-1, [], []), {}, "")


@pytest.mark.long
def test_repeated_alter_changes_nothing(tables: Tables) -> None:
    filled(tables, "t")
    partition = "alter table t partition (p = 1) clustered by (k) into 2 buckets"
    tables.sql(partition)
    before = places(tables, "t"), kept(tables, "t")
    assert before[1] == {"p=0": StoredSpec(4, 4), "p=1": StoredSpec(None, 2)}
    with metastore_calls(tables.spark) as of_table:
        tables.sql("alter table t clustered by (k) sorted by (k) into 4 buckets")
    with metastore_calls(tables.spark) as of_partition:
        tables.sql(partition)
    assert (places(tables, "t"), kept(tables, "t")) == before
    assert not [call for call in of_table if "partitions" in call]
    assert not [call for call in of_partition if call.startswith("alter")]


FOUR = (4, ["k"], ["k"])
EIGHT: tuple[int, list[str], list[str]] = (8, ["k"], [])
# Statements, and the table's number of buckets after each of them.
SPELLINGS = {
    "capitals": ("ALTER TABLE t CLUSTERED BY (k) INTO 8 BUCKETS", EIGHT),
    "after a comment": ('/* {"app": "dbt", "node_id": "model.t"} */\nalter table t clustered by (k) into 8 buckets', EIGHT),
    "comments": ("-- by hand\n alter /* the */ table\n`alter_buckets`.`t` Clustered By(`K`)Into 8 Buckets ; -- done\n;", EIGHT),
    "catalog": ("alter table spark_catalog.alter_buckets.t clustered by (k) into 8 buckets /* ; */", EIGHT),
    "variable": ("alter table t clustered by (k) into ${t.buckets} buckets", EIGHT),
    "long": (f"/* {'x' * 500_000} */ alter table t {' ' * 100_000} clustered by (k) into 8 buckets", EIGHT),
    # Spark handles all other statements, short or long.
    "blank lines": ("\n" * 200_000 + "select 1 as x", FOUR),
    "long comments": ("-- a comment\n" * 20_000 + "select 1 as x", FOUR),
    "a long comment": (f"/* {'x' * 500_000} */ select 1 as x", FOUR),
    "a string": (f"alter table t set tblproperties ('note' = '{'x' * 3_000}')", FOUR),
    "a nested comment": ("/* an /* inner */ alter table t clustered by (k) into 3 buckets */ select 1 as x", FOUR),
    "a comment with the statement": ("select 1 as x -- alter table t clustered by (k) into 3 buckets", FOUR),
}  # fmt: skip


@pytest.mark.parametrize("part", all_long_but(0, range(3)))
def test_statement_is_recognized_in_every_spelling(tables: Tables, part: int) -> None:
    create(tables, "t")
    before = places(tables, "t")
    for how, (statement, descriptor) in [*SPELLINGS.items()][part::3]:
        with tables.settings({"t.buckets": "8"}):
            tables.sql(statement)
        assert places(tables, "t").descriptor == descriptor, how
        assert descriptor == EIGHT or places(tables, "t") == before, how
        tables.sql("alter table t clustered by (k) sorted by (k) into 4 buckets")


def test_explain_does_not_execute_the_statement(tables: Tables) -> None:
    create(tables, "t")
    for how in ("explain", "EXPLAIN EXTENDED -- the plan\n", "explain formatted", "explain cost /* of it */"):
        ((plan,),) = tables.sql(f"{how} alter table t clustered by (k) into 8 buckets")
        assert "AlterBucketsCommand" in str(plan)
        with pytest.raises(PySparkException, match=r"PARSE_SYNTAX_ERROR.*many"):
            tables.sql(f"{how} alter table t clustered by (k) into many buckets")
        assert places(tables, "t").descriptor == (4, ["k"], ["k"])


@needs_sql_parameters
@pytest.mark.long
def test_parameters_work_as_partition_values(tables: Tables) -> None:
    filled(tables, "t")
    tables.spark.sql("alter table t partition (p = :p) clustered by (k) into 8 buckets", args={"p": 1})
    assert kept(tables, "t") == {"p=0": StoredSpec(4, 4), "p=1": StoredSpec(None, 8)}
    tables.spark.sql("alter table t partition (p = ?) clustered by (k) into 16 buckets", args=[0])
    assert kept(tables, "t")["p=0"] == StoredSpec(None, 16)
    for missing in (":p", "?"):
        with pytest.raises(PySparkException):
            tables.sql(f"alter table t partition (p = {missing}) not clustered")


OTHERS = [
    "alter table `not` rename to clustered",
    "alter table clustered set tblproperties ('a' = 'alter table t clustered by (k) into 8 buckets')",
    "alter table clustered add columns (clustered int comment ') not clustered', `by` int)",
    "alter table clustered rename to `not`",
]


def test_spark_handles_other_statements(tables: Tables) -> None:
    tables.create("`not` (k int) stored as parquet")
    for statement in OTHERS:
        tables.sql(statement)
    assert places(tables, "not").descriptor == (-1, [], [])
    with pytest.raises(ParseException, match="not sorted"):
        tables.sql("alter table `not` not sorted")


def test_partitions_keep_their_seals(tables: Tables) -> None:
    filled(tables, "t", "select k, v, k % 3 from new_rows")
    with metastore_calls(tables.spark) as calls:
        tables.sql("alter table t clustered by (k) sorted by (k) into 8 buckets")
    assert not [call for call in calls if "partition" in call], "the statement must change only the table"
    tables.sql("insert into t values (1, 'x', 3)")
    tables.sql("alter table t partition (p = 1) not clustered")
    tables.sql("alter table t partition (p = 0) clustered by (k) sorted by (k) into 4 buckets")
    tables.sql("alter table t not clustered")
    tables.sql("insert into t values (1, 'x', 4)")
    tables.sql("alter table t clustered by (v) into 16 buckets")
    four, plain = StoredSpec(4, 4), StoredSpec(None, 0)
    assert kept(tables, "t") == {"p=0": four, "p=1": plain, "p=2": four, "p=3": StoredSpec(8, 8), "p=4": plain}
    tables.read("select * from t")


def test_partial_partition_spec_alters_all_matching_partitions(tables: Tables) -> None:
    create(tables, "t", partition="d date, n int")
    tables.sql(
        "insert into t select k, v, date_add(date'2024-01-01', int(p)), int(k % 2) + 1 from new_rows where k < 4"
    )
    tables.sql("insert into t select k, v, date'2024-01-02', 7 from new_rows")
    tables.sql("alter table t partition (N = '01') clustered by (k) sorted by (k) into 8 buckets")
    tables.sql("alter table t partition (d = '2024-01-02') clustered by (v) into 2 buckets")
    assert kept(tables, "t") == {
        "d=2024-01-01/n=1": StoredSpec(None, 8),
        "d=2024-01-02/n=2": StoredSpec(None, 2),
        "d=2024-01-02/n=7": StoredSpec(None, 2),
    }
    assert places(tables, "t").descriptor == (4, ["k"], ["k"])


def test_unpartitioned_table_changes_only_its_spec(tables: Tables) -> None:
    tables.make("u", "k bigint, v string", "k", 4, "select k, v from new_rows")
    before = tables.rows("select * from u")
    tables.sql("alter table u clustered by (k) sorted by (k) into 8 buckets")
    assert places(tables, "u").descriptor == (8, ["k"], ["k"])
    assert kept(tables, "u") == {"": StoredSpec(4, 8)}
    assert tables.rows("select * from u") == before
    tables.read("select a.k, b.v from u a join u b on a.k = b.k")


def test_alter_invalidates_the_sessions_table_cache(tables: Tables) -> None:
    filled(tables, "t")
    tables.sql("select * from t")
    tables.sql("alter table t clustered by (k) sorted by (k) into 8 buckets")
    tables.sql("insert into t partition (p = 5) select k, v from new_rows")
    assert kept(tables, "t")["p=5"] == StoredSpec(8, 8)
    assert len([path for path in tables.files("t") if path.parent.name == "p=5"]) == 8


def test_alter_refreshes_cached_tables(tables: Tables) -> None:
    filled(tables, "t")
    tables.sql("cache table t")
    tables.sql("alter table t clustered by (k) sorted by (k) into 8 buckets")
    tables.sql("insert overwrite table t partition (p = 0) values (1, 'new')")
    assert tables.sql("select * from t where p = 0") == [(1, "new", 0)]
    tables.sql("uncache table t")


# Refused statements by kind of table, and the expected message.
REFUSED = [
    ("alter table t clustered by (x) into 8 buckets", "no column x.*columns among k, v"),
    ("alter table t clustered by (p) into 8 buckets", "partition column p.*columns among k, v"),
    ("alter table t clustered by (k, K) into 8 buckets", "column k twice.*CLUSTERED BY .k."),
    ("alter table t clustered by (k) sorted by (v, v) into 8 buckets", "column v twice.*SORTED BY .v."),
    ("alter table t clustered by (k) into 0 buckets", "greater than 0 but less than or equal.*`100000`.*Got `0`"),
    ("alter table t clustered by (k) into 99999999999 buckets", "99999999999 buckets.*maxBuckets"),
    ("alter table t clustered by (k) sorted by (k desc) into 8 buckets", "ordering must be ASC, was 'DESC'"),
    ("alter table t clustered by (k) 8 buckets", "PARSE_SYNTAX_ERROR.*'8'"),
    ("alter table t clustered by (k) into many buckets", "PARSE_SYNTAX_ERROR.*many"),
    ("alter table t clustered by () into 8 buckets", "PARSE_SYNTAX_ERROR"),
    ("alter table t clustered by (k.a) into 8 buckets", "PARSE_SYNTAX_ERROR"),
    ("alter table t clustered by (k) into 8 buckets and more", "'and': expected the end"),
    ("alter table t clustered by (k) into 8", "missing 'BUCKETS'"),
    ("alter table t not clustered by (k) into 8 buckets", "'by': expected the end"),
    ("alter table t partition (p = 99) not clustered", "no partition with p=99.*SHOW PARTITIONS"),
    ("alter table t partition (q = 1) not clustered", "PARTITIONS_NOT_FOUND.*`q`|q is not a valid partition column"),
    ("alter table t partition (p = 'x') not clustered", "CAST_INVALID_INPUT"),
    ("alter table t partition (p) not clustered", "must set value"),
    ("alter table nothing clustered by (k) into 8 buckets", "TABLE_OR_VIEW_NOT_FOUND.*`nothing`"),
    ("alter table new_rows clustered by (k) into 8 buckets", "new_rows"),
    ("alter table a_view not clustered", "(EXPECT_TABLE_NOT_VIEW|is a view).*ALTER TABLE ... NOT CLUSTERED"),
    ("alter table text clustered by (k) into 8 buckets", "TextInputFormat.*STORED AS PARQUET"),
    ("alter table of_json clustered by (k) into 8 buckets", "provider json.*STORED AS PARQUET"),
    ("alter table of_spark clustered by (k) into 8 buckets", "4 buckets in the Spark layout"),
    ("alter table of_spark not clustered", "4 buckets in the Spark layout"),
    ("alter table version_3 clustered by (k) into 8 buckets", "'bucketing_version' = '3'.*exactly '1' or '2'"),
    ("alter table version_3 partition (k = 1) not clustered", "'bucketing_version' = '3'"),
    ("alter table times clustered by (at) into 8 buckets", "column at of type TIMESTAMP.*as Hive does"),
    ("alter table times clustered by (c) into 8 buckets", r"column c of type CHAR\(3\).*as Hive does"),
    ("alter table times partition (p = 1) not clustered", "found: +no partitions"),
    ("alter table plain partition (p = 1) clustered by (k) into 8 buckets", "plain table.*without PARTITION"),
    ("alter table t seal buckets where v = 'x'", r"predicate \(v = 'x'\).*partition columns p"),
    ("alter table t seal buckets where p =", "PARSE_SYNTAX_ERROR"),
    ("alter table t seal buckets where p = (select 1)", "subquer"),
    ("alter table t seal buckets where rand() > p", r"predicate \(rand"),
    ("alter table t seal buckets where", "PARSE_SYNTAX_ERROR"),
    ("alter table t seal buckets now", "'now': expected the end"),
    ("alter table t seal buckets dry", "expected RUN"),
    ("alter table t seal buckets where p = 1 dry now", "'now': expected RUN"),
    ("alter table whole seal buckets where k = 1", "found:    no partitions"),
    ("alter table a_view seal buckets", "(EXPECT_TABLE_NOT_VIEW|is a view).*ALTER TABLE ... SEAL BUCKETS"),
    ("alter table new_rows seal buckets", "new_rows"),
    ("alter table nothing seal buckets", "TABLE_OR_VIEW_NOT_FOUND"),
    ("alter table loose seal buckets", "a table without buckets.*CLUSTERED BY"),
    ("alter table text seal buckets", "format .*TextInputFormat.*PARQUET or ORC"),
    ("select * from bucket_specs('nothing')", "TABLE_OR_VIEW_NOT_FOUND"),
    ("select * from bucket_specs('a_view')", "the view `spark_catalog`.`alter_buckets`.`a_view`.*that the view reads"),
    (
        "select * from bucket_specs('new_rows')",
        "cannot read the temporary view `new_rows`.*that the temporary view reads",
    ),
    ("select * from bucket_specs('no_schema.t')", "TABLE_OR_VIEW_NOT_FOUND|SCHEMA_NOT_FOUND"),
    ("select * from bucket_specs('a b')", "PARSE_SYNTAX_ERROR"),
    ("select * from bucket_specs()", "found: +none"),
    ("select * from bucket_specs(1)", "found: +1"),
]


@pytest.fixture(scope="module")
def refused_tables(tables: Tables) -> None:
    """Create a table of each kind whose buckets cannot be altered or sealed, or only with another statement."""
    create(tables, "t")
    two, parquet = "clustered by (k) into 2 buckets", "stored as parquet"
    for statement in (
        "create or replace view a_view as select 1 as k",
        f"create table loose (k int) {parquet}",
        f"create table text (k int) {two} stored as textfile",
        "create table of_json (k int) using json",
        "create table of_spark (k int) using parquet clustered by (k) into 4 buckets",
        f"create table version_3 (k int) {two} {parquet} tblproperties ('bucketing_version' = '3')",
        f"create table times (k int, at timestamp, c char(3)) {parquet}",
        "create table plain (k int, p int) using parquet partitioned by (p)",
        f"create table whole (k int, v bigint) {two} {parquet}",
    ):
        tables.sql(statement)


@pytest.mark.usefixtures("refused_tables")
@pytest.mark.parametrize(("statement", "message"), REFUSED, ids=[statement for statement, _ in REFUSED])
@pytest.mark.some(9)
def test_invalid_statements_are_refused(tables: Tables, statement: str, message: str) -> None:
    refused(tables, statement, message)
    assert places(tables, "t").descriptor == (4, ["k"], ["k"])
