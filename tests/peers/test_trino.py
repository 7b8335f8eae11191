"""Tests that Trino and Spark read each other's bucketed tables, with Trino's validation of buckets."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest
from bucketed_tables import Shape, Tables
from peer_tables import BUCKETS, LAYOUTS, PARTITIONED, WHOLE, KeyTable, Layout, Rows, evolution, key_tables
from peers import QueryError, Trino, metastore, trino

pytestmark = pytest.mark.usefixtures("extension", "no_broadcast", "dynamic_partitions")

# Trino then chooses a partitioned join, as for large tables.
LARGE = {"join_distribution_type": "PARTITIONED"}


@pytest.fixture(scope="session")
def metastore_uri(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with metastore(tmp_path_factory.mktemp("metastore")) as uri:
        yield uri


@pytest.fixture(scope="session")
def more_settings(metastore_uri: str) -> Mapping[str, str]:
    return {"spark.hadoop.hive.metastore.uris": metastore_uri}


@pytest.fixture(scope="session")
def open_trino(metastore_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Trino]]:
    with trino(tmp_path_factory.mktemp("trino"), metastore_uri) as started:
        yield started


@pytest.fixture
def peer(open_trino: Callable[[str], Trino], tables: Tables) -> Trino:
    return open_trino(tables.database)


def with_properties(layout: Layout, keys: str) -> str:
    """Return Trino's properties of a bucketed table."""
    columns = ", ".join(f"'{key}'" for key in keys.split(", "))
    partitioned = "partitioned_by = array['p'], " if layout.partitioned else ""
    return (
        f"with (format = '{layout.stored}', {partitioned}bucketed_by = array[{columns}], sorted_by = array[{columns}], "
        f"bucket_count = {BUCKETS}, bucketing_version = {layout.version})"
    )


def is_colocated(peer: Trino, join: str) -> bool:
    """Return whether Trino joins buckets where it reads them: only the count of each bucket moves to one place."""
    ((plan,),) = peer.rows(f"explain (type distributed) {join}", **LARGE)
    return plan.count("Fragment ") == 2 and "Fragment 1 [hive:HivePartitioningHandle" in plan


@pytest.mark.parametrize("table", key_tables(), ids=str)
def test_each_reads_the_buckets_of_the_other(tables: Tables, peer: Trino, table: KeyTable) -> None:
    """Trino does not hash decimals, and therefore reads such a table without its buckets."""
    for name in "t", "u":
        tables.sql(f"drop table if exists {name}")
    tables.sql(f"create table {table.ddl('t')}")
    tables.sql(f"insert into t {table.rows}")
    rows = sorted(tables.sql(f"select {table.texts()} from t"), key=repr)
    assert len(rows) == 240
    copy = f"create table u {with_properties(table.layout, table.keys)} as select * from t"
    if "decimal" in table.types:
        assert sorted(peer.rows(f"select {table.texts('varchar')} from t"), key=repr) == rows
        with pytest.raises(QueryError, match="NOT_SUPPORTED"):
            peer.rows(copy)
        return
    peer.rows(copy)
    assert {row.status for row in tables.seal("u")} == {"sealed"}
    expected = sorted(tables.sql(f"select {table.layout.bucket(table.keys)}, {table.texts()} from t"), key=repr)
    for name in "t", "u":
        assert sorted(tables.sql(f"select {table.texts()} from {name}"), key=repr) == rows
        in_trino = peer.rows(f'select "$bucket", {table.texts("varchar")} from {name}')
        assert sorted(in_trino, key=repr) == expected
        values = [row[3:] for row in expected[::24]]
        lookups = [f"select count(*) from {name} where {table.lookup(texts, 'varchar')}" for texts in values]
        found = [count for (count,) in peer.rows(" union all ".join(f"({lookup})" for lookup in lookups))]
        assert sorted(found) == sorted(sum(row[3:] == texts for row in expected) for texts in values)
    on = " and ".join(f"t.{key} = u.{key}" for key in table.keys.split(", "))
    join = f"select count(*) from t join u on {on}"
    # The only exchange is that of the count.
    assert tables.shape(join) == Shape(exchanges=1, sorts=0, bucketed=2)
    assert is_colocated(peer, join)
    assert peer.rows(join, **LARGE) == tables.sql(f"stock:{join}")


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_trino_reads_the_table_after_each_statement(tables: Tables, peer: Trino, layout: Layout) -> None:
    """Trino itself creates some of the tables."""
    tables.sql("drop table if exists t")
    if LAYOUTS.index(layout) % 3:
        tables.sql(f"create table {layout.ddl('t', 'k bigint, v string', 'k')}")
    else:
        peer.rows(f"create table t (k bigint, v varchar, p integer) {with_properties(layout, 'k')}")
    rows: Rows = {}
    changes = PARTITIONED if layout.partitioned else WHOLE
    for buckets, statements in {
        BUCKETS: changes, 16: evolution(16, layout.partitioned), 4: evolution(4, layout.partitioned),
    }.items():  # fmt: skip
        for statement in statements:
            tables.sql(statement.sql)
            rows = statement.effect(rows)
            if statement.sql.startswith("alter table") and not layout.partitioned:
                # The files still have the old number of buckets.
                with pytest.raises(QueryError, match="HIVE_INVALID_BUCKET_FILES"):
                    peer.rows("select * from t")
            else:
                check(tables, peer, rows, layout.bucket("k", buckets), statement.sql)


def check(tables: Tables, peer: Trino, rows: Rows, bucket: str, after: str) -> None:
    """Check the rows and seals of the table t, and what Trino returns for scans, lookups and joins."""
    expected = sorted((k, v, p) for k, (v, p) in rows.items())
    found = tables.sql(f"select k, v, p, {bucket} from t")
    assert sorted(row[:3] for row in found) == expected, after
    assert sorted(peer.rows('select k, v, p, "$bucket" from t')) == sorted(found), after
    assert set(tables.sql(f"select status from bucket_specs('{tables.database}.t')")) <= {("sealed",)}, after
    keys = list(rows)[:: 1 + len(rows) // 8]
    lookups = " union all ".join(f"(select k, v, p from t where k = {key})" for key in keys)
    assert sorted(peer.rows(lookups)) == sorted((key, *rows[key]) for key in keys), after
    join = "select count(*) from t a join t b on a.k = b.k"
    assert peer.rows(join, **LARGE) == [(len(rows),)], after
    assert is_colocated(peer, join), after


@pytest.mark.parametrize("stored", ["parquet", "orc"])
def test_trino_refuses_numbers_of_buckets_without_a_power_of_two_between_them(
    tables: Tables, peer: Trino, stored: str
) -> None:
    tables.create(Layout(1, stored, True).ddl("t", "k bigint", "k"))
    tables.sql("insert into t select id, 1 from range(20)")
    tables.sql("alter table t clustered by (k) sorted by (k) into 12 buckets")
    tables.sql("insert into t select id, 2 from range(20)")
    with pytest.raises(QueryError, match="HIVE_PARTITION_SCHEMA_MISMATCH"):
        peer.rows("select count(*) from t")
    assert peer.rows("select count(*) from t where p = 2") == [(20,)]
