"""Bringing partitions to the table's own spec, one after the other.

What becomes of a partition, in this order; a process may die after each line, and the next run goes on from there:

    create the staging table              its properties say what is to be replaced
    write the partition's rows into it    the old files are read as they always were
    compare rows, buckets and order       nothing has changed so far
    ALTER PARTITION ... NOT CLUSTERED     readers take the files plainly from here on
    SET LOCATION                          the swap: old rows before it, new ones after it
    ALTER PARTITION ... CLUSTERED BY      readers use the new buckets
    bring them to the partition's folder  see relocate.py
    drop the staging table                the next run has nothing to clean up
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from spark_bucketing.errors import BucketingError, TableError
from spark_bucketing.evolution import alter, guards, sql
from spark_bucketing.evolution.evidence import FileEvidence, has_spec, proves
from spark_bucketing.evolution.journal import Journal
from spark_bucketing.evolution.model import Partition, Table, words
from spark_bucketing.evolution.read import read_table
from spark_bucketing.evolution.rows import Listing, list_files, read_evidence
from spark_bucketing.evolution.staging import (
    Staging,
    are_copies,
    create_staging,
    find_staging,
    fingerprint,
    is_away,
    new_staging,
)
from spark_bucketing.evolution.steps import Steps
from spark_bucketing.evolution.warehouse import StoredFile, Warehouse
from spark_bucketing.spec import BucketSpec


@dataclass(frozen=True)
class Task:
    """What is to be done with a partition.

    Args:
        partition: it.
        files: its files.
        proven: they are the table's spec already, so that a record is all that is missing.
    """

    partition: Partition
    files: tuple[StoredFile, ...]
    proven: bool


@dataclass(frozen=True)
class Plan:
    """A rewrite: what is to be done, and the partitions that have the table's spec already, which was verified."""

    table: Table
    tasks: tuple[Task, ...]
    done: tuple[Partition, ...]


def target_of(table: Table) -> BucketSpec:
    """The spec that partitions are brought to.

    Raises:
        TableError: the table has no buckets, or none that Spark can write, or its rows may not all be read.
    """
    if table.spec is None:
        raise TableError(
            f"Table {table.name} has no buckets now (it is NOT CLUSTERED), so that there is no spec to bring its "
            "partitions to. "
            f"Expected a bucketed table: ALTER TABLE {table.name} CLUSTERED BY (...) INTO n BUCKETS first."
        )
    if table.hash_version != "1":
        raise TableError(
            f"Table {table.name} has bucketing_version {table.hash_version}, and nothing was changed. Expected 1, the "
            "only version whose hash Spark computes: leave its buckets to the engine that made it, or write the rows "
            "into a table of version 1."
        )
    if table.lenient:
        off = ", ".join(f"{sql.text(option.partition('=')[0])} = 'false'" for option in table.lenient)
        raise TableError(
            f"Table {table.name} is read with its option {', '.join(table.lenient)}, which leaves out what cannot be "
            "read: it would be deleted with the old files, and nothing was changed. Expected a table without: "
            f"ALTER TABLE {table.name} SET SERDEPROPERTIES ({off})"
        )
    return table.spec


def plan_rewrite(warehouse: Warehouse, table: Table, chosen: Sequence[Partition]) -> Plan:
    """Look at the rows of those partitions whose files may have the table's spec already.

    Raises:
        TableError: the table has no buckets.
    """
    target = target_of(table)
    listing = list_files(warehouse, chosen)
    evidence = read_evidence(warehouse, table, _named_alike(chosen, listing, target), listing, [target])
    tasks, done = [], []
    for partition in chosen:
        files = evidence.get(partition.name)
        # A partition that is not in its own folder is written anew, which brings it there.
        proven = not is_away(partition) and files is not None and has_spec(target, files)
        if proven and partition.has(target):
            done.append(partition)
        else:
            tasks.append(Task(partition, listing[partition.name], proven))
    return Plan(table, tuple(tasks), tuple(done))


def _named_alike(chosen: Sequence[Partition], listing: Listing, target: BucketSpec) -> list[Partition]:
    def names(partition: Partition) -> list[FileEvidence]:
        return [FileEvidence(file.name, 0) for file in listing[partition.name]]

    return [partition for partition in chosen if proves(target, names(partition))]


class Rewriter(Steps):
    """Brings partitions of a table to its spec."""

    @property
    def target(self) -> BucketSpec:
        """The spec that partitions are brought to."""
        return target_of(self.table)

    def run(self, task: Task) -> bool:
        """Do what is to be done with a partition.

        Returns:
            Whether it is in its own folder.

        Raises:
            BucketingError: it could not be done; the partition is as it was, or the next run completes it.
        """
        partition = task.partition
        guards.refuse_changed(self.warehouse, self.table, partition, task.files)
        if task.proven:
            self._record(partition, self.target)
            return True
        guards.refuse_shared(self.warehouse, self.table, partition)
        guards.refuse_occupied(self.warehouse, self.table, partition, task.files)
        staging = new_staging(self.warehouse, self.table, partition, task.files, self.target)
        create_staging(self.warehouse, self.table, staging)
        journal = Journal(self.warehouse, staging)
        try:
            journal.replaces(task.files)
            folder, written = self._copy(partition, staging)
            journal.wrote(folder, written)
            guards.refuse_changes(self.warehouse, self.table, partition, staging)
        except BaseException:
            # Nothing refers to the new files yet.
            with suppress(BucketingError):
                self._abandon(partition, staging)
            raise
        return self._swap(task, staging, folder, written)

    def _copy(self, partition: Partition, staging: Staging) -> tuple[str, Sequence[StoredFile]]:
        """Write the partition's rows into the staging table, and compare them.

        Returns:
            The folder with the files, and the files.
        """
        warehouse, table = self.warehouse, self.table
        spec = sql.partition_spec(table.columns, partition)
        condition = sql.partition_filter(table.columns, partition)
        guards.refuse_other_files(warehouse, table, partition, condition)
        keys = {column.name.lower() for column in table.columns}
        names = [name for name in warehouse.frame(sql.table(table.name)).columns if name.lower() not in keys]
        rows = f"select {sql.names(names)} from {sql.table(table.name)} where {condition}"  # noqa: S608
        warehouse.change(f"insert overwrite table {staging.table} {spec} {rows}")
        new = self._staged(staging)
        listing = list_files(warehouse, new.partitions)
        evidence = read_evidence(warehouse, new, new.partitions, listing, [self.target])
        files = evidence[new.partitions[0].name]
        before = warehouse.frame(sql.table(table.name)).where(condition).count()
        after = sum(file.rows for file in files)
        if before != after or not has_spec(self.target, files):
            raise TableError(
                f"Partition {partition.name} of {table.name} was not replaced: {before:,} rows were read and "
                f"{after:,} written, {'in' if has_spec(self.target, files) else 'not in'} {words(self.target)}. "
                "Expected "
                "the same rows in these buckets: was the table written to meanwhile? Run the command again."
            )
        folder = new.partitions[0].location
        return folder, listing[new.partitions[0].name]

    def _staged(self, staging: Staging) -> Table:
        """The staging table with the one partition that was written."""
        staged = read_table(self.warehouse, staging.table)
        if len(staged.partitions) != 1:
            raise TableError(
                f"Partition {staging.partition} of {self.table.name} was not replaced: its staging table "
                f"{staging.table} has {len(staged.partitions)} partitions, expected one. Does another rewrite of the "
                "table run? Wait for its end."
            )
        self.warehouse.make_folder(staged.partitions[0].location)
        return staged

    def _swap(self, task: Task, staging: Staging, folder: str, written: Sequence[StoredFile]) -> bool:
        warehouse, table, partition = self.warehouse, self.table, task.partition
        self._record(partition, None)
        guards.refuse_moved(warehouse, table, partition, staging.replaces)
        if fingerprint(warehouse.files(folder)) != fingerprint(written):
            self._give_up(partition, staging, f"its new files in {folder} were changed by something else")
        alter.set_location(warehouse, table, partition, folder)
        new, old = warehouse.files(folder) or (), warehouse.files(staging.replaces) or ()
        # Not a writer that has found the new folder since: what it has deleted is to be gone.
        if not are_copies(written, new) and find_staging(warehouse, table) != staging:
            self._undo(partition, staging, f"its new files in {folder} were deleted by another rewrite")
        if set(old) != set(task.files) and fingerprint(new) == fingerprint(written):
            self._undo(partition, staging, f"something changed the files in {staging.replaces} in the last moment")
        spec = staging.target if fingerprint(new) == fingerprint(written) else None
        return self._complete(partition, staging, folder, spec)

    def _undo(self, partition: Partition, staging: Staging, found: str) -> NoReturn:
        """Swap back, since the old folder has all rows and the new one has not."""
        alter.set_location(self.warehouse, self.table, partition, staging.replaces)
        self._give_up(partition, staging, found)

    def _give_up(self, partition: Partition, staging: Staging, found: str) -> NoReturn:
        """The partition lies in its old folder, and its record was taken away."""
        self._restore(partition, staging)
        raise TableError(
            f"Partition {partition.name} of {self.table.name} was not replaced: {found}. Expected no writer of the "
            "partition, and no other rewrite of the table: run the command again when they have ended."
        )
