"""Check which bucketed tables of a schema Trino can read as bucketed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from spark_bucketing.doctor.diagnosis import Diagnosis
from spark_bucketing.table import sql
from spark_bucketing.table.warehouse import Warehouse
from spark_bucketing.units import count

# Each table in the Spark layout has this property. Trino ignores the buckets of such a table, because it cannot compute
# Spark's hash.
PROVIDER_PROPERTY = "spark.sql.sources.provider"
_BUCKETS = re.compile(r"^Num Buckets: [1-9]", re.MULTILINE)
_HIVE = re.compile(r"^Provider: hive$", re.MULTILINE)


def examine_tables(warehouse: Warehouse, schema: str) -> Iterator[Diagnosis]:
    """Check the bucketed tables of a schema.

    Yield nothing if the schema does not exist or has no bucketed tables.

    Raises:
        SparkError: Spark does not respond.
    """
    if not warehouse.rows(f"show schemas like {sql.text(schema)}"):
        return
    listed = warehouse.rows(f"show table extended in {sql.name(schema)} like '*'")
    # A comment follows these lines, and may contain anything.
    described = {str(row["tableName"]): str(row["information"]).partition("\nComment: ")[0] for row in listed}
    bucketed = {name: text for name, text in described.items() if _BUCKETS.search(text)}
    if not bucketed:
        return
    ignored = sorted(name for name, text in bucketed.items() if not _HIVE.search(text))
    read = f"reads {count(len(bucketed) - len(ignored), 'table')} of {schema} as bucketed"
    if not ignored:
        yield Diagnosis("Trino", read)
        return
    shown = ", ".join(ignored[:3]) + (f" and {len(ignored) - 3:,} more" if len(ignored) > 3 else "")
    yield Diagnosis(
        "Trino",
        f"{read}, but not {shown}, because tables in the Spark layout have the property {PROVIDER_PROPERTY}",
        instead="bucket_hash='hive' or 'hive2' for tables that Trino should read as bucketed",
    )
