"""Rewrite many partitions in one pass with the table's bucket spec; see docs/explanation/replacing-rows.md.

1. Write the partitions' rows to a build. After a crash, the next run deletes it.
2. Compare row counts per partition, and check the seals of the build.
3. Publish the build with one statement of the session extension.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from spark_bucketing.errors import BucketingError, TableError
from spark_bucketing.spec import HASH_OF_VERSION, STATED_VERSIONS, VERSION_PROPERTY, BucketSpec, stated_version
from spark_bucketing.table import builds, sql
from spark_bucketing.table.metadata import read_partitions
from spark_bucketing.table.model import Partition, Table, one_spelling, words
from spark_bucketing.table.partition_predicates import covering
from spark_bucketing.table.warehouse import Warehouse

# Limits for one build: its bytes are stored twice, and one statement names all of its partitions.
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
        """Yield the partitions in batches.

        Each batch gets its own build.
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
    """Return why a rewrite would not replace exactly this partition, or an empty string if it would."""
    if part.name in unclear:
        return "Spark formats its values differently, so an INSERT would write to another directory"
    others = (name for name in inside.get(one_spelling(part.location), ()) if name != part.name)
    return next((f"its directory also contains {name}" for name in others), "")


class Rewriter:
    """Replaces the rows of partitions with builds.

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
            BucketingError: the rewrite failed, and the table is unchanged.
        """
        condition = covering(self._table, batch)
        self._warehouse.change(f"refresh table {self._name}")
        build, build_id = builds.write_build(self._warehouse, self._table, batch, condition)
        try:
            self._compare(build, condition)
            empty = self._check_partitions(build)
            if empty:
                builds.drop_partitions(self._warehouse, self._table, build, empty)
            builds.publish_build(self._warehouse, self._table, build, build_id)
        except BucketingError:
            builds.recover_build(self._warehouse, self._table, build)
            raise
        for part in empty:
            self._notify(
                f"{part.name} has files without rows and was skipped. Run `spark-bucketing table seal` to seal it."
            )
        return len(batch) - len(empty)

    def recover(self) -> bool:
        """Complete or delete builds of an interrupted run of this command or of dbt.

        Returns:
            Whether there were any.
        """
        found = builds.find_builds(self._warehouse, self._table.name)
        for build in found:
            self._notify(f"An earlier run crashed while it wrote or published {build}; recovering this build.")
            builds.recover_build(self._warehouse, self._table, build)
        return bool(found)

    def _compare(self, build: str, condition: str) -> None:
        """Raise an error unless each partition has as many rows in the table as in the build."""
        counted = (
            f"select {self._keys}, count(*) as here, 0 as there from {self._name} where {condition} "  # noqa: S608
            f"group by {self._keys} union all select {self._keys}, 0, count(*) from {build} group by {self._keys}"
        )
        different = self._warehouse.rows(
            f"select to_json(struct({self._keys})) as place, sum(here) as here, sum(there) as there from ({counted}) "  # noqa: S608
            f"group by {self._keys} having sum(here) <> sum(there) limit {_NAMED}"
        )
        if different:
            found = "; ".join(
                f"{row['place']} has {row['here']:,} rows in the table, and {row['there']:,}" for row in different
            )
            raise TableError(
                f"No partition of table `{self._table.name}` was replaced.",
                found=f"{found} in the build {build}",
                expected="the same number of rows",
                instead="if another job writes to the table, wait for it, and run the command again",
            )

    def _check_partitions(self, build: str) -> list[Partition]:
        """Return the partitions without files.

        Raises:
            TableError: a partition is not sealed with the table's spec, or has several files in a bucket.
        """
        target, partitions = target_of(self._table), read_partitions(self._warehouse, build)
        bad = [part for part in partitions if part.has_files and not part.has(target)]
        if bad:
            raise TableError(
                f"No partition of table `{self._table.name}` was replaced.",
                found=f"{bad[0].summary} in {named(bad)} of the build {build}",
                expected=f"sealed files with {words(target)}, one file per bucket",
                instead="run the command again; another job may have changed the build",
            )
        return [part for part in partitions if not part.has_files]


def named(partitions: Sequence[Partition]) -> str:
    """Return the names of the first few partitions, and how many more there are."""
    names = ", ".join(part.name for part in partitions[:_NAMED])
    more = f" and {len(partitions) - _NAMED:,} more" if len(partitions) > _NAMED else ""
    return f"{'partition' if len(partitions) == 1 else 'partitions'} {names}{more}"
