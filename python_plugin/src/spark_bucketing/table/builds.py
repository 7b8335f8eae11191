"""Write new rows of partitions into a build of a table, and publish it; see docs/explanation/replacing-rows.md.

The dbt macros use the same name and properties, so this command completes a build that an interrupted dbt run has
published in part.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime

from spark_bucketing.errors import TableError
from spark_bucketing.spec import VERSION_PROPERTY
from spark_bucketing.table import sql
from spark_bucketing.table.metadata import describe_table
from spark_bucketing.table.model import Partition, Table
from spark_bucketing.table.warehouse import Warehouse

# The id of a build, and the table for which a complete build is being published partition by partition.
_BUILD, _REPLACES = "bucketing.build", "bucketing.replaces"
# Properties of a table that apply to new files.
_OF_FILES = ("parquet.", "orc.")
# The metastore's limit on name length.
_LONGEST_NAME = 128


def build_name(table_name: str) -> str:
    """Return the quoted name of a table's build, as the macro intermediate_relation() does.

    Args:
        table_name: qualified name.
    """
    *schema, name = sql.parts(table_name)
    suffix = "__dbt_build"
    if len(name) + len(suffix) > _LONGEST_NAME:
        name = f"{name[:80]}_{hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()}"
    return ".".join(map(sql.name, (*schema, name + suffix)))


def find_build(warehouse: Warehouse, table_name: str) -> Table | None:
    """Return the build of an interrupted or running statement; None if there is none.

    Raises:
        TableError: a table with this name exists, but is not a build.
    """
    found = describe_table(warehouse, build_name(table_name))
    if found and _BUILD not in found.properties:
        raise TableError(
            f"Table {found.name} exists and has no property {_BUILD}. Expected a build or an unused name. "
            "Rename or drop the table."
        )
    return found


def write_build(warehouse: Warehouse, table: Table, partitions: Sequence[Partition], condition: str) -> str:
    """Write the rows that a condition selects into a new build with these partitions, and return its name."""
    name, target = build_name(table.name), sql.table(table.name)
    build = f"build-{datetime.now().strftime('%Y%m%d%H%M%S%f')}"
    kept = {key: value for key, value in table.properties.items() if key.startswith((*_OF_FILES, VERSION_PROPERTY))}
    warehouse.change(
        f"create table {name} like {target} location {sql.text(f'{table.location}/{build}')} "
        f"tblproperties {sql.properties(kept | {_BUILD: build})}"
    )
    specs = " ".join(sql.partition_spec(table.columns, partition) for partition in partitions)
    warehouse.change(f"alter table {name} add {specs}")
    warehouse.change(f"alter table {target} start build in {name}")
    warehouse.change(
        f"insert into table {name} partition ({sql.names(table.columns)}) select {sql.names(table.all_columns)} "  # noqa: S608
        f"from {target} where {condition}"
    )
    return name


def publish_build(warehouse: Warehouse, table: Table, name: str) -> None:
    """Point the table's partitions to the build, and drop the build's table, whose files stay."""
    warehouse.change(f"alter table {sql.table(table.name)} publish build from {name}")
    drop_build(warehouse, name)


def drop_build(warehouse: Warehouse, name: str) -> None:
    """Drop the build's table. Its files stay, because partitions may point to them."""
    warehouse.change(f"drop table if exists {name}")


def clean_builds(warehouse: Warehouse, table: Table) -> int:
    """Delete the directories of earlier builds that no partition points to, and return their number."""
    (found,) = warehouse.change(f"alter table {sql.table(table.name)} clean builds")
    return int(found["deleted"])


def is_half_published(build: Table) -> bool:
    """Return whether a run without the extension may have published some of the build's partitions."""
    return _REPLACES in build.properties


def validate_target(warehouse: Warehouse, table: Table, build: Table) -> None:
    """Check that a build of an earlier run is for this table.

    Raises:
        TableError: the table was replaced, its columns changed, or the session has another time zone.
    """
    found, expected = build.properties[_REPLACES], _replaced(warehouse, table)
    if found != expected:
        raise TableError(
            f"An earlier run crashed while it published partitions of {table.name}, and its build {build.name} no "
            f"longer matches the table. Nothing was changed. Found a build for {found}, expected {expected}. If the "
            f"table has all rows that you need, run DROP TABLE {build.name}."
        )


def _replaced(warehouse: Warehouse, table: Table) -> str:
    """Return the target of a build, as the macros do: table, columns, and the time zone of partition values."""
    names = [column.name for column in (*table.all_columns, *table.columns)]
    columns = hashlib.md5(", ".join(names).lower().encode(), usedforsecurity=False).hexdigest()
    by_time = any(column.type == "timestamp" for column in table.columns)
    zone = f" in {warehouse.rows('select current_timezone() as zone')[0]['zone']}" if by_time else ""
    return f"{table.identity} with columns {columns}{zone}"
