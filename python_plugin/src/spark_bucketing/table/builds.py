"""Write new rows of partitions to a build of a table, and publish it; see docs/explanation/replacing-rows.md.

The dbt macros use the same names. Therefore, dbt and this command recover each other's builds after a crash.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import datetime

from spark_bucketing.spec import VERSION_PROPERTY
from spark_bucketing.table import sql
from spark_bucketing.table.metadata import describe_table
from spark_bucketing.table.model import Partition, Table
from spark_bucketing.table.warehouse import Warehouse

# The property with the id of a build, which is also the name of its directory.
_BUILD = "bucketing.build"
# Properties of a table that apply to new files.
_OF_FILES = ("parquet.", "orc.")
# The metastore's limit on name length.
_LONGEST_NAME = 128


def intermediate_name(table_name: str, role: str) -> str:
    """Return the quoted name of an intermediate table for a table, as the macro intermediate_relation() does.

    Args:
        table_name: the table's qualified name.
        role: `build` or `merged`.
    """
    *schema, name = sql.parts(table_name)
    suffix = f"__dbt_{role}"
    if len(name) + len(suffix) > _LONGEST_NAME:
        name = f"{name[:80]}_{hashlib.md5(name.encode(), usedforsecurity=False).hexdigest()}"
    return ".".join(map(sql.name, (*schema, name + suffix)))


def find_builds(warehouse: Warehouse, table_name: str) -> list[str]:
    """Return the quoted names of builds that an interrupted or running statement has left."""
    names = [intermediate_name(table_name, role) for role in ("build", "merged")]
    return [name for name in names if describe_table(warehouse, name)]


def recover_build(warehouse: Warehouse, table: Table, name: str) -> None:
    """Complete the publication of a build, or delete the build if its publication has not begun."""
    warehouse.change(f"alter table {sql.table(table.name)} recover build from {name}")


def write_build(warehouse: Warehouse, table: Table, partitions: Sequence[Partition], condition: str) -> tuple[str, str]:
    """Write the rows that a condition selects to a new build with these partitions.

    Returns:
        The quoted name of the build, and its id.
    """
    name, target = intermediate_name(table.name, "build"), sql.table(table.name)
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
    return name, build


def drop_partitions(warehouse: Warehouse, table: Table, name: str, partitions: Sequence[Partition]) -> None:
    """Drop partitions of a build, which its publication then does not replace."""
    specs = ", ".join(sql.partition_spec(table.columns, partition) for partition in partitions)
    warehouse.change(f"alter table {name} drop {specs}")


def publish_build(warehouse: Warehouse, table: Table, name: str, build_id: str) -> None:
    """Point the table's partitions to a build, and drop the build's table.

    Fails if another run has since created a build of the same name.
    """
    warehouse.change(f"alter table {sql.table(table.name)} publish build from {name} id {sql.text(build_id)}")
