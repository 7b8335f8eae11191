"""Check which bucketed tables of a schema Trino can read as bucketed, and where Hive can lose rows of joins."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from spark_bucketing.doctor.server import Diagnosis, wrong
from spark_bucketing.spec import (
    HASH_OF_VERSION,
    STATED_VERSIONS,
    VERSION_OF_HASH,
    VERSION_PROPERTY,
    are_compatible,
    stated_version,
)
from spark_bucketing.tables import sql
from spark_bucketing.tables.metadata import describe_table
from spark_bucketing.tables.model import TableMetadata
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
    refused = [table for table in of_hive if stated_version(table.details) not in HASH_OF_VERSION]
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
            f"cannot read {_names(refused)}, because {VERSION_PROPERTY} is '{stated_version(refused[0].details)}' "
            f"instead of {STATED_VERSIONS}",
            f"run `spark-bucketing table seal` to find the version of the rows, and set {VERSION_PROPERTY} to it",
        )


class _Buckets(NamedTuple):
    """Bucket columns and a number of buckets; 0 if unbucketed."""

    number: int
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"{count(self.number, 'bucket')} by ({', '.join(self.columns)})" if self.number else "no buckets"

    def is_read_with(self, other: _Buckets) -> bool:
        """Return whether Trino reads partitions with these buckets in a table with the other buckets."""
        few, many = sorted((self.number, other.number))
        return (
            few > 0 and self.columns == other.columns and are_compatible(few, many) and (many // few).bit_count() == 1
        )


class _Partitions(NamedTuple):
    """Partitions with the same buckets in their descriptors, and with the same seals apart from the files."""

    described: _Buckets
    sealed: _Buckets
    version: str  # of the seals; empty for partitions without a seal in the Hive layout
    number: int
    first: str  # in the order of the partitions' names; empty for a table without partitions


def _groups(warehouse: Warehouse, table: TableMetadata) -> Sequence[_Partitions]:
    found = []
    for row in warehouse.rows(SPECS.format(sql.text(sql.table(table.name)))):
        described, sealed = (
            _Buckets(row[f"{of}buckets"] or 0, tuple(json.loads(row[f"{of}columns"] or "[]"))) for of in ("", "sealed_")
        )
        version = VERSION_OF_HASH.get(row["hash"], "")
        found.append(_Partitions(described, sealed, version, row["partitions"], row["first"]))
    return sorted(found, key=lambda group: group.first)


def _lost_by_hive(table: TableMetadata, groups: Sequence[_Partitions]) -> Iterator[Diagnosis]:
    """Yield a diagnosis if partitions have another number of buckets than the table, unlike Hive assumes."""
    number = table.spec.num_buckets if table.spec else 0
    evolved = [group for group in groups if table.columns and group.described.number not in (0, number)]
    if evolved:
        yield Diagnosis(
            "Hive",
            f"can lose rows of {_first(table, evolved)}, in sort-merge-bucket and bucket map joins: "
            f"{count(evolved[0].described.number, 'bucket')}, but the table has {number:,}",
            instead="use external tables and Hive's default hive.disable.unsafe.external.table.operations=true, or "
            f"run `spark-bucketing table rewrite {'.'.join(sql.parts(table.name))}`",
        )


def _misread(table: TableMetadata, groups: Sequence[_Partitions]) -> Iterator[Diagnosis]:
    """Yield one diagnosis if Trino refuses partitions of a table, or looks for their rows in the wrong buckets."""
    if table.spec is None:
        return
    of_table = _Buckets(table.spec.num_buckets, table.spec.bucket_columns)
    refused = [group for group in groups if table.columns and not group.described.is_read_with(of_table)]
    unlike_files = [group for group in groups if not table.columns and group.version and group.sealed != of_table]
    stated = stated_version(table.details)
    others = [group for group in groups if group.version not in ("", stated)]
    found, seals, commands = [], [], []
    if refused:
        found.append(
            f"fails with HIVE_PARTITION_SCHEMA_MISMATCH if a query reads {_first(table, refused)}: "
            f"{refused[0].described} in the metastore, but the table has {of_table}"
        )
    if unlike_files:
        found.append(
            f"fails with HIVE_INVALID_BUCKET_FILES if a query reads {_names([table])}: the files have "
            f"{unlike_files[0].sealed}, but the table has {of_table}"
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
    if any(group.sealed.is_read_with(of_table) for group in refused):
        seals.append("writes the sealed buckets of a partition to the metastore")
    name = ".".join(sql.parts(table.name))
    if seals:
        commands.insert(0, f"run `spark-bucketing table seal {name}`, which {', and '.join(seals)}")
    if not all(group.sealed.is_read_with(of_table) for group in refused):
        commands.append(
            f"run `spark-bucketing table rewrite {name}`, which rewrites partitions with the table's buckets"
        )
    if found:
        # Projects evolve partitions on purpose, and may not use Trino. Wrong seals are an error for everyone.
        yield Diagnosis("Trino", "; ".join(found), "wrong" if others else "ok", "; then ".join(commands))


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
