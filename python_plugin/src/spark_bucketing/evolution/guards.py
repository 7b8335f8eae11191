"""What has to hold before anything is replaced or deleted."""

from __future__ import annotations

import re

from spark_bucketing.errors import TableError
from spark_bucketing.evolution import sql
from spark_bucketing.evolution.model import Partition, Table
from spark_bucketing.evolution.staging import Staging, find_staging, fingerprint
from spark_bucketing.evolution.warehouse import Warehouse, address, is_within

_SLASHES = re.compile(r"^([A-Za-z][A-Za-z0-9+.-]*):/(?!/)|^([A-Za-z][A-Za-z0-9+.-]*):///")


def plain(location: str) -> str:
    """A location of the metastore in one spelling: file:/x and file:///x are the same."""
    return _SLASHES.sub(lambda found: f"{found[1] or found[2]}:///", location).rstrip("/")


def is_used(warehouse: Warehouse, table: Table, folder: str) -> bool:
    """Whether a partition lies in this folder now, or the table itself does."""
    rows = warehouse.rows(sql.bucket_specs(table.name))
    used = [row["location"] for row in rows] + [_table_folder(warehouse, table)]
    return any(is_within(plain(location), plain(folder)) for location in used)


def folders_in(warehouse: Warehouse, folder: str) -> list[str]:
    """Names of the folders in a folder, but hidden ones."""
    files = {file.name for file in warehouse.files(folder) or ()}
    return [name for name in warehouse.names(folder) if name not in files and name[0] not in "._"]


def refuse_shared(warehouse: Warehouse, table: Table, partition: Partition) -> None:
    """Refuse a partition whose folder cannot be replaced as a whole.

    Raises:
        TableError: it holds other things than the partition's own files.
    """
    own = plain(partition.location)
    others = {found.name: plain(found.location) for found in table.partitions if found.name != partition.name}
    shared = next((name for name, folder in others.items() if is_within(folder, own)), None)
    if shared or is_within(plain(_table_folder(warehouse, table)), own):
        what = f"the folder of partition {shared}" if shared else "the table's own folder"
        raise _refused(table, partition, f"{partition.location} is also {what}, or above it", "a folder of its own")
    inside = folders_in(warehouse, partition.location)
    if inside:
        raise _refused(table, partition, f"a folder {inside[0]} in {partition.location}", "files only")


def refuse_other_files(warehouse: Warehouse, table: Table, partition: Partition, condition: str) -> None:
    """Refuse a partition whose rows cannot be told from those of another one, such as month=1 and month=01 of an int.

    Raises:
        TableError: the predicate for its values selects other files than its own.
    """
    folder = warehouse.address(partition.location)
    for url in warehouse.frame(sql.table(table.name)).where(condition).inputFiles():
        if address(url).rpartition("/")[0] != folder:
            found = f"rows of {url} where {condition}"
            raise _refused(
                table, partition, found, "rows of its own folder only, so that its value is that of no other"
            )


def refuse_changes(warehouse: Warehouse, table: Table, partition: Partition, staging: Staging) -> None:
    """Refuse a swap after which rows would be missing that something else has written meanwhile.

    Raises:
        TableError: the partition or its files are not what they were when their rows were copied.
    """
    rows = warehouse.rows(
        f"describe table extended {sql.table(table.name)} {sql.partition_spec(table.columns, partition)}"
    )
    location = next((row["data_type"] for row in rows if row["col_name"] == "Location"), "")
    if plain(location) != plain(staging.replaces):
        raise _refused(table, partition, f"its location is {location} now", f"{staging.replaces}, as at the start")
    if fingerprint(warehouse.files(staging.replaces)) != staging.files:
        raise _refused(table, partition, "its files were changed while they were copied", "no writer of this partition")
    if find_staging(warehouse, table) != staging:
        raise _refused(table, partition, "another rewrite of the table has begun", "one at a time")


def _refused(table: Table, partition: Partition, found: str, expected: str) -> TableError:
    return TableError(
        f"Partition {partition.name} of {table.name} was not replaced, and is as it was: found {found}; expected "
        f"{expected}. "
        "Run the command again when that is so, or leave the partition out with --where."
    )


def _table_folder(warehouse: Warehouse, table: Table) -> str:
    rows = warehouse.rows(f"describe table extended {sql.table(table.name)}")
    return next((str(row["data_type"]) for row in rows[::-1] if row["col_name"] == "Location"), "")
