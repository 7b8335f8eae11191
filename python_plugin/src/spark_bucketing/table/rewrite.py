"""Rewrite many partitions in one pass with the table's bucket spec; see docs/explanation/replacing-rows.md.

1. Copy the partitions' rows with CREATE TABLE AS SELECT to a staging table, which the next run drops after a crash.
2. Compare row counts per partition, and mark the staging table as complete. A run after a later crash continues here.
3. INSERT OVERWRITE the partitions from the staging table.
4. Compare row counts per partition, and check the seals.
5. Drop the staging table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from spark_bucketing.errors import BucketingError, TableError
from spark_bucketing.spec import HASH_OF_VERSION, STATED_VERSIONS, VERSION_PROPERTY, BucketSpec, stated_version
from spark_bucketing.table import sql, staging
from spark_bucketing.table.metadata import read_partitions
from spark_bucketing.table.model import Partition, Table, one_spelling, words
from spark_bucketing.table.partition_predicates import covering
from spark_bucketing.table.staging import Staging
from spark_bucketing.table.warehouse import Warehouse

# Limits for one staging table: its bytes are stored twice, and one statement names all of its
# partitions.
_BATCH_BYTES = 100 * 2**30
_BATCH_PARTITIONS = 1000
# Number of partitions that a message names.
_NAMED = 3
# Table options that make Spark skip rows without an error. They override the session's settings.
_LENIENT = ("ignorecorruptfiles", "ignoremissingfiles")


@dataclass(frozen=True)
class RewritePlan:
    """The partitions that a rewrite replaces, and the partitions that it skips."""

    table: Table  # with all its partitions
    todo: tuple[Partition, ...]  # partitions to rewrite
    done: tuple[Partition, ...]  # partitions that have the table's spec or no files
    left: tuple[tuple[Partition, str], ...]  # partitions that cannot be overwritten, with the reason

    def batches(self) -> Iterator[tuple[Partition, ...]]:
        """Yield the partitions in batches.

        Each batch gets its own staging table.
        """
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
    """Return the bucket spec that rewritten partitions get.

    Raises:
        TableError: the table has no buckets, Spark cannot write its buckets, or queries might miss rows.
    """
    if table.spec is None:
        raise TableError(
            f"Table `{table.name}` has no buckets now.",
            found="NOT CLUSTERED",
            expected="a bucketed table",
            instead=f"run `ALTER TABLE {table.name} CLUSTERED BY (...) INTO n BUCKETS` first",
        )
    version = stated_version(table.details)
    if version not in HASH_OF_VERSION:
        raise TableError(
            f"Table `{table.name}` has an unknown `{VERSION_PROPERTY}`. Nothing was changed.",
            found=f"the table property '{VERSION_PROPERTY}' = '{version}'",
            expected=f"exactly {STATED_VERSIONS}",
            instead=f"run spark-bucketing table seal {table.name}, which finds the version of the rows, and set the "
            "property to this version",
        )
    lenient = [key for key, value in table.options.items() if key.lower() in _LENIENT and value.lower() == "true"]
    if lenient:
        raise TableError(
            f"Table `{table.name}` has an option that skips unreadable files. Nothing was changed.",
            found=f"{', '.join(f'{key}=true' for key in lenient)}; a rewrite would lose the rows of these files",
            expected="a table without this option",
            instead=f"run `ALTER TABLE {table.name} SET SERDEPROPERTIES "
            f"{sql.properties(dict.fromkeys(lenient, 'false'))}`",
        )
    return table.spec


def plan_rewrite(table: Table, chosen: Sequence[Partition], unclear: frozenset[str] = frozenset()) -> RewritePlan:
    """Plan which partitions to rewrite and which to skip.

    Args:
        table: the bucketed table.
        chosen: the selected partitions.
        unclear: names of partitions that an INSERT cannot address.

    Raises:
        TableError: the table has no spec that rewritten partitions can get.
    """
    target = target_of(table)
    is_done = {part.name: not part.has_files or part.has(target) for part in chosen}
    done = tuple(part for part in chosen if is_done[part.name])
    inside = _inside(table)
    others = [(part, _obstacle(part, unclear, inside)) for part in chosen if not is_done[part.name]]
    todo = tuple(part for part, obstacle in others if not obstacle)
    return RewritePlan(table, todo, done, tuple((part, obstacle) for part, obstacle in others if obstacle))


def _inside(table: Table) -> Mapping[str, Sequence[str]]:
    """Return the names of up to two partitions in or below each directory.

    The table itself counts as a partition.
    """
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
    """Return why INSERT OVERWRITE would not replace exactly this partition, or an empty string if it would."""
    if part.name in unclear:
        return "Spark formats its values differently, so an INSERT would write to another directory"
    others = (name for name in inside.get(one_spelling(part.location), ()) if name != part.name)
    return next((f"its directory also contains {name}" for name in others), "")


class Rewriter:
    """Replaces the rows of partitions, using a staging table.

    Args:
        warehouse: a warehouse with an open session.
        table: the bucketed table.
        notify: callback that shows a message to the user.
    """

    def __init__(self, warehouse: Warehouse, table: Table, notify: Callable[[str], None]) -> None:
        self._warehouse, self._table, self._notify = warehouse, table, notify
        self._name = sql.table(table.name)
        self._keys = sql.names(table.columns)

    def run(self, batch: Sequence[Partition]) -> int:
        """Rewrite a batch of partitions with the table's spec.

        Returns:
            The number of replaced partitions. Partitions without rows are not replaced.

        Raises:
            BucketingError: the rewrite failed. The next run completes it or drops the staging table.
        """
        self._refresh()
        staged = staging.stage_rows(self._warehouse, self._table, self._condition(batch))
        try:
            self._compare(staged, batch, f"No partition of table `{self._table.name}` was replaced")
        except BucketingError:
            self._drop(staged.name)
            raise
        staging.complete(self._warehouse, self._table, staged.name)
        self._replace(staged)
        for part in batch:
            if part.values not in staged.filled:
                self._notify(
                    f"{part.name} has files without rows and was skipped. Run `spark-bucketing table seal` to seal it."
                )
        return len(staged.filled)

    def recover(self) -> bool:
        """Complete or clean up an interrupted run of this command or of dbt.

        Returns:
            Whether partitions were replaced.

        Raises:
            TableError: the staged rows no longer match the table, or another writer changed the partitions.
        """
        left = staging.find_staging(self._warehouse, self._table.name)
        if left is None:
            return False
        if not staging.is_complete(left):
            self._notify(f"An earlier run crashed while writing {left.name}; dropping this table.")
            self._drop(left.name)
            return False
        staged = staging.complete_staging(self._warehouse, self._table, left)
        there = named(self._filled(staged, self._table.partitions)) or "partitions"
        # The staged rows are unchanged, so the partitions must still have the same number of rows, or none.
        if staged.same_rows:
            self._compare(
                staged,
                self._filled(staged, self._table.partitions),
                f"An earlier run crashed while it replaced {there} of table `{self._table.name}`, and another job "
                "has since written to the table. Nothing was changed",
                f"make sure that the table has all rows, and drop {staged.name}",
                or_none=True,
            )
        self._notify(f"An earlier run crashed while it replaced {there}; completing it from {staged.name}.")
        self._replace(staged)
        return True

    def _replace(self, staged: Staging) -> None:
        """Overwrite the partitions with the staged rows, compare the row counts, and drop the staging table."""
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
        self._compare(
            staged,
            written,
            f"The rows of table `{self._table.name}` remain in {staged.name}, and the next run writes them again",
        )
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
        """Return a predicate that selects the rows of these partitions, including partitions that no longer exist."""
        names = {part.name for part in parts}
        others = (part for part in self._table.partitions if part.name not in names)
        return covering(replace(self._table, partitions=(*others, *parts)), parts)

    def _compare(
        self,
        staged: Staging,
        parts: Sequence[Partition],
        consequence: str,
        instead: str = "if another job writes to the table, wait for it, and run the command again",
        or_none: bool = False,
    ) -> None:
        """Raise an error unless each partition has as many rows in the table as in the staging table.

        With `or_none`, the table may also have no rows in a partition.
        """
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
            found = "; ".join(
                f"{row['place']} has {row['here']:,} rows in the table, and {row['there']:,}" for row in different
            )
            raise TableError(
                f"{consequence}.",
                found=f"{found} in the staging table {staged.name}",
                expected="the same number of rows" + (", or none" if or_none else ""),
                instead=instead,
            )

    def _refuse_unsealed(self, parts: Sequence[Partition]) -> None:
        """Raise an error unless all partitions are sealed with the table's spec and have one file per bucket."""
        target = target_of(self._table)
        bad = [part for part in parts if not part.has(target)]
        if bad:
            raise TableError(
                f"Not all partitions of table `{self._table.name}` are sealed after the rewrite.",
                found=f"{bad[0].summary} in {named(bad)}",
                expected=f"sealed files with {words(target)}, one file per bucket",
                instead="run the command again; another job may have changed the table",
            )


def named(partitions: Sequence[Partition]) -> str:
    """Return the names of the first few partitions, and how many more there are."""
    names = ", ".join(part.name for part in partitions[:_NAMED])
    more = f" and {len(partitions) - _NAMED:,} more" if len(partitions) > _NAMED else ""
    return f"{'partition' if len(partitions) == 1 else 'partitions'} {names}{more}"
