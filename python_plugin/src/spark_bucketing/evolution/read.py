"""Reading the partitions of a table and their records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spark_bucketing.errors import SparkError, TableError
from spark_bucketing.evolution import sql
from spark_bucketing.evolution.model import Column, Table
from spark_bucketing.evolution.reading import Merging
from spark_bucketing.evolution.records import EVOLVED, lower, partition_of, spec_of
from spark_bucketing.evolution.verify import StoredTable
from spark_bucketing.evolution.warehouse import Warehouse
from spark_bucketing.spec import BucketSpec

_SCHEMA = "spark.sql.sources.schema"
_FORMATS = ("parquet", "orc")
# Of a table, which go before the session's settings.
_LENIENT = ("ignorecorruptfiles", "ignoremissingfiles")


def read_table(warehouse: Warehouse, name: str) -> Table:
    """Read a table's spec and those of all its partitions, with one call for all of them.

    Args:
        warehouse: with an open session.
        name: qualified: db.t.

    Raises:
        TableError: the table does not exist, or has no specs per partition, and why.
        SparkError: the session lacks the extension, or Spark does not answer.
    """
    require_extension(warehouse, name)
    columns, details, properties = _described(warehouse, name)
    spec = lower(BucketSpec.from_description(details))
    _refuse_others(name, spec, columns, details)
    found = warehouse.rows(sql.bucket_specs(name))
    table = Table(
        name,
        spec,
        columns,
        evolved=properties.get(EVOLVED) == "true",
        partitions=tuple(partition_of(tuple(row.values())) for row in found),
        external=details.get("Type", "").upper() == "EXTERNAL",
        file_format=_file_format(name, details),
        hash_version=properties.get("bucketing_version", "1").strip(),
        lenient=_lenient(warehouse.options(sql.table(name))),
    ).ordered()
    if spec is None and not table.recorded().evolved:
        raise TableError(
            f"Table {name} has no buckets, and its partitions never had any. Expected a bucketed table: "
            f"ALTER TABLE {name} CLUSTERED BY (...) INTO n BUCKETS, or on_bucket_change='evolve' of its dbt model with "
            "materialized='bucketed_incremental', turns it into one and leaves its files as they are."
        )
    return table


def _refuse_others(name: str, spec: BucketSpec | None, columns: Sequence[Column], details: Mapping[str, str]) -> None:
    """Refuse what has no specs per partition.

    Raises:
        TableError: it is a view, a table of the Spark layout, or one without partitions.
    """
    if details.get("Type", "").upper() == "VIEW":
        raise TableError(f"{name} is a view. Expected a table; name one of those that it reads.")
    hive = details.get("Provider", "").lower() == "hive"
    if not hive and spec:
        raise TableError(
            f"Table {name} has {spec.num_buckets} buckets of the Spark layout, which cannot evolve: stock Spark "
            "reads all "
            "partitions by the table's one number, and would leave out rows. Expected the Hive layout: write the table "
            "anew with bucket_hash='hive' (STORED AS PARQUET or ORC)."
        )
    if not columns:
        raise TableError(
            f"Table {name} has no partitions. Bucket specs per partition are for partitioned tables; the spec of "
            "this one "
            "changes when it is written anew (dbt run --full-refresh)."
        )


def _file_format(name: str, details: Mapping[str, str]) -> str:
    """The format of a table's files, of those that Spark reads with its own reader, which says of which file a row is.

    Raises:
        TableError: it is another one.
    """
    provider = details.get("Provider", "")
    stored = details.get("InputFormat", provider) if provider.lower() == "hive" else provider
    found = next((form for form in _FORMATS if form in stored.lower()), None)
    if found is None:
        raise TableError(
            f"Table {name} has files of the format {stored or 'none'}, which Spark neither reads nor writes by the "
            "buckets of the Hive layout. Expected Parquet or ORC: write the table anew with file_format='parquet' "
            "(STORED AS PARQUET or ORC)."
        )
    return found


def _lenient(options: Mapping[str, str]) -> tuple[str, ...]:
    """Options by which rows are left out without an error."""
    return tuple(
        f"{key}={value}" for key, value in options.items() if key.lower() in _LENIENT and value.lower() == "true"
    )


def current_spec(warehouse: Warehouse, name: str) -> BucketSpec | None:
    """A table's own spec as it is now."""
    return lower(BucketSpec.from_description(_described(warehouse, name)[1]))


def require_extension(warehouse: Warehouse, name: str) -> None:
    """Refuse a session without the extension.

    Raises:
        SparkError: the session lacks it.
    """
    try:
        warehouse.rows("describe function hive_bucket")
    except SparkError as error:
        raise SparkError(
            f"The session lacks the extension, which alone knows the bucket specs of the partitions of {name}: found "
            f"spark.sql.extensions={warehouse.conf('spark.sql.extensions', '') or '(nothing)'}. Add what "
            "`spark-bucketing "
            "extension conf --format profiles` prints to the server_side_parameters of the target."
        ) from error


def read_stored(warehouse: Warehouse, table: Table) -> StoredTable | None:
    """The table's own spec in the places that keep it; None where the metastore cannot be asked."""
    database, name = sql.parts(table.name)[-2:]
    raw = warehouse.raw_table(database, name)
    if raw is None:
        return None
    descriptor, properties = raw
    return StoredTable(
        descriptor=spec_of(descriptor.numBuckets(), *_names(descriptor)) if descriptor is not None else None,
        properties=_of_properties(properties),
        hash_version=properties.get("bucketing_version", "1").strip(),
        kept=any(key.startswith("spark.sql.sources.schema") for key in properties),
    )


def _names(descriptor: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    lists = (descriptor.bucketColumnNames(), descriptor.sortColumnNames())
    found = (tuple(str(names.apply(place)).lower() for place in range(names.length())) for names in lists)
    return next(found), next(found)


def _of_properties(properties: Mapping[str, str]) -> BucketSpec | None:
    def numbered(kind: str) -> tuple[str, ...]:
        number = int(properties.get(f"{_SCHEMA}.num{kind[0].upper()}{kind[1:]}Cols", "0"))
        return tuple(properties.get(f"{_SCHEMA}.{kind}Col.{place}", "").lower() for place in range(number))

    return spec_of(int(properties.get(f"{_SCHEMA}.numBuckets", "0")), numbered("bucket"), numbered("sort"))


def merging_of(warehouse: Warehouse) -> Merging:
    """When this session reads different numbers of buckets together."""
    return Merging(
        warehouse.conf("spark.bucketing.join.alignment", "auto"),
        warehouse.cores,
        int(warehouse.conf("spark.sql.bucketing.coalesceBucketsInJoin.maxBucketRatio", "4")),
    )


def _described(warehouse: Warehouse, name: str) -> tuple[tuple[Column, ...], dict[str, str], dict[str, str]]:
    """Partition columns, the detailed information and the properties of DESCRIBE."""
    try:
        rows = warehouse.rows(f"describe table extended {sql.table(name)}")
    except SparkError as error:
        if "TABLE_OR_VIEW_NOT_FOUND" in str(error) or "SCHEMA_NOT_FOUND" in str(error):
            raise TableError(
                f"There is no table {name}. Check the name, and the target's schema and metastore."
            ) from error
        raise
    titles = [row["col_name"] if not row["data_type"] else "" for row in rows]
    details = {row["col_name"]: row["data_type"] for row in rows[_after(titles, "# Detailed Table Information") :]}
    start = _after(titles, "# Partition Information")
    end = next((place for place in range(start, len(rows)) if not rows[place]["col_name"]), len(rows))
    columns = tuple(
        Column(row["col_name"], row["data_type"]) for row in rows[start:end] if row["col_name"] != "# col_name"
    )
    shown = warehouse.rows(f"show tblproperties {sql.table(name)}") if details.get("Type") != "VIEW" else []
    return columns, details, {row["key"]: row["value"] for row in shown}


def _after(titles: Sequence[str], title: str) -> int:
    return titles.index(title) + 1 if title in titles else len(titles)
