"""Check which bucketed tables of a schema Trino can read as bucketed, and where Hive can lose rows of joins."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from spark_bucketing import sql
from spark_bucketing.doctor.server import Diagnosis, wrong
from spark_bucketing.spec import (
    HASH_OF_VERSION,
    STATED_VERSIONS,
    VERSION_OF_HASH,
    VERSION_PROPERTY,
    BucketSpec,
    are_compatible,
)
from spark_bucketing.tables.metadata import TableMetadata, describe_table
from spark_bucketing.tables.warehouse import Warehouse
from spark_bucketing.units import count, some

# Each table in the Spark layout has this property. Trino ignores the buckets of such a table, because it cannot compute
# Spark's hash (trinodb/trino#6848).
PROVIDER_PROPERTY = "spark.sql.sources.provider"
# The types that Trino hashes, in both bucketing versions, and arrays of these types. Trino ignores the buckets of a
# table with another bucket column (trinodb/trino#8986).
_HASHED = re.compile(r"(array<)*(boolean|tinyint|smallint|int|bigint|float|double|string|varchar\(\d+\)|date)>*")
_BUCKETS = re.compile(r"^Num Buckets: [1-9]", re.MULTILINE)
# The bucket specs of partitions in their descriptors, which Trino reads, and in their seals. Spark lists no files for
# these columns, so a seal may be stale.
SPECS = """
select descriptor_num_buckets as buckets, to_json(descriptor_bucket_columns) as columns,
  num_buckets as sealed_buckets, to_json(bucket_columns) as sealed_columns, hash,
  count(*) as partitions, min(partition) as first
from bucket_specs({}) group by all
"""


def examine_tables(warehouse: Warehouse, schema: str) -> Iterator[Diagnosis]:
    """Check the bucketed tables of a schema. Yield nothing if the schema does not exist or has no bucketed tables."""
    exists = warehouse.rows(f"show schemas like {sql.text(schema)}")
    listed = warehouse.rows(f"show table extended in {sql.name(schema)} like '*'") if exists else []
    # A comment follows the lines about buckets, and may contain anything.
    bucketed = [row for row in listed if _BUCKETS.search(str(row["information"]).partition("\nComment: ")[0])]
    names = [f"{sql.name(schema)}.{sql.name(str(row['tableName']))}" for row in bucketed]
    tables = [table for name in names if (table := describe_table(warehouse, name))]
    if not tables:
        return
    of_spark = [table for table in tables if table.spec and not table.spec.in_hive_layout]
    of_hive = [table for table in tables if table.spec and table.spec.in_hive_layout]
    refused = [table for table in of_hive if table.version not in HASH_OF_VERSION]
    unhashed = [table for table in of_hive if table not in refused and _unhashed(table)]
    others = [table for table in of_hive if table not in refused and table not in unhashed]
    is_checked = not others or warehouse.has_extension()
    partitions = [(table, _groups(warehouse, table)) for table in others if is_checked]
    misread = [found for table, groups in partitions for found in _misread(table, groups)]
    limit = "" if is_checked else "; without the session extension, partitions and bucketing versions are not checked"
    yield Diagnosis("Trino", f"reads {count(len(others) - len(misread), 'table')} of {schema} as bucketed{limit}")
    yield from misread
    for table, groups in partitions:
        yield from _lost_by_hive(table, groups)
    if of_spark:
        yield Diagnosis(
            "Trino",
            f"ignores the buckets of {_names(of_spark)}, because tables in the Spark layout have the property "
            f"{PROVIDER_PROPERTY}",
            instead="bucket_hash='hive' or 'hive2' for tables that Trino should read as bucketed",
        )
    if unhashed:
        yield Diagnosis(
            "Trino",
            f"ignores the buckets of {_names(unhashed)}, because it does not hash bucket columns such as "
            f"{_unhashed(unhashed[0])}",
            instead="a bucket column of another type, such as bigint, string or date",
        )
    if refused:
        yield wrong(
            "Trino",
            f"cannot read {_names(refused)}, because {VERSION_PROPERTY} is '{refused[0].version}' "
            f"instead of {STATED_VERSIONS}",
            f"run `spark-bucketing table seal` to find the version of the rows, and set {VERSION_PROPERTY} to it",
        )


class _Partitions(NamedTuple):
    """Partitions with the same buckets in their descriptors, and with the same seals apart from the files."""

    # None without buckets. The specs state only the number of buckets and the bucket columns.
    described: BucketSpec | None
    sealed: BucketSpec | None
    version: str  # of the seals; empty for partitions without a seal in the Hive layout
    number: int
    first: str  # in the order of the partitions' names; empty for a table without partitions


def _is_read_with(spec: BucketSpec | None, table: BucketSpec) -> bool:
    """Return whether Trino reads partitions with this spec in a table with another one."""
    if spec is None or spec.bucket_columns != table.bucket_columns:
        return False
    few, many = sorted((spec.num_buckets, table.num_buckets))
    return are_compatible(few, many) and (many // few).bit_count() == 1


def _groups(warehouse: Warehouse, table: TableMetadata) -> Sequence[_Partitions]:
    def spec(buckets: int | None, columns: str | None) -> BucketSpec | None:
        return BucketSpec(buckets, tuple(json.loads(columns or "[]")), (), "hive") if buckets else None

    groups = [
        _Partitions(
            spec(row["buckets"], row["columns"]),
            spec(row["sealed_buckets"], row["sealed_columns"]),
            VERSION_OF_HASH.get(row["hash"], ""),
            row["partitions"],
            row["first"],
        )
        for row in warehouse.rows(SPECS.format(sql.text(sql.table(table.name))))
    ]
    return sorted(groups, key=lambda group: group.first)


def _lost_by_hive(table: TableMetadata, groups: Sequence[_Partitions]) -> Iterator[Diagnosis]:
    """Yield a diagnosis if partitions have another number of buckets than the table, unlike Hive assumes."""
    number = table.spec.num_buckets if table.spec else 0
    evolved = [group for group in groups if group.described and group.described.num_buckets != number]
    if table.columns and evolved and evolved[0].described:
        yield Diagnosis(
            "Hive",
            f"can lose rows of {_first(table, evolved)}, in sort-merge-bucket and bucket map joins: "
            f"{count(evolved[0].described.num_buckets, 'bucket')}, but the table has {number:,}",
            instead="use external tables and Hive's default hive.disable.unsafe.external.table.operations=true, or "
            f"run `spark-bucketing table rewrite {'.'.join(sql.parts(table.name))}`",
        )


def _misread(table: TableMetadata, groups: Sequence[_Partitions]) -> Iterator[Diagnosis]:
    """Yield one diagnosis if Trino refuses partitions of a table, or looks for their rows in the wrong buckets."""
    if table.spec is None:
        return
    of_table = replace(table.spec, sort_columns=(), bucket_hash="hive")
    refused = [group for group in groups if table.columns and not _is_read_with(group.described, of_table)]
    unlike_files = [group for group in groups if not table.columns and group.version and group.sealed != of_table]
    stated = table.version
    others = [group for group in groups if group.version not in ("", stated)]
    found, seals, commands = [], [], []
    if refused:
        found.append(
            f"fails with HIVE_PARTITION_SCHEMA_MISMATCH if a query reads {_first(table, refused)}: "
            f"{_buckets(refused[0].described)} in the metastore, but the table has {of_table.buckets}"
        )
    if unlike_files:
        found.append(
            f"fails with HIVE_INVALID_BUCKET_FILES if a query reads {_names([table])}: the files have "
            f"{_buckets(unlike_files[0].sealed)}, but the table has {of_table.buckets}"
        )
        commands.append(
            "rebuild the table with `dbt run --full-refresh`, which writes the files with the table's buckets"
        )
    if others:
        where = _first(table, others) if table.columns else _names([table])
        found.append(
            f"may look for rows of {where}{',' if table.columns else ''} in the wrong buckets: sealed with "
            f"{VERSION_PROPERTY} {others[0].version}, but the table states '{stated}'"
        )
        seals.append("compares the rows with both versions and reports the fix")
    if any(_is_read_with(group.sealed, of_table) for group in refused):
        seals.append("writes the sealed buckets of a partition to the metastore")
    name = ".".join(sql.parts(table.name))
    if seals:
        commands.insert(0, f"run `spark-bucketing table seal {name}`, which {', and '.join(seals)}")
    if not all(_is_read_with(group.sealed, of_table) for group in refused):
        commands.append(
            f"run `spark-bucketing table rewrite {name}`, which rewrites partitions with the table's buckets"
        )
    if found:
        # Projects evolve partitions on purpose, and may not use Trino. Wrong seals are an error for everyone.
        yield Diagnosis("Trino", "; ".join(found), "wrong" if others else "ok", "; then ".join(commands))


def _buckets(spec: BucketSpec | None) -> str:
    return spec.buckets if spec else "no buckets"


def _first(table: TableMetadata, groups: Sequence[_Partitions]) -> str:
    number = count(sum(group.number for group in groups), "partition")
    return f"{number} of {_names([table])}, such as {groups[0].first}"


def _unhashed(table: TableMetadata) -> str:
    """Return the first bucket column that Trino does not hash, with its type; empty if Trino hashes all of them."""
    types = {column.name.lower(): column.type for column in table.all_columns}
    columns = table.spec.bucket_columns if table.spec else ()
    found = ((name, types.get(name, "")) for name in columns)
    return next((f"{name} {of_type}" for name, of_type in found if not _HASHED.fullmatch(of_type)), "")


def _names(tables: Sequence[TableMetadata]) -> str:
    """List the names of up to three tables, without their schema."""
    return some(sorted(sql.parts(table.name)[-1] for table in tables), 3)
