"""Manage the staging table that contains the new rows of partitions; see docs/explanation/replacing-rows.md.

The dbt macros use the same table name and the same properties. Therefore, dbt and this command can complete each
other's interrupted runs. CREATE TABLE AS SELECT creates the staging table. After the client has compared the row
counts, it sets a table property that identifies the target table. If a staging table has this property, the next run
overwrites the partitions from it. Otherwise, the next run drops the staging table.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from spark_bucketing.errors import SparkError, TableError
from spark_bucketing.table import sql
from spark_bucketing.table.metadata import describe_table
from spark_bucketing.table.model import Table
from spark_bucketing.table.warehouse import Warehouse

PURPOSE, REPLACES, EMPTIES = "bucketing.staging", "bucketing.replaces", "bucketing.staging_empties"
# The staged rows are unchanged rows of the table. With any other purpose, they are new rows.
SAME_ROWS = "rewrite"
# False in the placeholder row of a partition, which may be its only row.
_IS_ROW = "__dbt_row"
# The metastore's limit on name length.
_LONGEST_NAME = 128

Values = tuple[str | None, ...]


@dataclass(frozen=True)
class Staging:
    """The rows in a staging table, and the partitions that they replace."""

    name: str  # quoted name of the staging table
    rows: str  # SQL that selects them
    filled: frozenset[Values]  # values of the partitions that have rows
    emptied: frozenset[Values]  # values of the partitions to drop
    same_rows: bool  # whether they are unchanged rows of the table


def intermediate_name(table_name: str, role: str) -> str:
    """Return the quoted name of an intermediate table for a table, as the macro intermediate_relation() does.

    Args:
        table_name: the table's qualified name.
        role: `staged`, or `trash` for the table whose directory is deleted by dropping it.
    """
    *schema, name = sql.parts(table_name)
    suffix = f"__dbt_{role}"
    if len(name) + len(suffix) > _LONGEST_NAME:
        name = f"{name[:80]}_{hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()}"
    return ".".join(map(sql.name, (*schema, name + suffix)))


def find_staging(warehouse: Warehouse, table_name: str) -> Table | None:
    """Return the staging table of an interrupted or running statement, or None if there is none.

    Raises:
        TableError: a table with this name exists, but is not a staging table.
    """
    found = describe_table(warehouse, intermediate_name(table_name, "staged"))
    if found and PURPOSE not in found.properties:
        raise TableError(
            f"Table {found.name} has the name of a staging table, but is none.",
            found=f"a table without the property {PURPOSE}",
            expected="a staging table, or an unused name",
            instead="rename or drop the table",
        )
    return found


def stage_rows(warehouse: Warehouse, table: Table, condition: str) -> Staging:
    """Create a staging table that contains the rows selected by a condition on the partition columns."""
    name = intermediate_name(table.name, "staged")
    of = sql.properties({PURPOSE: SAME_ROWS})
    create = (
        f"create table {name} using {'orc' if 'orc' in table.details.get('InputFormat', '').lower() else 'parquet'} "  # noqa: S608
        f"tblproperties {of} as select {sql.names(table.all_columns)} from {sql.table(table.name)} where {condition}"
    )
    try:
        warehouse.change(create)
    except SparkError as error:
        if "LOCATION_ALREADY_EXISTS" not in str(error):
            raise
        _delete_folder(warehouse, table.name)
        warehouse.change(create)
    return _read(warehouse, table, name, {PURPOSE: SAME_ROWS})


def _read(warehouse: Warehouse, table: Table, name: str, properties: Mapping[str, str]) -> Staging:
    keys = [f"cast({sql.name(column.name)} as string)" for column in table.columns]
    empties = properties.get(EMPTIES) == "true"
    is_row = sql.name(_IS_ROW) if empties else "true"
    found: dict[bool, set[Values]] = {True: set(), False: set()}
    for row in warehouse.rows(
        f"select distinct to_json(array({', '.join(keys)})) as place, {is_row} as is_row from {name}"  # noqa: S608
    ):
        found[row["is_row"]].add(tuple(json.loads(row["place"])))
    return Staging(
        name,
        f"(select * from {name} where {is_row})",  # noqa: S608
        frozenset(found[True]),
        frozenset(found[False] - found[True]),
        properties.get(PURPOSE) == SAME_ROWS,
    )


def _delete_folder(warehouse: Warehouse, table_name: str) -> None:
    """Delete the directory of a staging table, which remains if a crash interrupts DROP TABLE.

    SQL has no statement that deletes a directory, but DROP TABLE deletes the directory of a managed table, wherever it
    is. A second table removes the empty directory in which the first table was created.
    """
    *schema, name = sql.parts(intermediate_name(table_name, "staged"))
    described = warehouse.rows(f"describe schema {'.'.join(map(sql.name, schema))}")
    # DESCRIBE returns the location of a table as a path, and of a schema as a URI.
    place = next(unquote(row["info_value"]) for row in described if row["info_name"] == "Location")
    trash = intermediate_name(table_name, "trash")
    create = f"create table {trash} (nothing string) stored as textfile"
    folder = sql.text(f"{place.rstrip('/')}/{name.lower()}")
    for statement in (
        f"drop table if exists {trash}",
        create,
        f"alter table {trash} set location {folder}",
        f"drop table {trash}",
        create,
        f"drop table {trash}",
    ):
        warehouse.change(statement)


def complete(warehouse: Warehouse, table: Table, name: str) -> None:
    """Mark a staging table as complete.

    After an interruption, the next run then continues from it.
    """
    warehouse.change(f"alter table {name} set tblproperties {sql.properties({REPLACES: _replaced(warehouse, table)})}")


def is_complete(staging: Table) -> bool:
    """Return whether a staging table is marked as complete."""
    return REPLACES in staging.properties


def complete_staging(warehouse: Warehouse, table: Table, left: Table) -> Staging:
    """Return the rows of a complete staging table that an earlier run left.

    Raises:
        TableError: the table was replaced, its columns changed, or the session has another time zone.
    """
    found, expected = left.properties[REPLACES], _replaced(warehouse, table)
    if found != expected:
        raise TableError(
            f"The rows that a crashed run staged for `{table.name}` no longer match the table. Nothing was changed.",
            found=f"rows for {found} in {left.name}",
            expected=f"rows for {expected}",
            instead=f"if the table is complete without these rows, run DROP TABLE {left.name}, which deletes them",
        )
    return _read(warehouse, table, left.name, left.properties)


def _replaced(warehouse: Warehouse, table: Table) -> str:
    """Identify the target of staged rows, in the same way as the macros.

    The value depends on the table, its columns, and the time zone of partition values.
    """
    names = [column.name for column in (*table.all_columns, *table.columns)]
    columns = hashlib.md5(", ".join(names).lower().encode(), usedforsecurity=False).hexdigest()
    by_time = any(column.type == "timestamp" for column in table.columns)
    zone = f" in {warehouse.rows('select current_timezone() as zone')[0]['zone']}" if by_time else ""
    return f"{table.identity} with columns {columns}{zone}"
