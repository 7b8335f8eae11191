"""Reading a table, the specs of its partitions, and what their files are."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from spark_bucketing.errors import SparkError, TableError
from spark_bucketing.evolution import sql
from spark_bucketing.evolution.model import Column, Partition, Table
from spark_bucketing.evolution.reading import Merging
from spark_bucketing.evolution.records import lower, partition_of
from spark_bucketing.evolution.warehouse import Warehouse
from spark_bucketing.spec import BucketSpec

# Of a table, which go before the session's settings.
_LENIENT = ("ignorecorruptfiles", "ignoremissingfiles")
_DETAILS, _PARTITIONS = "# Detailed Table Information", "# Partition Information"


def read_table(warehouse: Warehouse, name: str) -> Table:
    """Read a table's spec and those of all its partitions.

    Args:
        warehouse: with an open session.
        name: qualified: db.t.

    Raises:
        TableError: the table does not exist, or has no specs per partition, and why.
        SparkError: the session lacks the extension, or Spark does not answer.
    """
    warehouse.require_extension(name)
    table = read_head(warehouse, name)
    found = read_partitions(warehouse, name)
    if table.spec is None and not any(partition.spec for partition in found):
        raise TableError(
            f"Table {name} has no buckets, and its partitions never had any. Expected a bucketed table: "
            f"ALTER TABLE {name} CLUSTERED BY (...) INTO n BUCKETS, or on_bucket_change='evolve' of its dbt model with "
            "materialized='bucketed_incremental', turns it into one and leaves its files as they are."
        )
    return table.with_partitions(found)


def read_head(warehouse: Warehouse, name: str) -> Table:
    """Read what DESCRIBE says of a table, and nothing of its partitions.

    Raises:
        TableError: the table does not exist, or cannot have specs per partition, and why.
    """
    try:
        rows = warehouse.described(name)
    except SparkError as error:
        if "TABLE_OR_VIEW_NOT_FOUND" in str(error) or "SCHEMA_NOT_FOUND" in str(error):
            raise TableError(
                f"There is no table {name}. Check the name, and the target's schema and metastore."
            ) from error
        raise
    own, parts, details = _sections(rows)
    spec = lower(BucketSpec.from_description(details))
    _refuse_others(name, spec, parts, details)
    properties = _listed(details.get("Table Properties", ""))
    return Table(
        name,
        spec,
        parts,
        names=tuple(column.name for column in own),
        types=tuple(column.type for column in own),
        location=details.get("Location", ""),
        identity=identity_of(details),
        hash_version=properties.get("bucketing_version", "1").strip(),
        lenient=_lenient(_listed(details.get("Storage Properties", ""))),
    )


def read_partitions(warehouse: Warehouse, name: str) -> tuple[Partition, ...]:
    """What bucket_specs() says of each partition of a table, in no order."""
    return tuple(partition_of(tuple(row.values())) for row in warehouse.rows(sql.bucket_specs(name)))


def properties_of(warehouse: Warehouse, table: str) -> dict[str, str]:
    """The properties of a table, whose name is qualified, as DESCRIBE shows them."""
    return _listed(_sections(warehouse.described(table))[2].get("Table Properties", ""))


def identity_of(details: Mapping[str, str]) -> str:
    """By what a table is told from a later one of the same name: the id of its build by dbt, or when it was created."""
    properties = _listed(details.get("Table Properties", ""))
    return properties.get("bucketing.build") or details.get("Created Time", "")


def _sections(rows: Sequence[tuple[str, str]]) -> tuple[tuple[Column, ...], tuple[Column, ...], dict[str, str]]:
    """All columns, the partition columns among them, and the detailed information."""
    columns: list[Column] = []
    parts: list[Column] = []
    details: dict[str, str] = {}
    section = ""
    for name, value in rows:
        # A column may be called like a title, yet a title has no type.
        if not name or not value or name == "# col_name":
            section = name if name.startswith("# ") and not value else section if name == "# col_name" else "none"
        elif not section:
            columns.append(Column(name, value))
        elif section == _PARTITIONS:
            parts.append(Column(name, value))
        elif section == _DETAILS:
            details[name] = value
    return tuple(columns), tuple(parts), details


def _listed(text: str) -> dict[str, str]:
    """Properties as DESCRIBE lists them: [a=b, c=d]."""
    pairs = re.split(r", (?=[\w.-]+=)", text.strip()[1:-1])
    return {key: value for key, _, value in (pair.partition("=") for pair in pairs)}


def _refuse_others(name: str, spec: BucketSpec | None, columns: Sequence[Column], details: Mapping[str, str]) -> None:
    """Refuse what has no specs per partition.

    Raises:
        TableError: it is a view, a table of the Spark layout, one without partitions, or of other files.
    """
    if "VIEW" in details.get("Type", "").upper():
        raise TableError(f"{name} is a view. Expected a table; name one of those that it reads.")
    hive = details.get("Provider", "").lower() == "hive"
    if not hive and spec:
        raise TableError(
            f"Table {name} has {spec.num_buckets} buckets of the Spark layout, which cannot evolve: stock Spark "
            "reads all partitions by the table's one number, and would leave out rows. Expected the Hive layout: "
            "write the table anew with bucket_hash='hive' (STORED AS PARQUET or ORC)."
        )
    if not columns:
        raise TableError(
            f"Table {name} has no partitions. Bucket specs per partition are for partitioned tables; the spec of "
            "this one changes when it is written anew (dbt run --full-refresh)."
        )
    stored = details.get("InputFormat", "") if hive else details.get("Provider", "")
    if not re.search("parquet|orc", stored, re.IGNORECASE):
        raise TableError(
            f"Table {name} has files of the format {stored or 'none'}, which Spark neither reads nor writes by the "
            "buckets of the Hive layout. Expected Parquet or ORC: write the table anew with file_format='parquet' "
            "(STORED AS PARQUET or ORC)."
        )


def _lenient(options: Mapping[str, str]) -> tuple[str, ...]:
    """Options by which rows are left out without an error."""
    return tuple(
        f"{key}={value}" for key, value in options.items() if key.lower() in _LENIENT and value.lower() == "true"
    )


def merging_of(warehouse: Warehouse) -> Merging:
    """When this session reads different numbers of buckets together."""
    tasks = warehouse.rows(
        "select max(task) + 1 as tasks from (select spark_partition_id() as task from range(100000))"
    )
    return Merging(
        warehouse.conf("spark.bucketing.join.alignment", "auto"),
        int(tasks[0]["tasks"]),
        int(warehouse.conf("spark.sql.bucketing.coalesceBucketsInJoin.maxBucketRatio", "4")),
    )
