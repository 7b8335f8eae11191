"""Select partitions with predicates, and rewrite many partitions in one pass with the table's bucket spec.

An UPDATE that changes no value replaces the files of all partitions atomically; see docs/explanation/replacing-rows.md.
"""

from __future__ import annotations

import json
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from spark_bucketing import sql
from spark_bucketing.errors import SparkError, TableError
from spark_bucketing.spec import HASH_OF_VERSION, STATED_VERSIONS, VERSION_PROPERTY, BucketSpec
from spark_bucketing.tables.metadata import Column, Partition, TableMetadata, one_spelling, read_partitions
from spark_bucketing.tables.warehouse import Warehouse
from spark_bucketing.units import some

# Up to this number of values, a list is easier to read than a range.
_LIST = 2


def select_partitions(
    warehouse: Warehouse, table: TableMetadata, where: str | None
) -> tuple[tuple[Partition, ...], frozenset[str]]:
    """Return the partitions that a predicate on partition columns selects, and the names that INSERT cannot address.

    Other engines write such names, whose values Spark would spell in another way: 0.10 in a double column, or month=01
    in an int column.
    """
    # The row of NULLs validates the predicate if the table has no partitions.
    rows = [(None,) * len(table.columns), *(part.values for part in table.partitions)]
    values = ", ".join(
        f"({at}, {', '.join('null' if value is None else sql.text(value) for value in row)})"
        for at, row in enumerate(rows, -1)
    )
    names = [f"v{at}" for at in range(len(table.columns))]
    casts = [f"try_cast({name} as {column.type})" for name, column in zip(names, table.columns, strict=True)]
    spelled = ", ".join(f"try_cast({cast} as string)" for cast in casts)
    typed = ", ".join(f"{cast} as {sql.name(column.name)}" for cast, column in zip(casts, table.columns, strict=True))
    # The prefixed names prevent the predicate from resolving to columns of this query. The line break ends a comment at
    # the end of the predicate.
    query = (
        f"with typed as (select place as spark_bucketing_place, array({spelled}) as spark_bucketing_spelled, {typed} "  # noqa: S608
        f"from values {values} as v(place, {', '.join(names)})) "
        f"select case when ({where or 'true'}\n) then 1 else 0 end as chosen, "
        "spark_bucketing_place as place, to_json(spark_bucketing_spelled) as spelled "
        f"from typed as {sql.name(sql.parts(table.name)[-1])}"
    )
    try:
        found = {row["place"]: row for row in warehouse.rows(query)}
    except SparkError as error:
        # Spark suggests columns of this query, which mean nothing to the user.
        why = re.split(r" Did you mean| SQLSTATE", str(error))[0]
        first = table.columns[0]
        known = [part.values[0] for part in table.partitions if part.values[0] is not None]
        example = f"{first.name} < {sql.literal(known[-1], first)}" if known else f"{first.name} is not null"
        raise TableError(
            f"The predicate of `--where` is invalid for table `{table.name}`.",
            found=why,
            expected="a condition on the partition columns only, which are "
            f"{', '.join(column.name for column in table.columns)}",
            instead=f'--where "{example}"',
        ) from error
    partitions = [(part, found[at]["spelled"], found[at]["chosen"]) for at, part in enumerate(table.partitions)]
    alike = Counter(spelling for _, spelling, _ in partitions)
    return tuple(part for part, _, chosen in partitions if chosen), frozenset(
        part.name
        for part, spelling, _ in partitions
        if tuple(json.loads(spelling)) != part.values or alike[spelling] > 1
    )


def covering(table: TableMetadata, chosen: Sequence[Partition]) -> str:
    """Return a predicate on partition columns that selects exactly these partitions of the table."""
    names = {partition.name for partition in chosen}
    return _covering(table.columns, table.partitions, names) or "true" if names else "false"


def _covering(columns: Sequence[Column], partitions: Sequence[Partition], chosen: set[str]) -> str:
    """Return a predicate that selects the chosen partitions.

    The predicate is empty if all partitions are chosen.

    The predicate groups values of the first column that need the same predicate on the other columns.
    """
    if all(partition.name in chosen for partition in partitions):
        return ""
    column, *others = columns
    values: list[str | None] = []
    with_rest: dict[str, list[str | None]] = {}
    for value, group in groupby(partitions, lambda partition: partition.values[-len(columns)]):
        members = list(group)
        values.append(value)
        if any(partition.name in chosen for partition in members):
            with_rest.setdefault(_covering(others, members, chosen), []).append(value)
    terms = []
    for rest, wanted in sorted(with_rest.items()):
        own = _values(column, values, wanted)
        if not rest:
            terms += own
        else:
            terms.append(rest if len(wanted) == len(values) else f"{_either(own)} and {rest}")
    return _either(terms)


def _either(terms: Sequence[str]) -> str:
    if len(terms) == 1:
        return terms[0]
    return f"({' or '.join(f'({term})' if ' and ' in term else term for term in terms)})"


def _values(column: Column, values: Sequence[str | None], wanted: Sequence[str | None]) -> list[str]:
    """Return terms that select values: ranges for long runs of adjacent values, and a list of the others."""
    known = [value for value in values if value is not None]
    name = sql.readable_name(column.name)
    terms, listed = [], []
    # Python and Spark sort the values of these columns in the same order.
    is_ordered = column.is_number or column.type.lower() in ("string", "date")
    for is_wanted, group in groupby(known, lambda value: value in wanted):
        run = list(group)
        if is_wanted and len(run) > _LIST and is_ordered:
            bounds = [f"{name} >= {sql.literal(run[0], column)}"] if run[0] != known[0] else []
            bounds += [f"{name} <= {sql.literal(run[-1], column)}"] if run[-1] != known[-1] else []
            # The run has all values except NULL.
            terms.append(" and ".join(bounds) or f"{name} is not null")
        elif is_wanted:
            listed += [sql.literal(value, column) for value in run]
    if listed:
        terms.append(f"{name} = {listed[0]}" if len(listed) == 1 else f"{name} in ({', '.join(listed)})")
    return [*terms, f"{name} is null"] if None in wanted else terms


def rewrite_command(table: str, where: str = "true") -> str:
    """Return the shell command that rewrites partitions with the table's spec."""
    # Prefer double quotes if nothing needs escaping, because SQL literals use single quotes.
    quoted = f'"{where}"' if not set(where) & set('$`\\!"') else shlex.quote(where)
    return f"spark-bucketing table rewrite {shlex.quote(table)}{'' if where == 'true' else f' --where {quoted}'}"


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
