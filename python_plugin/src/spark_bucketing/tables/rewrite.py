"""Rewrite many partitions in one pass with the table's bucket spec.

An UPDATE that changes no value replaces the files of all partitions at once; see docs/explanation/replacing-rows.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from spark_bucketing.errors import TableError
from spark_bucketing.spec import HASH_OF_VERSION, STATED_VERSIONS, VERSION_PROPERTY, BucketSpec
from spark_bucketing.tables import sql
from spark_bucketing.tables.metadata import read_partitions
from spark_bucketing.tables.model import Partition, TableMetadata, one_spelling
from spark_bucketing.tables.partition_predicates import covering
from spark_bucketing.tables.warehouse import Warehouse
from spark_bucketing.units import some

# Limits for one statement: until it commits, its files are stored twice, and it names all of its partitions.
_BATCH_BYTES = 100 * 2**30
_BATCH_PARTITIONS = 1000
# Table options that make Spark skip rows without an error. They override the session's settings.
_LENIENT = ("ignorecorruptfiles", "ignoremissingfiles")


@dataclass(frozen=True)
class RewritePlan:
    """The partitions that a rewrite replaces, and the partitions that it skips."""

    table: TableMetadata  # with all its partitions
    todo: tuple[Partition, ...]  # partitions to rewrite
    done: tuple[Partition, ...]  # partitions that have the table's spec or no files
    left: tuple[tuple[Partition, str], ...]  # partitions that cannot be overwritten, with the reason

    def batches(self) -> Iterator[tuple[Partition, ...]]:
        """Yield the partitions in batches. One statement rewrites each batch."""
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


def target_of(table: TableMetadata) -> BucketSpec:
    """Return the bucket spec that rewritten partitions get."""
    if table.spec is None:
        raise TableError(
            f"Table `{table.name}` has no buckets now.",
            found="NOT CLUSTERED",
            expected="a bucketed table",
            instead=f"run `ALTER TABLE {table.name} CLUSTERED BY (...) INTO n BUCKETS` first",
        )
    if table.version not in HASH_OF_VERSION:
        raise TableError(
            f"Table `{table.name}` has an unknown `{VERSION_PROPERTY}`. Nothing was changed.",
            found=f"the table property '{VERSION_PROPERTY}' = '{table.version}'",
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


def plan_rewrite(
    table: TableMetadata, chosen: Sequence[Partition], unclear: frozenset[str] = frozenset()
) -> RewritePlan:
    """Plan which partitions to rewrite and which to skip."""
    target = target_of(table)
    is_done = {part.name: not part.has_files or part.has(target) for part in chosen}
    done = tuple(part for part in chosen if is_done[part.name])
    inside = _inside(table)

    def obstacle(part: Partition) -> str:
        """Return why a statement would not replace the files of exactly this partition, or an empty string."""
        if part.name in unclear:
            return "Spark formats its values differently, so the rewrite would write to another directory"
        others = (name for name in inside.get(one_spelling(part.location), ()) if name != part.name)
        return next((f"its directory also contains {name}" for name in others), "")

    others = [(part, obstacle(part)) for part in chosen if not is_done[part.name]]
    todo = tuple(part for part, why in others if not why)
    return RewritePlan(table, todo, done, tuple((part, why) for part, why in others if why))


def _inside(table: TableMetadata) -> Mapping[str, Sequence[str]]:
    """Return the names of up to two partitions in or below each directory. The table itself counts as a partition."""
    found: dict[str, list[str]] = {}
    folders = [*((part.name, part.location) for part in table.partitions), ("the table", table.location)]
    for name, location in folders:
        parts = one_spelling(location).split("/")
        for end in range(1, len(parts) + 1):
            names = found.setdefault("/".join(parts[:end]), [])
            if len(names) < 2:
                names.append(name)
    return found


def rewrite_batch(
    warehouse: Warehouse, table: TableMetadata, batch: Sequence[Partition], notify: Callable[[str], None]
) -> int:
    """Rewrite a batch of partitions with the table's spec, in one statement that changes no value."""
    name, target = sql.table(table.name), target_of(table)
    warehouse.change(f"refresh table {name}")
    column = sql.name(next(c.name for c in table.all_columns if c not in table.columns))
    warehouse.change(f"update {name} set {column} = {column} where {covering(table, batch)}")  # noqa: S608
    names = {part.name for part in batch}
    left = [part for part in read_partitions(warehouse, table.name) if part.name in names and not part.has(target)]
    empty = {
        part.name
        for part in left
        if not warehouse.rows(f"select 1 as found from {name} where {covering(table, [part])} limit 1")  # noqa: S608
    }
    if bad := [part for part in left if part.name not in empty]:
        parts = "partition" if len(bad) == 1 else "partitions"
        raise TableError(
            f"Not all partitions of table `{table.name}` are sealed after the rewrite.",
            found=f"{bad[0].summary} in {parts} {some([part.name for part in bad], 3)}",
            expected=f"sealed files with {target}, one file per bucket",
            instead="run the command again; another job may have changed the table",
        )
    for skipped in sorted(empty):
        notify(f"{skipped} has files without rows and was skipped. Run `spark-bucketing table seal` to seal it.")
    return len(batch) - len(empty)
