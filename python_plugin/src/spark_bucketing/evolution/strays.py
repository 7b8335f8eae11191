"""What statements leave behind that have begun before a rewrite of their partition ended, and end after it.

A rewrite makes a hidden folder the partition's location for a while. A statement that has read the location then, and
comes to its end when the partition is in its own folder again, brings files to the hidden folder, or the partition's
location back to it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from spark_bucketing.evolution import alter, sql
from spark_bucketing.evolution.commands import rewriting_one
from spark_bucketing.evolution.locations import is_within, parent, path, plain
from spark_bucketing.evolution.model import Table
from spark_bucketing.evolution.staging import FOLDER, Staging, hidden_of, home_of, is_away, table_folder
from spark_bucketing.evolution.verify import Finding
from spark_bucketing.evolution.warehouse import StoredFile, Warehouse

# Which of these it is, files cannot tell.
COMPARE = (
    "Their rows may be missing in the table, or be copies of rows that it has, or of another table: somebody has to "
    "compare them before any are INSERTed, or the folder is deleted"
)


@dataclass(frozen=True)
class Stray:
    """Files that are no partition's.

    Args:
        folder: hidden, of a rewrite that has ended.
        home: folder of the partition that was rewritten.
        files: names of the files.
    """

    folder: str
    home: str
    files: tuple[str, ...]


def find_strays(warehouse: Warehouse, table: Table, unfinished: Staging | None) -> list[Stray]:
    """Files in hidden folders of rewrites that have ended, which are no partition's; with one call.

    Other tables may have partitions, and rewrites, beside those of this one. So a folder counts that was made for a
    partition of this table, or for a folder within the table's own, whose partition was dropped or renamed.

    Args:
        warehouse: with an open session.
        table: with all its partitions.
        unfinished: a rewrite that has not ended, whose folders are left out.
    """
    homes = {path(home_of(partition.location)) for partition in table.partitions}
    parents = dict.fromkeys(parent(home_of(partition.location)) for partition in table.partitions)
    used = {path(partition.location) for partition in table.partitions}
    busy = [path(place) for place in (unfinished.folder, unfinished.replaces)] if unfinished else []
    found: dict[str, list[str]] = {}
    for folder, name in warehouse.left_behind([above for above in parents if above], FOLDER):
        place = path(folder)
        ours = home_of(folder) != folder
        if ours and place not in used and not any(is_within(place, other) for other in busy):
            found.setdefault(folder, []).append(name)
    strays = [Stray(folder, home_of(folder), tuple(names)) for folder, names in found.items()]
    others = [stray for stray in strays if path(stray.home) not in homes]
    own = path(table_folder(warehouse, table)) if others else ""
    return [stray for stray in strays if stray not in others or (own and is_within(path(stray.home), own))]


def find_lost(warehouse: Warehouse, table: Table) -> dict[str, tuple[StoredFile, ...]]:
    """Of partitions whose location is a hidden folder that is gone as a whole: the files in their own folders, by name.

    A rewrite deletes it as a whole in the end. One that is there, with no folder of the partition in it, is that of a
    partition whose rows were overwritten by none: what is in the partition's own folder is older.
    """
    used = {plain(partition.location) for partition in table.partitions}
    found = {}
    for partition in filter(is_away, table.partitions):
        home = home_of(partition.location)
        if warehouse.files(hidden_of(partition.location)) is None and plain(home) not in used:
            found[partition.name] = warehouse.files(home) or ()
    return {name: files for name, files in found.items() if files}


def bring_back(warehouse: Warehouse, table: Table, lost: Collection[str]) -> None:
    """Let partitions be what is in their own folders, without buckets until their rows have been looked at.

    Args:
        warehouse: with an open session.
        table: with all its partitions.
        lost: what `find_lost` has found.
    """
    for partition in table.partitions:
        if partition.name in lost:
            alter.record(warehouse, table, partition, None)
            alter.set_location(warehouse, table, partition, home_of(partition.location))


def check_strays(warehouse: Warehouse, table: Table, unfinished: Staging | None) -> Iterator[Finding]:
    """Partitions that are not in their own folders, and files that are no partition's.

    What a rewrite uses that has not ended is left out.

    Args:
        warehouse: with an open session.
        table: with all its partitions.
        unfinished: that rewrite.
    """
    lost = find_lost(warehouse, table)
    for partition in table.partitions:
        home = home_of(partition.location)
        if not is_away(partition) or (unfinished and unfinished.partition == partition.name):
            continue
        found = f"its location is {partition.location}, a hidden folder of a rewrite"
        if partition.name in lost:
            found += f", and that is not there, while {home} holds {lost[partition.name][0].name}"
        yield Finding(partition.name, found, f"its own folder, {home}", rewriting_one(table, partition.name))
    for stray in find_strays(warehouse, table, unfinished):
        yield Finding(table.name, said(stray), f"none there. {COMPARE}", look(table, stray))


def said(stray: Stray) -> str:
    """What there is, in words."""
    more = f" and {len(stray.files) - 1:,} more" if len(stray.files) > 1 else ""
    return (
        f"{stray.files[0]}{more} in {stray.folder}, a hidden folder of a rewrite in which no partition of the table "
        f"lies; it was made for the one in {stray.home}"
    )


def look(table: Table, stray: Stray) -> str:
    """A statement that shows the rows."""
    return sql.files_of(stray.folder, table.file_format)
