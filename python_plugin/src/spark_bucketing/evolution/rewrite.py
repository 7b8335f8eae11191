"""Bringing partitions to the table's own spec, many in one pass; see docs/replacing.md.

create the staging table                    incomplete: a run that finds it drops it
write the partitions' rows into it
compare rows by partition, and the seals    every bucket one file, in the table's spec
declare it complete                         a run that finds it goes on here
INSERT OVERWRITE the partitions from it
compare rows by partition, and the seals
drop the staging table
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from spark_bucketing.errors import BucketingError, TableError
from spark_bucketing.evolution import sql
from spark_bucketing.evolution.covering import covering
from spark_bucketing.evolution.locations import plain
from spark_bucketing.evolution.model import Partition, RecordState, Table, words
from spark_bucketing.evolution.read import read_partitions
from spark_bucketing.evolution.staging import (
    Staging,
    create_staging,
    declare_complete,
    drop_staging,
    find_staging,
    refuse_unfit,
)
from spark_bucketing.evolution.warehouse import Warehouse
from spark_bucketing.spec import BucketSpec

# Of one staging table: what has to fit twice on the disks, and what a statement names.
_BATCH_BYTES = 100 * 2**30
_BATCH_PARTITIONS = 1000
# Partitions that a message names.
_NAMED = 3


@dataclass(frozen=True)
class Plan:
    """What is to be done.

    Args:
        table: it, with all its partitions.
        todo: partitions that are to be written anew.
        done: those that have the table's spec, and those without files.
        left: those that cannot be overwritten, each with what was found.
    """

    table: Table
    todo: tuple[Partition, ...]
    done: tuple[Partition, ...]
    left: tuple[tuple[Partition, str], ...]

    def batches(self) -> Iterator[tuple[Partition, ...]]:
        """The partitions in parts, each for one staging table."""
        batch: list[Partition] = []
        for partition in self.todo:
            if batch and (total([*batch, partition]) > _BATCH_BYTES or len(batch) >= _BATCH_PARTITIONS):
                yield tuple(batch)
                batch = []
            batch.append(partition)
        if batch:
            yield tuple(batch)


def total(partitions: Sequence[Partition]) -> int:
    """Bytes of all their files."""
    return sum(partition.size for partition in partitions)


def target_of(table: Table) -> BucketSpec:
    """The spec that partitions are brought to.

    Raises:
        TableError: the table has no buckets, or none that Spark can write, or its rows may not all be read.
    """
    if table.spec is None:
        raise TableError(
            f"Table {table.name} has no buckets now (it is NOT CLUSTERED), so that there is no spec to bring its "
            f"partitions to. Expected a bucketed table: ALTER TABLE {table.name} CLUSTERED BY (...) INTO n BUCKETS "
            "first."
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


def plan_rewrite(table: Table, chosen: Sequence[Partition], unclear: frozenset[str] = frozenset()) -> Plan:
    """Sort partitions out by what is to be done with them.

    Args:
        table: theirs.
        chosen: some of its partitions.
        unclear: names of those that no statement can write.

    Raises:
        TableError: the table has no spec to bring them to.
    """
    target = target_of(table)
    done = tuple(part for part in chosen if part.state == RecordState.EMPTY or part.has(target))
    todo, left = [], []
    for part in chosen:
        obstacle = _obstacle(table, part, unclear)
        if part not in done and obstacle:
            left.append((part, obstacle))
        elif part not in done:
            todo.append(part)
    return Plan(table, tuple(todo), done, tuple(left))


def _obstacle(table: Table, part: Partition, unclear: frozenset[str]) -> str:
    """Why an INSERT OVERWRITE would not replace this partition, and nothing else; empty where it would."""
    if part.name in unclear:
        return "Spark spells its values in another way, so that an INSERT would write to another folder"
    own = plain(part.location)
    inside = [other.name for other in table.partitions if other.name != part.name and _is_within(other.location, own)]
    if inside or _is_within(table.location, own):
        return f"its folder is also that of {inside[0] if inside else 'the table'}, or above it"
    return ""


def _is_within(inner: str, outer: str) -> bool:
    return plain(inner) == outer or plain(inner).startswith(f"{outer}/")


class Rewriter:
    """Replaces the rows of partitions by way of a staging table.

    Args:
        warehouse: with an open session.
        table: whose partitions they are.
        tell: is given what there is to say meanwhile.
    """

    def __init__(self, warehouse: Warehouse, table: Table, tell: Callable[[str], None]) -> None:
        self._warehouse, self._table, self._tell = warehouse, table, tell
        self._name = sql.table(table.name)
        self._keys = sql.names([column.name for column in table.columns])

    def run(self, batch: Sequence[Partition]) -> int:
        """Bring partitions to the table's spec, all together.

        Returns:
            How many were replaced: those that have rows.

        Raises:
            BucketingError: it could not be done; what is left is for the next run to finish or to drop.
        """
        staged = create_staging(self._warehouse, self._table)
        try:
            parts = self._stage(staged, batch)
        except BucketingError:
            drop_staging(self._warehouse, staged)
            raise
        declare_complete(self._warehouse, staged)
        self._replace(staged, parts)
        for part in batch:
            if part.name not in {found.name for found in parts}:
                self._tell(
                    f"{part.name} has files and no rows, and is left alone: spark-bucketing seal takes it as it is."
                )
        return len(parts)

    def recover(self) -> bool:
        """Finish or drop what an earlier run of this command, or of dbt, has left.

        Returns:
            Whether partitions were replaced.

        Raises:
            TableError: its rows do not fit the table any more, or something has written to the partitions since.
        """
        staging = find_staging(self._warehouse, self._table.name)
        if staging is None:
            return False
        if not staging.complete:
            self._tell(f"An earlier run died while it wrote {staging.name}: dropping it.")
            drop_staging(self._warehouse, staging.name)
            return False
        refuse_unfit(self._table, staging)
        found = read_partitions(self._warehouse, staging.name)
        filled = self._table.with_partitions([part for part in found if part.state != RecordState.EMPTY]).partitions
        if staging.same_rows:
            self._refuse_newer(staging, filled)
        self._tell(f"An earlier run died while it replaced {named(filled)}: completing it from {staging.name}.")
        emptied = [part for part in found if part.state == RecordState.EMPTY] if staging.empties else []
        self._replace(staging.name, filled, emptied)
        return True

    def _stage(self, staged: str, batch: Sequence[Partition]) -> tuple[Partition, ...]:
        """Copy rows into a new staging table and verify them.

        Returns:
            The partitions with rows.
        """
        condition = self._condition(batch)
        self._warehouse.change(f"refresh table {self._name}")
        self._insert(f"insert into {staged}", f"{self._name} where {condition}")
        parts = self._table.with_partitions(read_partitions(self._warehouse, staged)).partitions
        names = {part.name for part in batch}
        others = [part for part in parts if part.name not in names]
        if others:
            raise TableError(
                f"No partition of {self._table.name} was replaced: the rows of {named(batch)} were staged as "
                f"{named(others)}, too. Expected the same partitions: does something write to the table, or has "
                "another engine spelled these values in another way? Leave them out with --where."
            )
        self._refuse_difference(staged, condition, "No partition was replaced")
        self._refuse_unsealed(staged, parts)
        return parts

    def _replace(self, staged: str, filled: Sequence[Partition], emptied: Sequence[Partition] = ()) -> None:
        """Let Spark write the staged rows over the partitions, look whether it did, and drop the staging table."""
        self._warehouse.change(f"refresh table {self._name}")
        self._insert(f"insert overwrite table {self._name}", staged)
        for part in emptied:
            spec = sql.partition_spec(self._table.columns, part)
            self._warehouse.change(f"alter table {self._name} drop if exists {spec}")
        again = f"The finished rows stay in {staged}, and the next run writes them again"
        self._refuse_difference(staged, self._condition(filled), again)
        drop_staging(self._warehouse, staged)
        names = {part.name for part in filled}
        written = [part for part in read_partitions(self._warehouse, self._table.name) if part.name in names]
        self._refuse_unsealed(self._table.name, written)

    def _condition(self, parts: Sequence[Partition]) -> str:
        """A predicate for the rows of partitions, of which the table may have lost some."""
        names = {part.name for part in parts}
        others = [part for part in self._table.partitions if part.name not in names]
        return covering(self._table.with_partitions([*others, *parts]), parts)

    def _insert(self, head: str, source: str) -> None:
        columns = sql.names(self._table.names)
        self._warehouse.change(f"{head} partition ({self._keys}) select {columns} from {source}")  # noqa: S608

    def _refuse_difference(self, staged: str, condition: str, consequence: str) -> None:
        """Refuse to go on unless each partition has as many rows in the table as in the staging table."""
        different = self._compared(staged, condition, "sum(here) <> sum(there)")
        if different:
            raise TableError(
                f"{consequence}: {different} in the staging table {staged}. Expected the same: was "
                f"{self._table.name} written to meanwhile? Run the command again when that has ended."
            )

    def _refuse_newer(self, staging: Staging, parts: Sequence[Partition]) -> None:
        """Refuse to write over rows that came after the death: the staged ones are all that there was before."""
        newer = self._compared(staging.name, self._condition(parts), "sum(here) not in (0, sum(there))")
        if newer:
            raise TableError(
                f"An earlier run died while it replaced {named(parts)} of {self._table.name}, and something has "
                f"written there since, and nothing was changed: {newer} in the staging table {staging.name}. Expected "
                "the rows that were there before, or none: see to it that the table has all rows, and drop "
                f"{staging.name}."
            )

    def _compared(self, staged: str, condition: str, having: str) -> str:
        """Partitions whose numbers of rows differ, in words; empty when none does."""
        self._warehouse.change(f"refresh table {self._name}")
        counted = (
            f"select {self._keys}, count(*) as here, 0 as there from {self._name} where {condition} "  # noqa: S608
            f"group by {self._keys} union all select {self._keys}, 0, count(*) from {staged} group by {self._keys}"
        )
        found = self._warehouse.rows(
            f"select to_json(struct({self._keys})) as place, sum(here) as here, sum(there) as there "  # noqa: S608
            f"from ({counted}) group by {self._keys} having {having} limit {_NAMED}"
        )
        return "; ".join(f"{row['place']} has {row['here']:,} rows, and {row['there']:,}" for row in found)

    def _refuse_unsealed(self, name: str, parts: Sequence[Partition]) -> None:
        """Refuse files that are not sealed as the buckets of the table's spec, one for each."""
        target = target_of(self._table)
        bad = [part for part in parts if not part.has(target)]
        if bad:
            most = bad[0].files_per_bucket
            found = f"[{bad[0].state}] {bad[0].problem or words(bad[0].spec)}, at most {most} files of a bucket"
            raise TableError(
                f"{named(bad)} of {name}: found {found}. Expected files sealed as {words(target)}, one for each: was "
                "the table altered or written to meanwhile? Run the command again."
            )


def named(partitions: Sequence[Partition]) -> str:
    """The first few partitions, and how many more there are."""
    names = ", ".join(part.name for part in partitions[:_NAMED])
    more = f" and {len(partitions) - _NAMED:,} more" if len(partitions) > _NAMED else ""
    return f"{'partition' if len(partitions) == 1 else 'partitions'} {names}{more}"
