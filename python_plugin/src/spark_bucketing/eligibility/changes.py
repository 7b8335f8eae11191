"""What could be changed: settings, tables and queries, in the words for the user. Whether it helps, Spark says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from spark_bucketing.eligibility.model import FixKind, TableFacts
from spark_bucketing.eligibility.rewrites import without_repartitions
from spark_bucketing.eligibility.scans import is_left_to_stock
from spark_bucketing.eligibility.settings import ENABLED, SPARK_LAYOUT, Settings
from spark_bucketing.evolution.model import Partition, words
from spark_bucketing.evolution.where import covering, rewrite_command
from spark_bucketing.extension.settings import EXTENSION_CLASS
from spark_bucketing.spec import BucketHash, BucketSpec

if TYPE_CHECKING:
    from spark_bucketing.eligibility.lineage import Source
    from spark_bucketing.eligibility.movements import Movement

_EXTENSIONS = "spark.sql.extensions"


@dataclass(frozen=True)
class Change:
    """Something that could be done about a movement; whether it helps is found out by planning with it.

    Args:
        kind: what is changed.
        text: for the user: what to write.
        settings: with other values.
        table: that is written anew.
        spec: which it is planned with then; for kind bucket_spec, the user is to give it this one.
        column_types: of the table, by lower-case names.
        where: for kind rewrite_files: a predicate for the partitions, where these are not all.
        rewrite: makes other SQL of the query.
        planned_as_if: settings by which empty tables are planned as the changed ones will be.
    """

    kind: FixKind
    text: str
    settings: Mapping[str, str] = field(default_factory=dict)
    table: str | None = None
    spec: BucketSpec | None = None
    column_types: Mapping[str, str] = field(default_factory=dict)
    where: str | None = None
    rewrite: Callable[[str], str] | None = None
    planned_as_if: Mapping[str, str] = field(default_factory=dict)

    @property
    def planned_settings(self) -> dict[str, str]:
        """The settings that a session can change; the extension is there already, and switched on by one of them."""
        settings = {**self.settings, **self.planned_as_if}
        return {name: value for name, value in settings.items() if name != _EXTENSIONS}


def set_to(settings: Mapping[str, str], why: str = "") -> Change:
    """Give settings other values."""
    text = " and ".join(f"{name}={value}" for name, value in settings.items())
    return Change("setting", f"Set {text}{why}.", settings)


def switch_extension_on(settings: Settings) -> Change:
    """Load the extension, or switch it on where it is loaded."""
    if settings.loaded:
        return Change("extension", f"Set {ENABLED}=true.", {ENABLED: "true"})
    others = [name for name in settings.get(_EXTENSIONS).split(",") if name.strip()]
    text = "Load the session extension: `spark-bucketing extension conf` prints the settings."
    return Change("extension", text, {_EXTENSIONS: ",".join([*others, EXTENSION_CLASS]), ENABLED: "true"})


def let_extension_read(movement: Movement) -> tuple[Change, ...]:
    """Have the extension read a table that stock Spark reads; nothing where it does already."""
    settings, facts = movement.settings, movement.facts
    if not settings.extension:
        return (switch_extension_on(settings),)
    if not settings.on(SPARK_LAYOUT):
        return (set_to({SPARK_LAYOUT: "true"}),)
    left = movement.scan is not None and facts is not None and is_left_to_stock(movement.scan, facts, settings)
    return (seal(facts),) if left and facts else ()


def merge_files(movement: Movement, number: int) -> tuple[Change, ...]:
    """Have the extension merge sorted files of a bucket while it reads them."""
    settings = movement.settings
    if not settings.extension:
        return (switch_extension_on(settings),)
    return (set_to({"spark.bucketing.read.mergeFiles": str(max(64, number))}),)


def bucket(facts: TableFacts, spec: BucketSpec) -> tuple[Change, ...]:
    """Write a table anew with this spec; nothing where Spark refuses that: by a partition column, say."""
    taken = {name.lower() for name in facts.partition_columns}
    if spec == facts.spec or taken & {name.lower() for name in (*spec.bucket_columns, *spec.sort_columns)}:
        return ()
    order = f", sorted_by={list(spec.sort_columns)}" if spec.sort_columns != spec.bucket_columns else ""
    config = f"clustered_by={list(spec.bucket_columns)}, buckets={spec.num_buckets}{order}"
    text = f"Bucket {facts.name} with {config}, bucket_hash='{spec.bucket_hash}'."
    return (Change("bucket_spec", text, table=facts.name, spec=spec),)


def retype(facts: TableFacts, columns: Mapping[str, str]) -> Change:
    """Give columns of a table another type."""
    types = " and ".join(f"{name} {column_type}" for name, column_type in columns.items())
    text = f"Make it the same type in both tables: {types} in {facts.name}."
    return Change("column_type", text, table=facts.name, spec=facts.spec, column_types=dict(columns))


def rewrite_files(facts: TableFacts) -> Change:
    """Write a table anew as it is meant to be."""
    text = f"Run `dbt run --full-refresh` to write {facts.name} anew with one sorted file for each bucket."
    return Change("rewrite_files", text, table=facts.name, spec=facts.spec)


def seal(facts: TableFacts) -> Change:
    """Prove that a table's files are its buckets."""
    text = f"Run `spark-bucketing seal {facts.name}` to prove that its files are its buckets, where they are."
    return Change("rewrite_files", text, table=facts.name, spec=facts.spec, planned_as_if={SPARK_LAYOUT: "true"})


def rewrite_partitions(facts: TableFacts, chosen: Sequence[Partition]) -> Change:
    """Bring some partitions to the table's own spec."""
    found = facts.partitions
    if found is None or found.spec is None:
        return rewrite_files(facts)
    where = covering(found, chosen)
    # No full stop after a command, which would be copied along with it.
    text = f"Run `{rewrite_command(facts.name, where)}` to bring {_few(chosen)} to {words(found.spec)}."
    return Change("rewrite_files", text, table=facts.name, spec=facts.spec, where=where)


def _few(chosen: Sequence[Partition]) -> str:
    if len(chosen) == 1:
        return f"partition {chosen[0].name}"
    return f"{len(chosen):,} partitions ({', '.join(found.name for found in chosen[:3])}{', ...' * (len(chosen) > 3)})"


def rewrite_query(text: str, rewrite: Callable[[str], str]) -> Change:
    """Write the query otherwise."""
    return Change("sql", text, rewrite=rewrite)


def leave_out_repartition() -> Change:
    """Leave out what asks for a shuffle."""
    text = "Leave out the hint or clause: REPARTITION, REBALANCE, DISTRIBUTE BY, CLUSTER BY."
    return rewrite_query(text, without_repartitions)


def match_other(movement: Movement) -> Iterator[Change]:
    """Bucket this side's table as the other side's is, by the columns that it is joined with."""
    other, places = movement.other, _columns_by_place(movement)
    if other is None or not places:
        return
    facts = movement.tables[next(iter(places.values())).scan.table or ""]
    for arrival in other.arrivals:
        if not all(min(at) in places for at in arrival.places):
            continue
        columns = [places[min(at)] for at in arrival.places]
        by = tuple(source.column.name.lower() for source in columns)
        kind: BucketHash = "hive" if arrival.kind == "hive" else "spark"
        types = {source.column.name.lower(): source.cast for source in columns if source.wrapped}
        for change in bucket(facts, BucketSpec(arrival.partitions, by, by, kind)):
            yield _with_types(change, types)
        return


def _with_types(change: Change, types: Mapping[str, str]) -> Change:
    if not types:
        return change
    names = " and ".join(f"{name} {column_type}" for name, column_type in types.items())
    text = f"{change.text} Make it the same type as there, too: {names}."
    return replace(change, text=text, column_types=dict(types))


def match_either(movement: Movement) -> tuple[Change, ...]:
    """Bucket one side's table as the other one is, the smaller table first."""
    both = [(movement.facts, tuple(match_other(movement)))]
    if movement.other is not None:
        both.append((movement.other.facts, tuple(match_other(movement.other))))
    ordered = sorted(both, key=lambda item: (item[0].size_bytes if item[0] else None) or 0)
    return tuple(change for _, changes in ordered for change in changes)


def bucket_by_keys(movement: Movement) -> tuple[Change, ...]:
    """Bucket this side's table by the keys themselves, in the number and hash that it has."""
    columns, facts = movement.plain_columns(), movement.facts
    if columns is None or facts is None or facts.spec is None or columns[0] != facts.name:
        return ()
    by = tuple(dict.fromkeys(columns[1]))
    return bucket(facts, replace(facts.spec, bucket_columns=by, sort_columns=by))


def _columns_by_place(movement: Movement) -> dict[int, Source]:
    """The keys of this side that are columns of one table, plain or cast to the other side's type, by their place."""
    times = Counter(source.column.id for source in movement.sources if source)
    found = {
        place: source
        for place, source in enumerate(movement.sources)
        if source and source.scan.table in movement.tables
        # A column that is a key in another type as well has to keep its own.
        if not source.wrapped or (source.cast and times[source.column.id] == 1)
    }
    return found if len({source.scan.number for source in found.values()}) == 1 else {}
