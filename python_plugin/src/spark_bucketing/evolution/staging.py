"""The staging table beside a table, in which rows lie that are to replace those of partitions; see docs/replacing.md.

Its name, its properties and its states are those of the dbt macros, so that each finishes what the other has left:

    (none)        nothing is under way
    incomplete    rows are being written into it: worthless when found
    complete      rows are all there, and verified: they are written over the table's partitions when found
"""

from __future__ import annotations

import hashlib

from spark_bucketing.errors import SparkError, TableError
from spark_bucketing.evolution import sql
from spark_bucketing.evolution.metadata import describe_table
from spark_bucketing.evolution.model import Table
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


def find_staging(warehouse: Warehouse, table_name: str) -> Table | None:
    """The staging table that something has left, or is at work with; None without one.

    Raises:
        TableError: a table of this name exists, and is none.
    """
    found = describe_table(warehouse, beside(table_name, "staged"))
    if found and found.properties.get(STATE) not in (INCOMPLETE, COMPLETE):
        raise TableError(
            f"There is a table {found.name}, and its property {STATE} is {found.properties.get(STATE, 'missing')}. "
            f"Expected {INCOMPLETE} or {COMPLETE}, as on a table into which rows for partitions are written, or that "
            "the name is free: rename or drop the table."
        )
    return found


def is_complete(staging: Table) -> bool:
    """Whether its rows are all there."""
    return staging.properties[STATE] == COMPLETE


def create_staging(warehouse: Warehouse, table: Table) -> str:
    """Create an empty one of the table's own spec, and return its name."""
    name = beside(table.name, "staged")
    kept = {key: value for key, value in table.properties.items() if key.lower().startswith(_OF_FILES)}
    states = {"bucketing_version": "1", STATE: INCOMPLETE, PURPOSE: SAME_ROWS, REPLACES: table.identity}
    create = f"create table {name} like {sql.table(table.name)} tblproperties {sql.properties({**kept, **states})}"
    try:
        warehouse.change(create)
    except SparkError as error:
        if "LOCATION_ALREADY_EXISTS" not in str(error):
            raise
        _delete_folder(warehouse, table.name)
        warehouse.change(create)
    return name


def _delete_folder(warehouse: Warehouse, table_name: str) -> None:
    """Delete the folder of a staging table that a death within DROP TABLE has left.

    SQL deletes no folder, but a managed table's is deleted with it, wherever it is. The second table is for the empty
    folder that the first one was created in.
    """
    *schema, name = sql.parts(beside(table_name, "staged"))
    described = warehouse.rows(f"describe schema {'.'.join(map(sql.name, schema))}")
    place = next(str(row["info_value"]) for row in described if row["info_name"] == "Location")
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


def refuse_unfit(table: Table, staging: Table) -> None:
    """Refuse to write rows over a table that they were not staged for.

    Raises:
        TableError: the table is another one of this name, or has other columns by now.
    """

    def columns(of: Table) -> str:
        return ", ".join(f"{column.name} {column.type}" for column in of.all_columns).lower()

    def keys(of: Table) -> str:
        return ", ".join(column.name for column in of.columns).lower()

    for aspect, found, expected in (
        ("table", staging.properties.get(REPLACES, ""), table.identity),
        ("columns", columns(staging), columns(table)),
        ("partitioned by", keys(staging), keys(table)),
    ):
        if found != expected:
            raise TableError(
                f"An earlier run died while it replaced partitions of {table.name}, and its finished rows in "
                f"{staging.name} no longer fit the table, and nothing was changed: found {aspect} {found}, "
                f"expected {expected}. Drop {staging.name} if the table is complete without it."
            )
