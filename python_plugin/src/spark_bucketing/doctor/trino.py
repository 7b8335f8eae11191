"""Check which bucketed tables of a schema Trino can read as bucketed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from spark_bucketing.doctor.diagnosis import Diagnosis, wrong
from spark_bucketing.spec import HASH_OF_VERSION, VERSION_PROPERTY, stated_version
from spark_bucketing.table import sql
from spark_bucketing.table.metadata import describe_table
from spark_bucketing.table.model import Table
from spark_bucketing.table.warehouse import Warehouse
from spark_bucketing.units import count

# Each table in the Spark layout has this property. Trino ignores the buckets of such a table, because it cannot compute
# Spark's hash (trinodb/trino#6848).
PROVIDER_PROPERTY = "spark.sql.sources.provider"
# The types that Trino hashes, in both bucketing versions, and arrays of these types. Trino ignores the buckets of a
# table with another bucket column (trinodb/trino#8986).
_HASHED = re.compile(r"(array<)*(boolean|tinyint|smallint|int|bigint|float|double|string|varchar\(\d+\)|date)>*")
_BUCKETS = re.compile(r"^Num Buckets: [1-9]", re.MULTILINE)


def examine_tables(warehouse: Warehouse, schema: str) -> Iterator[Diagnosis]:
    """Check the bucketed tables of a schema.

    Yield nothing if the schema does not exist or has no bucketed tables.

    Raises:
        SparkError: Spark does not respond.
    """
    tables = list(_bucketed_tables(warehouse, schema))
    if not tables:
        return
    of_spark = [table for table in tables if table.spec and not table.spec.in_hive_layout]
    of_hive = [table for table in tables if table.spec and table.spec.in_hive_layout]
    refused = [table for table in of_hive if stated_version(table.details) not in HASH_OF_VERSION]
    unhashed = [table for table in of_hive if table not in refused and _unhashed(table)]
    read = len(of_hive) - len(refused) - len(unhashed)
    yield Diagnosis("Trino", f"reads {count(read, 'table')} of {schema} as bucketed")
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
        versions = " or ".join(f"'{version}'" for version in HASH_OF_VERSION)
        yield wrong(
            "Trino",
            f"cannot read {_names(refused)}, because {VERSION_PROPERTY} is '{stated_version(refused[0].details)}' "
            f"instead of {versions}",
            f"run `spark-bucketing table seal` to find the version of the rows, and set {VERSION_PROPERTY} to it",
        )


def _bucketed_tables(warehouse: Warehouse, schema: str) -> Iterator[Table]:
    if not warehouse.rows(f"show schemas like {sql.text(schema)}"):
        return
    for row in warehouse.rows(f"show table extended in {sql.name(schema)} like '*'"):
        # A comment follows the lines about buckets, and may contain anything.
        if _BUCKETS.search(str(row["information"]).partition("\nComment: ")[0]):
            table = describe_table(warehouse, f"{sql.name(schema)}.{sql.name(str(row['tableName']))}")
            if table:
                yield table


def _unhashed(table: Table) -> str:
    """Return the first bucket column that Trino does not hash, with its type; empty if Trino hashes all of them."""
    types = {column.name.lower(): column.type for column in table.all_columns}
    columns = table.spec.bucket_columns if table.spec else ()
    found = ((name, types.get(name, "")) for name in columns)
    return next((f"{name} {of_type}" for name, of_type in found if not _HASHED.fullmatch(of_type)), "")


def _names(tables: list[Table]) -> str:
    """List the names of up to three tables, without their schema."""
    names = sorted(sql.parts(table.name)[-1] for table in tables)
    return ", ".join(names[:3]) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")
