"""Rewrite many partitions in one pass with the table's bucket spec; see docs/explanation/replacing-rows.md.

1. Write the partitions' rows to a build. After a crash, the next run drops it.
2. Compare row counts per partition, and check the seals of the build.
3. Publish the build with one statement of the extension.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from spark_bucketing.errors import BucketingError, TableError
from spark_bucketing.spec import HASH_OF_VERSION, VERSION_PROPERTY, BucketSpec
from spark_bucketing.table import builds, sql
from spark_bucketing.table.metadata import read_partitions
from spark_bucketing.table.model import Partition, Table, one_spelling, words
from spark_bucketing.table.partition_predicates import covering
from spark_bucketing.table.warehouse import Warehouse

# Limits for one build: one statement names all of its partitions, and one metastore transaction publishes them.
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
    left: tuple[tuple[Partition, str], ...]  # partitions that cannot be rewritten, with the reason

    def batches(self) -> Iterator[tuple[Partition, ...]]:
        """Split the partitions into batches, one for each build."""
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
            f"Table {table.name} has no buckets now (it is NOT CLUSTERED). Expected a bucketed table. Run "
            f"ALTER TABLE {table.name} CLUSTERED BY (...) INTO n BUCKETS first."
        )
    version = table.properties.get(VERSION_PROPERTY, "1").strip()
    if version not in HASH_OF_VERSION:
        raise TableError(
            f"Table {table.name} has {VERSION_PROPERTY} {version}, and nothing was changed. Expected "
            f"{' or '.join(HASH_OF_VERSION)}, the versions whose hash Spark computes. Rewrite the table with the "
            "engine that created it, or copy its rows to a table of one of these versions."
        )
    lenient = [key for key, value in table.options.items() if key.lower() in _LENIENT and value.lower() == "true"]
    if lenient:
        raise TableError(
            f"Table {table.name} has the option {', '.join(f'{key}=true' for key in lenient)}, which skips "
            "unreadable files: a rewrite would lose their rows. Nothing was changed. Expected a table without this "
            f"option. Run ALTER TABLE {table.name} SET SERDEPROPERTIES "
            f"{sql.properties(dict.fromkeys(lenient, 'false'))}"
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
    """Return why a rewrite would not replace exactly this partition; empty if it would."""
    if part.name in unclear:
        return "Spark formats its values differently, so an INSERT would write to another directory"
    others = (name for name in inside.get(one_spelling(part.location), ()) if name != part.name)
    return next((f"its directory also contains {name}" for name in others), "")


class Rewriter:
    """Replace the rows of partitions through builds.

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
            The number of replaced partitions.

        Raises:
            BucketingError: the rewrite failed, and the table is unchanged.
        """
        condition = covering(self._table, batch)
        build = builds.write_build(self._warehouse, self._table, batch, condition)
        try:
            self._compare(build, condition)
            self._check_partitions(build, {part.name for part in batch})
        except BucketingError:
            builds.drop_build(self._warehouse, build)
            raise
        builds.publish_build(self._warehouse, self._table, build)
        return len(batch)

    def recover(self) -> bool:
        """Publish the rest of an interrupted dbt run's build, or drop a build that was not published.

        Returns:
            Whether partitions were replaced.

        Raises:
            TableError: the build no longer matches the table.
        """
        left = builds.find_build(self._warehouse, self._table.name)
        if left and builds.is_half_published(left):
            builds.validate_target(self._warehouse, self._table, left)
            self._notify(f"An earlier run crashed while it published partitions; completing it from {left.name}.")
            builds.publish_build(self._warehouse, self._table, left.name)
            return True
        if left:
            self._notify(f"An earlier run crashed while writing {left.name}; dropping this table.")
            builds.drop_build(self._warehouse, left.name)
        builds.clean_builds(self._warehouse, self._table)
        return False

    def _compare(self, build: str, condition: str) -> None:
        """Raise an error unless each partition has the same number of rows in the table and in the build."""
        self._warehouse.change(f"refresh table {self._name}")
        counted = (
            f"select {self._keys}, count(*) as here, 0 as there from {self._name} where {condition} "  # noqa: S608
            f"group by {self._keys} union all select {self._keys}, 0, count(*) from {build} group by {self._keys}"
        )
        different = self._warehouse.rows(
            f"select to_json(struct({self._keys})) as place, sum(here) as here, sum(there) as there from ({counted}) "  # noqa: S608
            f"group by {self._keys} having sum(here) <> sum(there) limit {_NAMED}"
        )
        if different:
            found = "; ".join(f"{row['place']} has {row['here']:,} rows, and {row['there']:,}" for row in different)
            raise TableError(
                f"No partition was replaced: {found} in the build {build}. Expected equal numbers. If another job "
                "writes to the table, wait for it and run the command again."
            )

    def _check_partitions(self, build: str, expected: set[str]) -> None:
        """Raise an error unless the build has these partitions, sealed with the table's spec, one file per bucket."""
        target, partitions = target_of(self._table), read_partitions(self._warehouse, build)
        new = [part for part in partitions if part.name not in expected]
        bad = new or [part for part in partitions if part.has_files and not part.has(target)]
        if bad:
            raise TableError(
                f"No partition was replaced: found {'new rows' if new else bad[0].summary} in {named(bad)} of the "
                f"build {build}. Expected rows of the selected partitions only, in files sealed as "
                f"{words(target)}, one per bucket. Another job may have changed the table. Run the command again."
            )


def named(partitions: Sequence[Partition]) -> str:
    """Return the names of the first few partitions, and how many more there are."""
    names = ", ".join(part.name for part in partitions[:_NAMED])
    more = f" and {len(partitions) - _NAMED:,} more" if len(partitions) > _NAMED else ""
    return f"{'partition' if len(partitions) == 1 else 'partitions'} {names}{more}"
