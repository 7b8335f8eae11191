"""What has to hold before anything is replaced or deleted."""

from __future__ import annotations

from collections.abc import Sequence

from spark_bucketing.errors import SparkError, TableError
from spark_bucketing.evolution import sql
from spark_bucketing.evolution.locations import address, is_within, plain
from spark_bucketing.evolution.model import Partition, Table, words
from spark_bucketing.evolution.read import current_spec
from spark_bucketing.evolution.staging import (
    Staging,
    are_copies,
    find_staging,
    fingerprint,
    home_of,
    is_away,
    table_folder,
)
from spark_bucketing.evolution.warehouse import StoredFile, Warehouse


def location_of(warehouse: Warehouse, table: Table, partition: Partition) -> str:
    """Where a partition lies now.

    Raises:
        TableError: Spark does not find it.
    """
    place = sql.partition_spec(table.columns, partition)
    try:
        rows = warehouse.rows(f"describe table extended {sql.table(table.name)} {place}")
    except SparkError as error:
        if "PARTITIONS_NOT_FOUND" not in str(error):
            raise
        raise TableError(
            f"Partition {partition.name} of {table.name} cannot be found: there is no {place} as Spark spells these "
            "values. It was dropped meanwhile, or another engine has written its values in another form; expected a "
            "partition that ALTER TABLE ... PARTITION can name. Leave it out with --where."
        ) from error
    # The table's columns come first, and one of them may be called so.
    titles = [row["col_name"] for row in rows]
    details = rows[titles.index("# Detailed Partition Information") :]
    return next((str(row["data_type"]) for row in details if row["col_name"] == "Location"), "")


def is_used(warehouse: Warehouse, table: Table, partition: Partition | None, folder: str) -> bool:
    """Whether this partition lies in this folder now, or another one when the table was read, or the table itself."""
    used = [found.location for found in table.partitions if not partition or found.name != partition.name]
    used += [location_of(warehouse, table, partition)] if partition else []
    return any(is_within(plain(place), plain(folder)) for place in (*used, table_folder(warehouse, table)))


def refuse_shared(warehouse: Warehouse, table: Table, partition: Partition) -> None:
    """Refuse a partition whose folder cannot be replaced as a whole.

    Raises:
        TableError: it holds other things than the partition's own files.
    """
    own = plain(partition.location)
    others = {found.name: plain(found.location) for found in table.partitions if found.name != partition.name}
    shared = next((name for name, folder in others.items() if is_within(folder, own)), None)
    if shared or is_within(plain(table_folder(warehouse, table)), own):
        what = f"the folder of partition {shared}" if shared else "the table's own folder"
        raise _refused(table, partition, f"{partition.location} is also {what}, or above it", "a folder of its own")
    inside = warehouse.folders(partition.location)
    if inside:
        raise _refused(table, partition, f"a folder {inside[0]} in {partition.location}", "files only")


def refuse_occupied(warehouse: Warehouse, table: Table, partition: Partition, files: Sequence[StoredFile]) -> None:
    """Refuse a partition that a rewrite has left in a hidden folder, and that cannot go back to its own.

    Raises:
        TableError: that one holds files that are not the partition's.
    """
    home = home_of(partition.location)
    others = [file for file in warehouse.files(home) or () if not are_copies([file], files)]
    if is_away(partition) and others:
        found = f"it lies in {partition.location}, and its own folder {home} holds files of others: {others[0].name}"
        raise _refused(
            table, partition, found, "nothing there: look whether rows are missing in the table, and move them away"
        )


def refuse_moved(warehouse: Warehouse, table: Table, partition: Partition, folder: str) -> None:
    """Refuse to go on with a partition whose location another statement has changed.

    Raises:
        TableError: it lies elsewhere.
    """
    location = location_of(warehouse, table, partition)
    if plain(location) != plain(folder):
        raise TableError(
            f"The location of partition {partition.name} of {table.name} was changed to {location} by another "
            f"statement, such as ANALYZE TABLE or SET LOCATION, after the rewrite had found or set it to be {folder}. "
            "Expected nothing else that alters the partition meanwhile: wait for its end, and run the command again."
        )


def refuse_altered(warehouse: Warehouse, table: Table) -> None:
    """Refuse to go on when the table has another spec than at the start.

    Raises:
        TableError: it has.
    """
    spec = current_spec(warehouse, table.name)
    if spec != table.spec:
        raise TableError(
            f"The spec of {table.name} was changed from {words(table.spec)} to {words(spec)} while its partitions "
            "were rewritten. Expected one spec for all of them: run the command again for those that are left."
        )


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
    location = location_of(warehouse, table, partition)
    if plain(location) != plain(staging.replaces):
        raise _refused(table, partition, f"its location is {location} now", f"{staging.replaces}, as at the start")
    if fingerprint(warehouse.files(staging.replaces)) != staging.files:
        raise _refused(table, partition, "its files were changed while they were copied", "no writer of this partition")
    refuse_loss_of_ownership(warehouse, table, staging)


def refuse_owned(table: Table, staging: Staging, take_over: bool) -> None:
    """Refuse to go on with what a process has begun that may still be at work.

    Raises:
        TableError: it is, or that cannot be told.
    """
    dead = True if take_over else staging.owner.is_dead()
    if dead is False:
        raise TableError(
            f"Process {staging.owner.pid} on this machine is rewriting {table.name}, and nothing was changed. Expected "
            "one rewrite of a table at a time: wait for its end."
        )
    if dead is None:
        raise TableError(
            f"A rewrite of {table.name} was begun by process {staging.owner.pid} on {staging.owner.place.split()[0]} "
            "and has not ended, and nothing was changed: whether it is still at work cannot be told from here. "
            "Expected one rewrite of a table at a time: when it has died, add --take-over, which completes or undoes "
            "it."
        )


def refuse_other_table(warehouse: Warehouse, table: Table, staging: Staging) -> None:
    """Refuse to go on with what was begun for another table of this name.

    Raises:
        TableError: the table lies in another folder.
    """
    folder = table_folder(warehouse, table)
    if plain(folder) != plain(staging.origin):
        raise TableError(
            f"A rewrite was begun for partition {staging.partition} of a table {table.name} in {staging.origin}, and "
            f"has not ended; this table lies in {folder}, and nothing was changed. Expected the same table: give it "
            f"its name or its location back for a rewrite, or drop {staging.table} when no partition of it lies in "
            f"{staging.folder}."
        )


def refuse_loss_of_ownership(warehouse: Warehouse, table: Table, staging: Staging) -> None:
    """Refuse to go on when another process has taken this one for dead.

    Raises:
        TableError: it has.
    """
    if find_staging(warehouse, table) != staging:
        raise TableError(
            f"Another rewrite of {table.name} has taken over partition {staging.partition}, and completes it. Expected "
            "one at a time: wait for its end, and run the command again for what is left."
        )


def refuse_changed(warehouse: Warehouse, table: Table, partition: Partition, files: Sequence[StoredFile]) -> None:
    """Refuse a partition whose files are not those any more that were looked at.

    Raises:
        TableError: they were changed, or it lies in another folder.
    """
    now = warehouse.files(location_of(warehouse, table, partition))
    if fingerprint(now) != fingerprint(files):
        raise _refused(table, partition, "its files were changed since they were looked at", "no writer of it")


def _refused(table: Table, partition: Partition, found: str, expected: str) -> TableError:
    return TableError(
        f"Partition {partition.name} of {table.name} was not replaced, and is as it was: found {found}; expected "
        f"{expected}. "
        "Run the command again when that is so, or leave the partition out with --where."
    )
