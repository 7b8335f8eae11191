"""Bringing partitions to the table's own spec, many in one pass; see docs/explanation/replacing-rows.md.

CREATE TABLE AS SELECT of the partitions' rows    a run that finds the table drops it
compare rows by partition, and say what they replace    a run that finds the table goes on here
INSERT OVERWRITE the partitions from it
compare rows by partition, and the seals
drop the staging table
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from spark_bucketing.errors import BucketingError, TableError
from spark_bucketing.spec import BucketSpec
from spark_bucketing.table import sql, staging
from spark_bucketing.table.metadata import read_partitions
from spark_bucketing.table.model import Partition, Table, one_spelling, words
from spark_bucketing.table.partition_predicates import covering
from spark_bucketing.table.staging import Staging
from spark_bucketing.table.warehouse import Warehouse

# Of one staging table: what has to fit twice on the disks, and what a statement names.
_BATCH_BYTES = 100 * 2**30
_BATCH_PARTITIONS = 1000
# Partitions that a message names.
_NAMED = 3
# Options of a table, which go before the session's settings, by which Spark leaves out rows without an error.
_LENIENT = ("ignorecorruptfiles", "ignoremissingfiles")


@dataclass(frozen=True)
class RewritePlan:
    """What is to be done."""

    table: Table  # with all its partitions
    todo: tuple[Partition, ...]  # those that are to be written anew
    done: tuple[Partition, ...]  # those that have the table's spec, and those without files
    left: tuple[tuple[Partition, str], ...]  # those that cannot be overwritten, each with what was found

    def batches(self) -> Iterator[tuple[Partition, ...]]:
        """The partitions in parts, each for one staging table."""
        batch: list[Partition] = []
        held = 0
        for partition in self.todo:
            if batch and (held + partition.size > _BATCH_BYTES or len(batch) >= _BATCH_PARTITIONS):
                yield tuple(batch)
                batch, held = [], 0
            batch.append(partition)
            held += partition.size
        if batch:
            yield tuple(batch)


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
    # Hive's default is 1.
    version = table.properties.get("bucketing_version", "1").strip()
    if version != "1":
        raise TableError(
            f"Table {table.name} has bucketing_version {version}, and nothing was changed. Expected 1, the "
            "only version whose hash Spark computes: leave its buckets to the engine that made it, or write the rows "
            "into a table of version 1."
        )
    lenient = [key for key, value in table.options.items() if key.lower() in _LENIENT and value.lower() == "true"]
    if lenient:
        raise TableError(
            f"Table {table.name} is read with its option {', '.join(f'{key}=true' for key in lenient)}, which leaves "
            "out what cannot be read: it would be deleted with the old files, and nothing was changed. Expected a "
            f"table without: ALTER TABLE {table.name} SET SERDEPROPERTIES "
            f"{sql.properties(dict.fromkeys(lenient, 'false'))}"
        )
    return table.spec


def plan_rewrite(table: Table, chosen: Sequence[Partition], unclear: frozenset[str] = frozenset()) -> RewritePlan:
    """Sort partitions out by what is to be done with them.

    Args:
        table: theirs.
        chosen: some of its partitions.
        unclear: names of those that no statement can write.

    Raises:
        TableError: the table has no spec to bring them to.
    """
    target = target_of(table)
    is_done = {part.name: not part.has_files or part.has(target) for part in chosen}
    done = tuple(part for part in chosen if is_done[part.name])
    inside = _inside(table)
    others = [(part, _obstacle(part, unclear, inside)) for part in chosen if not is_done[part.name]]
    todo = tuple(part for part, obstacle in others if not obstacle)
    return RewritePlan(table, todo, done, tuple((part, obstacle) for part, obstacle in others if obstacle))


def _inside(table: Table) -> Mapping[str, Sequence[str]]:
    """Names of two of what lies in each folder, or below it: partitions, and the table."""
    found: dict[str, list[str]] = {}
    folders = [*((part.name, part.location) for part in table.partitions), ("the table", table.location)]
    for name, location in folders:
        parts = one_spelling(location).split("/")
        for end in range(1, len(parts) + 1):
            names = found.setdefault("/".join(parts[:end]), [])
            if len(names) < 2:
                names.append(name)
    return found


def _obstacle(part: Partition, unclear: frozenset[str], inside: Mapping[str, Sequence[str]]) -> str:
    """Why an INSERT OVERWRITE would not replace this partition, and nothing else; empty where it would."""
    if part.name in unclear:
        return "Spark spells its values in another way, so that an INSERT would write to another folder"
    others = (name for name in inside.get(one_spelling(part.location), ()) if name != part.name)
    return next((f"its folder is also that of {name}, or above it" for name in others), "")


class Rewriter:
    """Replaces the rows of partitions by way of a staging table.

    Args:
        warehouse: with an open session.
        table: whose partitions they are.
        notify: is called with each message that is for the user.
    """

    def __init__(self, warehouse: Warehouse, table: Table, notify: Callable[[str], None]) -> None:
        self._warehouse, self._table, self._notify = warehouse, table, notify
        self._name = sql.table(table.name)
        self._keys = sql.names(table.columns)

    def run(self, batch: Sequence[Partition]) -> int:
        """Bring partitions to the table's spec, all together.

        Returns:
            How many were replaced: those that have rows.

        Raises:
            BucketingError: it could not be done; what is left is for the next run to finish or to drop.
        """
        self._refresh()
        staged = staging.stage_rows(self._warehouse, self._table, self._condition(batch))
        try:
            self._compare(staged, batch, "No partition was replaced")
        except BucketingError:
            self._drop(staged.name)
            raise
        staging.complete(self._warehouse, self._table, staged.name)
        self._replace(staged)
        for part in batch:
            if part.values not in staged.filled:
                self._notify(
                    f"{part.name} has files and no rows, and is left alone: `spark-bucketing table seal` takes it "
                    "as it is."
                )
        return len(staged.filled)

    def recover(self) -> bool:
        """Finish what an earlier run of this command, or of dbt, has left.

        Returns:
            Whether partitions were replaced.

        Raises:
            TableError: its rows do not fit the table any more, or something has written to the partitions since.
        """
        left = staging.find_staging(self._warehouse, self._table.name)
        if left is None:
            return False
        if not staging.is_complete(left):
            self._notify(f"An earlier run crashed while it wrote {left.name}: dropping it.")
            self._drop(left.name)
            return False
        staged = staging.complete_staging(self._warehouse, self._table, left)
        there = named(self._filled(staged, self._table.partitions)) or "partitions"
        # Then the staged rows are all that there were before.
        if staged.same_rows:
            self._compare(
                staged,
                self._filled(staged, self._table.partitions),
                f"An earlier run crashed while it replaced {there} of {self._table.name}, and something has "
                "written there since, and nothing was changed",
                "the rows that were there before, or none: see to it that the table has all rows, and drop "
                f"{staged.name}.",
                or_none=True,
            )
        self._notify(f"An earlier run crashed while it replaced {there}: completing it from {staged.name}.")
        self._replace(staged)
        return True

    def _replace(self, staged: Staging) -> None:
        """Let Spark write the staged rows over the partitions, look whether it did, and drop the staging table."""
        self._refresh()
        columns = sql.names(self._table.all_columns)
        self._warehouse.change(
            f"insert overwrite table {self._name} partition ({self._keys}) select {columns} from {staged.rows}"  # noqa: S608
        )
        partitions = read_partitions(self._warehouse, self._table.name)
        for part in partitions:
            if part.values in staged.emptied:
                spec = sql.partition_spec(self._table.columns, part)
                self._warehouse.change(f"alter table {self._name} drop if exists {spec}")
        written = self._filled(staged, partitions)
        self._compare(staged, written, f"The finished rows stay in {staged.name}, and the next run writes them again")
        self._drop(staged.name)
        self._refuse_unsealed(written)

    @staticmethod
    def _filled(staged: Staging, partitions: Sequence[Partition]) -> list[Partition]:
        return [part for part in partitions if part.values in staged.filled]

    def _refresh(self) -> None:
        self._warehouse.change(f"refresh table {self._name}")

    def _drop(self, name: str) -> None:
        self._warehouse.change(f"drop table if exists {name}")

    def _condition(self, parts: Sequence[Partition]) -> str:
        """A predicate for the rows of partitions, of which the table may have lost some."""
        names = {part.name for part in parts}
        others = (part for part in self._table.partitions if part.name not in names)
        return covering(replace(self._table, partitions=(*others, *parts)), parts)

    def _compare(
        self,
        staged: Staging,
        parts: Sequence[Partition],
        consequence: str,
        expected: str = "the same: was the table written to meanwhile? Run the command again when that has ended.",
        or_none: bool = False,
    ) -> None:
        """Refuse to go on unless each partition has as many rows in the table as in the staging table; or none."""
        self._refresh()
        counted = (
            f"select {self._keys}, count(*) as here, 0 as there from {self._name} where {self._condition(parts)} "  # noqa: S608
            f"group by {self._keys} union all select {self._keys}, 0, count(*) from {staged.rows} group by {self._keys}"
        )
        different = self._warehouse.rows(
            f"select to_json(struct({self._keys})) as place, sum(here) as here, sum(there) as there from ({counted}) "  # noqa: S608
            f"group by {self._keys} having sum(here) not in (sum(there){', 0' if or_none else ''}) limit {_NAMED}"
        )
        if different:
            found = "; ".join(f"{row['place']} has {row['here']:,} rows, and {row['there']:,}" for row in different)
            raise TableError(f"{consequence}: {found} in the staging table {staged.name}. Expected {expected}")

    def _refuse_unsealed(self, parts: Sequence[Partition]) -> None:
        """Refuse files that are not sealed as the buckets of the table's spec, one for each."""
        target = target_of(self._table)
        bad = [part for part in parts if not part.has(target)]
        if bad:
            raise TableError(
                f"{named(bad)} of {self._table.name}: found {bad[0].summary}. Expected files sealed as "
                f"{words(target)}, one for each: was the table altered or written to meanwhile? Run the command again."
            )


def named(partitions: Sequence[Partition]) -> str:
    """The first few partitions, and how many more there are."""
    names = ", ".join(part.name for part in partitions[:_NAMED])
    more = f" and {len(partitions) - _NAMED:,} more" if len(partitions) > _NAMED else ""
    return f"{'partition' if len(partitions) == 1 else 'partitions'} {names}{more}"
