"""Tests that tables in Hive's bucketing versions 1 and 2 are joined, sealed and written correctly."""

from __future__ import annotations

import re

import pytest
from bucketed_tables import VERSION_2, Sealed, Tables
from partition_specs import add_files, refused

pytestmark = pytest.mark.usefixtures("extension", "no_broadcast", "dynamic_partitions")

ROWS = "select cast(pmod(id * 37, 600) - 100 as int) as k, id as v from range(900)"
OF_VERSION_2 = f"stored as parquet {VERSION_2}"
JOIN = "select a.k, a.v, b.v from {} a join {} b on a.k = b.k"
GROUP = "select k, count(*), sum(v) from t group by k"
# File names of other writers for bucket \1.
NAMES = {
    "hive": r"0\1_0",
    "hive insert": r"0\1_0_copy_1",
    "trino": r"0\1_0_20261125_101112_00042_ab12c",
    "transaction": r"bucket_\1",
}


@pytest.fixture(scope="module")
def tables(tables: Tables) -> Tables:
    tables.make("one", "k int, v bigint", "k", 8, ROWS)
    tables.make("two", "k int, v bigint", "k", 8, ROWS, stored=OF_VERSION_2)
    tables.make("two16", "k int, v bigint", "k", 16, ROWS, stored=OF_VERSION_2)
    tables.make("wide", "k bigint, v bigint", "k", 8, ROWS, stored=OF_VERSION_2)
    return tables


def set_version(tables: Tables, name: str, version: str | None) -> None:
    """Set the property bucketing_version of a table, or remove it."""
    change = f"set tblproperties ('bucketing_version' = '{version}')"
    tables.sql(f"alter table {name} " + (change if version else "unset tblproperties ('bucketing_version')"))


@pytest.mark.usefixtures("aqe")
@pytest.mark.parametrize(
    ("query", "exchanges"),
    [
        (JOIN.format("two", "two16"), 0),
        (JOIN.format("one", "two"), 1),
        (JOIN.format("two", "one"), 1),
        # Spark casts the int keys, so only the table with bigint keys keeps its buckets.
        (JOIN.format("two", "wide"), 1),
        ("select k, count(*) from (select k from one union all select k from two) group by k", 1),
        ("select k, count(*) from (select k from two union all select k from two where v > 9) group by k", 0),
        # The other side is shuffled by the hash of this version.
        ("select two.k, v, n from two join (select cast(id as int) as k, id as n from range(50)) using (k)", 1),
        (GROUP.replace("from t", "from two"), 0),
    ],
)
@pytest.mark.some(3)
def test_only_tables_with_the_same_version_and_key_type_match(tables: Tables, query: str, exchanges: int) -> None:
    assert tables.read(query).shape.exchanges == exchanges


@pytest.mark.parametrize(
    ("where", "buckets"), [("k = 5", 1), ("k in (1, 9, 17)", 2), ("k is null", 1), ("k > 5", None)]
)
def test_filter_prunes_buckets_of_version_2(tables: Tables, where: str, buckets: int | None) -> None:
    found = re.search(
        r"SelectedBucketsCount: (\d+) out of", tables.read(f"select * from two where {where}", empty="null" in where)
    )
    assert (found and int(found[1])) == buckets


def test_int_and_bigint_keys_are_not_joined_by_bucket(tables: Tables) -> None:
    """A join bucket by bucket would find almost no rows despite equal keys, so the plan must shuffle the int keys."""
    own = "hive2_bucket(8, {}.k)"
    by_bucket = f"{JOIN.format('two', 'wide')} and {own.format('a')} = {own.format('b')}"
    assert 0 < len(tables.rows(by_bucket)) < len(tables.rows(JOIN.format("two", "wide"))) / 4
    plan = tables.read(JOIN.format("two", "wide"))
    assert plan.shape.bucketed == 1 and "Exchange hive2hashpartitioning(cast(" in plan, plan


def seal(tables: Tables) -> Sealed:
    (outcome,) = tables.seal("t")
    assert "Bucketed: true (4 " in tables.read(GROUP)
    return outcome


@pytest.mark.parametrize("name", NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("stated", ["2", "1", "3", " 2 ", None])
@pytest.mark.some(2)
def test_seal_determines_the_version_from_the_rows(tables: Tables, stated: str | None, name: str) -> None:
    tables.make("t", "k int, v bigint", "k", 4, ROWS, stored=OF_VERSION_2, sealed=False)
    set_version(tables, "t", stated)
    tables.rename("t", name)
    found = seal(tables)
    assert (found.status, found.hash, found.files_read) == ("sealed", "hive2", 4)
    if stated == "2":
        assert found.problem is None
    else:
        assert found.problem == (
            "rows in buckets of bucketing_version 2, but the table states "
            f"{'none, which means 1' if stated is None else repr(stated)}. "
            "Set the table property 'bucketing_version' = '2'"
        )


@pytest.mark.long
def test_seal_determines_version_1_in_a_table_that_states_version_2(tables: Tables) -> None:
    """Hive 3 states version 2, and stock Spark then writes version 1."""
    tables.make("t", "k int, v bigint", "k", 4, stored=OF_VERSION_2)
    tables.sql(f"stock:insert into t {ROWS}")
    assert "[not-sealed]" in tables.plan(GROUP)
    found = seal(tables)
    assert found.hash == "hive"
    assert found.problem is not None and "bucketing_version 1, but the table states '2'" in found.problem
    assert "4 Hive buckets" in tables.plan(GROUP)


# Each of these rows is in the same bucket in both versions.
FEW_ROWS = "select k, v from (select int(id) as k, id as v from range(90)) where hive_bucket(4, k) = hive2_bucket(4, k)"


@pytest.mark.long
def test_rows_that_match_both_versions_do_not_bind_later_files_to_a_version(tables: Tables) -> None:
    for stated, other in (("1", "2"), ("2", "1")):
        tables.make("t", "k int, v bigint", "k", 4)
        set_version(tables, "t", stated)
        add_files(tables, 4, stated, FEW_ROWS)
        few = seal(tables)
        assert (few.hash, few.problem) == ({"1": "hive", "2": "hive2"}[stated], None)
        add_files(tables, 4, other, ROWS)
        all_rows = seal(tables)
        assert (all_rows.status, all_rows.hash) == ("sealed", {"1": "hive", "2": "hive2"}[other])
        assert all_rows.files_read == all_rows.files > few.files
        assert (
            all_rows.problem is not None
            and f"Set the table property 'bucketing_version' = '{other}'" in all_rows.problem
        )
        assert (tables.seal("t")[0].status, tables.seal("t")[0].files_read) == ("unchanged", 0)
        # A file in the other version's buckets matches neither.
        add_files(tables, 4, stated, ROWS)
        (mixed,) = tables.seal("t")
        assert mixed.status == "refused" and mixed.problem is not None
        assert re.search(
            r"a row of bucket .* in bucketing_version (1; version 2|2; version 1) does not match either", mixed.problem
        )
        assert "[seal-stale]" in tables.read(GROUP)


def make_partitions(tables: Tables, *names: str) -> None:
    """Create the table `t` with partitions of these names."""
    tables.make("t", "k int, v bigint", "k", 4, rest="partitioned by (ds string)")
    for name in names:
        tables.sql(f"alter table t add partition (ds = '{name}')")


@pytest.mark.parametrize("stated", ["1", "2"])
@pytest.mark.parametrize("order", [("few", "many"), ("many", "few"), ("few, many",)], ids=str)
@pytest.mark.some(1)
def test_partition_that_matches_both_versions_gets_the_version_of_the_others(
    tables: Tables, stated: str, order: tuple[str, ...]
) -> None:
    make_partitions(tables, "few", "many")
    set_version(tables, "t", stated)
    add_files(tables, 4, "2", FEW_ROWS, "ds=few")
    add_files(tables, 4, "2", ROWS, "ds=many")
    for names in order:
        tables.seal("t", "where " + " or ".join(f"ds = '{name}'" for name in names.split(", ")))
    found = tables.seal("t")
    assert [(part.partition, part.hash) for part in found] == [("ds=few", "hive2"), ("ds=many", "hive2")]
    assert (
        [part.problem for part in found] == [None] * 2
        if stated == "2"
        else all(part.problem and "Set the table property 'bucketing_version' = '2'" in part.problem for part in found)
    )
    assert "4 Hive2 buckets" in tables.read(GROUP)
    assert [(part.status, part.files_read) for part in tables.seal("t")] == [("unchanged", 0)] * 2


@pytest.mark.parametrize("sealed_before", [False, True])
@pytest.mark.long
def test_partition_that_matches_both_versions_gets_the_version_of_most_partitions(
    tables: Tables, sealed_before: bool
) -> None:
    """The statement does not select most of the partitions, and selects one in the other version."""
    versions = {"few": "2", "old": "1", "new1": "2", "new2": "2"}
    make_partitions(tables, *versions)
    for name, version in versions.items():
        add_files(tables, 4, version, FEW_ROWS if name == "few" else ROWS, f"ds={name}")
    tables.seal("t", "where ds like 'new%'" + (" or ds = 'few'" if sealed_before else ""))
    outcomes = tables.seal("t", "where ds in ('few', 'old')")
    assert {outcome.partition: outcome.hash for outcome in outcomes} == {"ds=few": "hive2", "ds=old": "hive"}
    assert "4 Hive2 buckets" in tables.read("select k, count(*) from t where ds <> 'old' group by k")


@pytest.mark.long
def test_partitions_that_match_both_versions_get_the_stated_version(tables: Tables) -> None:
    make_partitions(tables, "a", "b")
    for name, stated in (("a", "1"), ("b", "2")):
        set_version(tables, "t", stated)
        add_files(tables, 4, stated, FEW_ROWS, f"ds={name}")
        tables.seal("t", f"where ds = '{name}'")
    # The seal of partition a has version 1, which partition b then follows.
    assert [part.hash for part in tables.seal("t")] == ["hive"] * 2
    tables.sql("alter table t partition (ds = 'a') not clustered")
    tables.sql("alter table t partition (ds = 'b') not clustered")
    assert [part.hash for part in tables.seal("t")] == ["hive2"] * 2


@pytest.mark.long
def test_advice_for_partitions_of_both_versions_leads_to_one_version(tables: Tables) -> None:
    make_partitions(tables, "a", "b", "c")
    for name, version in (("a", "1"), ("b", "2"), ("c", "2")):
        add_files(tables, 4, version, ROWS, f"ds={name}")
    first, *others = tables.seal("t")
    assert [first.hash, *(part.hash for part in others)] == ["hive", "hive2", "hive2"]
    assert first.problem == (
        "rows in buckets of bucketing_version 1, but other partitions have version 2. "
        "Rewrite this partition with the table property 'bucketing_version' = '2'"
    )
    assert all(
        part.problem and part.problem.endswith("Set the table property 'bucketing_version' = '2'") for part in others
    )
    assert "[mixed-bucket-specs]" in tables.read(GROUP)
    set_version(tables, "t", "2")
    tables.sql(f"insert overwrite table t partition (ds = 'a') {ROWS}")
    assert [part.problem for part in tables.seal("t")] == [None] * 3
    assert "4 Hive2 buckets" in tables.read(GROUP)


@pytest.mark.long
def test_advice_for_selected_partitions_is_to_seal_the_whole_table(
    tables: Tables,
) -> None:
    """The seals of partitions that a statement does not select may also match the other version."""
    make_partitions(tables, "a", "b", "c", "z")
    for name in "abc":
        add_files(tables, 4, "1", FEW_ROWS, f"ds={name}")
    tables.seal("t", "where ds <> 'z'")
    set_version(tables, "t", "2")
    add_files(tables, 4, "2", ROWS, "ds=z")
    instead = "To find the version of most partitions, run SEAL BUCKETS for the whole table"
    assert [tables.seal("t", f"where ds = '{name}'")[0].problem for name in ("a", "z", "a")] == [
        f"rows in buckets of bucketing_version 1, but the table states '2'. {instead}",
        f"rows in buckets of bucketing_version 2, but other partitions have version 1. {instead}",
        f"rows in buckets of bucketing_version 1, but the table states '2'. {instead}",
    ]
    assert [(part.hash, part.problem) for part in tables.seal("t")] == [("hive2", None)] * 4


@pytest.mark.parametrize("stated", [" 2 ", "02", "two"])
@pytest.mark.some(2)
def test_version_is_compared_exactly_as_trino_does(tables: Tables, stated: str) -> None:
    tables.make("t", "k int, v bigint", "k", 4, stored=OF_VERSION_2)
    set_version(tables, "t", stated)
    found = f"`t`.\n  found:    the table property 'bucketing_version' = '{stated}'\n  expected: exactly '1' or '2'"
    version_of_rows = "the version of the rows, which ALTER TABLE .*`t` SEAL BUCKETS DRY RUN finds"
    for statement in (f"insert into t {ROWS}", "alter table t clustered by (k) into 8 buckets"):
        refused(tables, statement, f"{found}\n  instead:  set the property to {version_of_rows}")
    assert tables.files("t") == []
    tables.sql("alter table t set tblproperties ('bucketing_version' = '1')")
    tables.sql("alter table t not clustered")
    set_version(tables, "t", stated)
    refused(
        tables,
        "alter table t clustered by (k) into 8 buckets",
        f"{found}\n  instead:  set the property to one of these",
    )


def test_append_after_a_version_change_removes_the_seal(tables: Tables) -> None:
    tables.make("t", "k int, v bigint", "k", 4, ROWS)
    assert "Bucketed: true (4 Hive buckets" in tables.read(GROUP)
    set_version(tables, "t", "2")
    assert "Bucketed: true (4 Hive buckets" in tables.read(GROUP)
    tables.sql(f"insert into t {ROWS}")
    assert "[not-sealed]" in tables.read(GROUP)
    tables.sql(f"insert overwrite table t {ROWS}")
    assert "Bucketed: true (4 Hive2 buckets" in tables.read(GROUP)


def test_partitions_with_different_versions_are_not_read_together(tables: Tables) -> None:
    tables.make("t", "k int, v bigint", "k", 4, rest="partitioned by (ds string)")
    for version in ("1", "2"):
        set_version(tables, "t", version)
        tables.sql(f"insert into t partition (ds = 'v{version}') {ROWS}")
    plan = tables.read(GROUP)
    assert "[mixed-bucket-specs]" in plan and "hash hive in ds=v1, hash hive2 in ds=v2" in plan
    for version, name in (("1", "Hive"), ("2", "Hive2")):
        plan = tables.read(f"select k, count(*) from t where ds = 'v{version}' group by k")
        assert f"Bucketed: true (4 {name} buckets" in plan


UNUSUAL = {
    "concurrent writers": {"spark.sql.maxConcurrentOutputFileWriters": "3"},
    "no shuffle by bucket": {"spark.bucketing.write.distribute": "false"},
    "no codegen": {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"},
}


@pytest.mark.usefixtures("aqe")
@pytest.mark.parametrize("settings", UNUSUAL.values(), ids=UNUSUAL)
@pytest.mark.parametrize("order", [" order by k desc", "", " order by v desc", " sort by k desc"])
@pytest.mark.long
def test_writes_with_unusual_settings_put_rows_in_their_buckets(
    tables: Tables, settings: dict[str, str], order: str
) -> None:
    tables.make("t", "k int, v bigint", "k", 4, rest="partitioned by (p int)", stored=OF_VERSION_2)
    rows = f"select /*+ repartition(1) */ k, v, cast(v % 3 as int) as p from ({ROWS}){order}"
    with tables.settings(settings):
        tables.sql(f"insert into t {rows}")
    of_name = r"cast(regexp_extract(input_file_name(), '/(\\d+)_0_part', 1) as int)"
    found = tables.sql(f"select hive2_bucket(4, k) = {of_name}, count(*) from t group by 1")
    assert found == [(True, 900)]
    tables.read("select p, k, count(*) from t group by p, k")
    assert tables.rows("select * from t") == tables.rows(rows.replace(order, ""))


@pytest.mark.parametrize("sql_type", ["double", "timestamp", "varchar(9)"])
def test_write_of_an_unsupported_key_type_is_refused(tables: Tables, sql_type: str) -> None:
    tables.make("t", f"k {sql_type}", "k", 4, stored=OF_VERSION_2)
    refused(tables, f"insert into t select cast(null as {sql_type})", "hashes differently.*found:    k of type")
    assert tables.files("t") == []


def test_write_without_planned_writes_is_refused(tables: Tables) -> None:
    tables.make("t", "k int, v bigint", "k", 4, stored=OF_VERSION_2)
    with tables.settings({"spark.sql.optimizer.plannedWrite.enabled": "false"}):
        refused(tables, f"insert into t {ROWS}", "plannedWrite.enabled=false.*set spark.sql.optimizer.plannedWrite")
    assert tables.files("t") == []


def test_altered_table_keeps_its_version(tables: Tables) -> None:
    tables.make("t", "k int, v bigint", "k", 4, stored=OF_VERSION_2, rest="partitioned by (p int)")
    tables.sql(f"insert into t partition (p = 4) {ROWS}")
    tables.sql("alter table t clustered by (k) sorted by (k) into 8 buckets")
    assert ("bucketing_version", "2") in tables.sql("show tblproperties t")
    tables.sql(f"insert into t partition (p = 8) {ROWS}")
    assert "4 Hive2 buckets of partitions with 4, 8" in tables.read(GROUP)
