"""The staging table with the rows that replace those of partitions; see docs/explanation/replacing-rows.md.

Its name and its properties are those of the dbt macros, so that each finishes what the other has left. It is a plain
table, made by CREATE TABLE AS SELECT. When its client has seen it made, and counted its rows, it says what they
replace: one that says so is written over the table's partitions when it is found, another one is dropped.
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
# Rows of the table itself, as the command stages them; any other purpose is new content.
SAME_ROWS = "rewrite"
# False in the row that stands for a partition, which may be left without any other.
_IS_ROW = "__dbt_row"
# What the metastore takes as a name.
_LONGEST_NAME = 128

Values = tuple[str | None, ...]


@dataclass(frozen=True)
class Staging:
    """Staged rows."""

    name: str  # of their table, quoted
    rows: str  # SQL of them
    filled: frozenset[Values]  # values of the partitions that have rows
    emptied: frozenset[Values]  # of those that are to be dropped
    same_rows: bool  # whether they are the table's own, as they were


def beside(table_name: str, role: str) -> str:
    """Name of a table beside a table, quoted, as the macro intermediate_relation() makes it.

    Args:
        table_name: qualified.
        role: `staged`, or `trash`, which owns a folder that is to be deleted.
    """
    *schema, name = sql.parts(table_name)
    suffix = f"__dbt_{role}"
    if len(name) + len(suffix) > _LONGEST_NAME:
        name = f"{name[:80]}_{hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()}"
    return ".".join(map(sql.name, (*schema, name + suffix)))


def find_staging(warehouse: Warehouse, table_name: str) -> Table | None:
    """The staging table that something has left, or is at work with; None without one.

    Raises:
        TableError: a table of this name exists, and is none.
    """
    found = describe_table(warehouse, beside(table_name, "staged"))
    if found and PURPOSE not in found.properties:
        raise TableError(
            f"There is a table {found.name} without the property {PURPOSE}. Expected one into which rows for "
            "partitions were written, or that the name is free: rename or drop the table."
        )
    return found


def stage_rows(warehouse: Warehouse, table: Table, condition: str) -> Staging:
    """Copy rows of a table, which a condition on its partition columns selects, into a new staging table."""
    name = beside(table.name, "staged")
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
    """Delete the folder of a staging table that a crash within DROP TABLE has left.

    SQL deletes no folder, but a managed table's is deleted with it, wherever it is. The second table is for the empty
    folder that the first one was created in.
    """
    *schema, name = sql.parts(beside(table_name, "staged"))
    described = warehouse.rows(f"describe schema {'.'.join(map(sql.name, schema))}")
    # Of tables Spark says the path, of schemas the URI.
    place = next(unquote(row["info_value"]) for row in described if row["info_name"] == "Location")
    trash = beside(table_name, "trash")
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
    """Say on a staging table what its rows replace: from here on, the next run finishes what this one began."""
    warehouse.change(f"alter table {name} set tblproperties {sql.properties({REPLACES: _replaced(warehouse, table)})}")


def is_complete(staging: Table) -> bool:
    """Whether its rows are all there."""
    return REPLACES in staging.properties


def complete_staging(warehouse: Warehouse, table: Table, left: Table) -> Staging:
    """The rows of a complete staging table that an earlier run has left.

    Raises:
        TableError: they are for another table of this name, for other columns, or named by another time zone.
    """
    found, expected = left.properties[REPLACES], _replaced(warehouse, table)
    if found != expected:
        raise TableError(
            f"An earlier run crashed while it replaced partitions of {table.name}, and its finished rows in "
            f"{left.name} no longer fit the table, and nothing was changed: found rows for {found}, "
            f"expected {expected}. If the table is complete without it: DROP TABLE {left.name}. "
            "Rows that only it has are lost then."
        )
    return _read(warehouse, table, left.name, left.properties)


def _replaced(warehouse: Warehouse, table: Table) -> str:
    """What rows are staged for, as the macros say it: the table, its columns, and the zone of times in partitions."""
    names = [column.name for column in (*table.all_columns, *table.columns)]
    columns = hashlib.md5(", ".join(names).lower().encode(), usedforsecurity=False).hexdigest()
    by_time = any(column.type == "timestamp" for column in table.columns)
    zone = f" in {warehouse.rows('select current_timezone() as zone')[0]['zone']}" if by_time else ""
    return f"{table.identity} with columns {columns}{zone}"
