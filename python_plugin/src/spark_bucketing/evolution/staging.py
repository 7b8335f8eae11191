"""The staging table beside a table, in which rows lie that are to replace those of partitions; see docs/replacing.md.

Its name, its properties and its states are those of the dbt macros, so that each finishes what the other has left:

    (none)        nothing is under way
    incomplete    rows are being written into it: worthless when found
    complete      rows are all there, and verified: they are written over the table's partitions when found
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spark_bucketing.errors import SparkError, TableError
from spark_bucketing.evolution import sql
from spark_bucketing.evolution.model import Column, Table
from spark_bucketing.evolution.read import properties_of, read_head
from spark_bucketing.evolution.warehouse import Warehouse

STATE, PURPOSE, REPLACES = "bucketing.staging", "bucketing.staging_for", "bucketing.replaces"
EMPTIES = "bucketing.staging_empties"
INCOMPLETE, COMPLETE = "incomplete", "complete"
# Rows of the table itself, as the command stages them; any other purpose is new content.
SAME_ROWS = "rewrite"
# What the metastore takes as a name.
_LONGEST_NAME = 128
# Properties of a table of the Hive layout by which its files are written, such as parquet.compression.
_OF_FILES = ("parquet.", "orc.")


@dataclass(frozen=True)
class Staging:
    """A staging table that was found.

    Args:
        name: qualified and quoted.
        complete: its rows are all there.
        same_rows: they are the rows that the partitions had.
        replaces: identity of the table whose partitions they are for.
        empties: its partitions without rows are to be dropped from the table.
        names: of its columns.
        types: of its columns.
        columns: its partition columns.
    """

    name: str
    complete: bool
    same_rows: bool
    replaces: str
    empties: bool
    names: tuple[str, ...]
    types: tuple[str, ...]
    columns: tuple[Column, ...]


def beside(table_name: str, role: str) -> str:
    """Name of a table beside a table, quoted, as the macro sibling() makes it.

    Args:
        table_name: qualified.
        role: `staged`, or `trash`, which owns a folder that is to be deleted.
    """
    *schema, name = sql.parts(table_name)
    suffix = f"__dbt_{role}"
    if len(name) + len(suffix) > _LONGEST_NAME:
        name = f"{name[:80]}_{hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()}"
    return ".".join(map(sql.name, (*schema, name + suffix)))


def find_staging(warehouse: Warehouse, table_name: str) -> Staging | None:
    """The staging table that something has left, or is at work with; None without one.

    Raises:
        TableError: a table of this name exists, and is none.
    """
    name = beside(table_name, "staged")
    if not warehouse.exists(name):
        return None
    found = properties_of(warehouse, name)
    if found.get(STATE) not in (INCOMPLETE, COMPLETE):
        raise TableError(
            f"There is a table {name}, and its property {STATE} is {found.get(STATE, 'missing')}. Expected "
            f"{INCOMPLETE} or {COMPLETE}, as on a table into which rows for partitions are written, or that the name "
            "is free: rename or drop the table."
        )
    head = read_head(warehouse, name)
    return Staging(
        name,
        complete=found[STATE] == COMPLETE,
        same_rows=found.get(PURPOSE) == SAME_ROWS,
        replaces=found.get(REPLACES, ""),
        empties=found.get(EMPTIES) == "true",
        names=head.names,
        types=head.types,
        columns=head.columns,
    )


def create_staging(warehouse: Warehouse, table: Table) -> str:
    """Create an empty one of the table's own spec, and return its name."""
    name = beside(table.name, "staged")
    kept = {
        key: value for key, value in properties_of(warehouse, table.name).items() if key.lower().startswith(_OF_FILES)
    }
    states = {STATE: INCOMPLETE, PURPOSE: SAME_ROWS, REPLACES: table.identity}
    create = f"create table {name} like {sql.table(table.name)} tblproperties {_list({**kept, **_VERSION, **states})}"
    try:
        warehouse.change(create)
    except SparkError as error:
        if "LOCATION_ALREADY_EXISTS" not in str(error):
            raise
        _delete_folder(warehouse, table.name)
        warehouse.change(create)
    return name


_VERSION = {"bucketing_version": "1"}


def _delete_folder(warehouse: Warehouse, table_name: str) -> None:
    """Delete the folder of a staging table that a death within DROP TABLE has left.

    SQL deletes no folder, but a managed table's is deleted with it, wherever it is. The second table is for the empty
    folder that the first one was created in.
    """
    *schema, name = sql.parts(beside(table_name, "staged"))
    described = warehouse.rows(f"describe schema {'.'.join(map(sql.name, schema))}")
    place = next(str(row["info_value"]) for row in described if row["info_name"] == "Location")
    trash = beside(table_name, "trash")
    warehouse.change(f"drop table if exists {trash}")
    create = f"create table {trash} (nothing string) stored as textfile"
    warehouse.change(create)
    folder = f"{place.rstrip('/')}/{name.lower()}"
    warehouse.change(f"alter table {trash} set location {sql.text(folder)}")
    warehouse.change(f"drop table {trash}")
    warehouse.change(create)
    warehouse.change(f"drop table {trash}")


def declare_complete(warehouse: Warehouse, name: str) -> None:
    """Say that its rows are all there: from here on they are finished, not dropped."""
    warehouse.change(f"alter table {name} set tblproperties {_list({STATE: COMPLETE})}")


def drop_staging(warehouse: Warehouse, name: str) -> None:
    """Drop it with its files."""
    warehouse.change(f"drop table if exists {name}")


def refuse_unfit(table: Table, staging: Staging) -> None:
    """Refuse to write rows over a table that they were not staged for.

    Raises:
        TableError: the table is another one of this name, or has other columns by now.
    """
    expected = {
        "table": table.identity,
        "columns": _words(table.names, table.types),
        "partitioned by": ", ".join(column.name for column in table.columns).lower(),
    }
    found = {
        "table": staging.replaces,
        "columns": _words(staging.names, staging.types),
        "partitioned by": ", ".join(column.name for column in staging.columns).lower(),
    }
    for aspect, value in expected.items():
        if found[aspect] != value:
            raise TableError(
                f"An earlier run died while it replaced partitions of {table.name}, and its finished rows in "
                f"{staging.name} no longer fit the table, and nothing was changed: found {aspect} {found[aspect]}, "
                f"expected {value}. Drop {staging.name} if the table is complete without it."
            )


def _words(names: Sequence[str], types: Sequence[str]) -> str:
    return ", ".join(f"{name} {kind}" for name, kind in zip(names, types, strict=True)).lower()


def _list(properties: Mapping[str, str]) -> str:
    return f"({', '.join(f'{sql.text(key)} = {sql.text(value)}' for key, value in properties.items())})"
