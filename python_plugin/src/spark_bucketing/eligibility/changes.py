"""What could be changed: settings, tables and queries, in the words for the user."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from spark_bucketing.eligibility.lineage import Source
from spark_bucketing.eligibility.steps import Change, Step
from spark_bucketing.eligibility.world import World
from spark_bucketing.evolution.commands import rewriting
from spark_bucketing.evolution.covering import covering
from spark_bucketing.evolution.model import Partition, RecordState, words
from spark_bucketing.extension.settings import EXTENSION_CLASS
from spark_bucketing.plan import Node
from spark_bucketing.spec import BucketHash, BucketSpec

SPARK_LAYOUT = "spark.bucketing.read.sparkLayout"


def set_to(world: World, settings: Mapping[str, str], why: str = "") -> Change:
    """Give settings other values."""
    words = " and ".join(f"{name}={value}" for name, value in settings.items())
    return Change("setting", f"Set {words}{why}.", world.setting(settings), {"settings": dict(settings)})


def switch_extension_on(world: World) -> Change:
    """Load the extension, or switch it on where it is loaded."""
    if world.loaded:
        settings = {"spark.bucketing.enabled": "true"}
        return Change("extension", "Set spark.bucketing.enabled=true.", world.setting(settings), {"settings": settings})
    others = [name for name in world.get("spark.sql.extensions").split(",") if name.strip()]
    settings = {"spark.sql.extensions": ",".join([*others, EXTENSION_CLASS]), "spark.bucketing.enabled": "true"}
    text = "Load the session extension: `spark-bucketing extension conf` prints the settings."
    return Change("extension", text, world.setting(settings), {"settings": settings})


def let_extension_read(world: World, table: str) -> tuple[Change, ...]:
    """Have the extension read a table that stock Spark reads; nothing where it cannot."""
    if not world.extension:
        return (switch_extension_on(world),)
    spec = world.spec(table)
    if spec is None or spec.bucket_hash != "spark" or world.on(SPARK_LAYOUT):
        return ()
    return (set_to(world, {SPARK_LAYOUT: "true"}),)


def bucket(world: World, table: str, spec: BucketSpec) -> Change:
    """Write a table anew with this spec."""
    order = f", sorted_by={list(spec.sort_columns)}" if spec.sort_columns != spec.bucket_columns else ""
    config = f"clustered_by={list(spec.bucket_columns)}, buckets={spec.num_buckets}{order}"
    text = f"Bucket {table} with {config}, bucket_hash='{spec.bucket_hash}'."
    return Change("bucket_spec", text, world.bucketing(table, spec), {"table": table, "spec": spec})


def retype(world: World, table: str, columns: Mapping[str, str]) -> Change:
    """Give columns of a table another type."""
    words = " and ".join(f"{name} {column_type}" for name, column_type in columns.items())
    text = f"Make it the same type in both tables: {words} in {table}."
    return Change("column_type", text, world.retyping(table, columns), {"table": table, "column_types": dict(columns)})


def rewrite_files(world: World, table: str) -> Change:
    """Write a table anew as it is meant to be."""
    changed = replace(world, rewritten=world.rewritten | {table})
    text = f"Run `dbt run --full-refresh` to write {table} anew with one sorted file for each bucket."
    return Change("rewrite_files", text, changed, {"table": table})


def rewrite_partitions(world: World, table: str, chosen: Sequence[Partition]) -> Change:
    """Bring some partitions to the table's own spec."""
    facts = world.tables[table]
    found = facts.partitions
    if found is None or found.spec is None:
        return rewrite_files(world, table)
    where = covering(found, chosen)
    names = {partition.name for partition in chosen}
    after = tuple(
        replace(partition, state=RecordState.BUCKETED, spec=found.spec) if partition.name in names else partition
        for partition in found.partitions
    )
    changed = replace(
        world,
        tables={**world.tables, table: replace(facts, partitions=replace(found, partitions=after))},
        rewritten=world.rewritten | {table},
    )
    command = rewriting(table, where)
    # No full stop after a command, which would be copied along with it.
    text = f"Run `{command}` to bring {_few(chosen)} to {words(found.spec)}."
    return Change("rewrite_files", text, changed, {"table": table, "where": where})


def _few(chosen: Sequence[Partition]) -> str:
    if len(chosen) == 1:
        return f"partition {chosen[0].name}"
    return f"{len(chosen):,} partitions ({', '.join(found.name for found in chosen[:3])}{', ...' * (len(chosen) > 3)})"


def rewrite_query(text: str, world: World) -> Change:
    """Write the query otherwise."""
    return Change("sql", text, world)


def leave_out(node: Node, world: World) -> Change:
    """Leave out a hint or clause that asks for a shuffle."""
    changed = replace(world, skipped=world.skipped | {node.number})
    return rewrite_query("Leave out the hint or clause: REPARTITION, REBALANCE, DISTRIBUTE BY, CLUSTER BY.", changed)


def match_other(step: Step) -> Iterator[Change]:
    """Bucket this side's table as the other side's is, by the columns that it is joined with."""
    other, places = step.other, _columns_by_place(step)
    if other is None or not places:
        return
    table = next(iter(places.values())).scan.table or ""
    for found in other.within:
        if found.hashed.table is None or not all(min(at) in places for at in found.places):
            continue
        columns = [places[min(at)] for at in found.places]
        by = tuple(source.column.name.lower() for source in columns)
        kind: BucketHash = "hive" if found.hashed.kind == "hive" else "spark"
        spec = BucketSpec(found.hashed.partitions, by, by, kind)
        types = {source.column.name.lower(): source.cast for source in columns if source.wrapped}
        if spec != step.world.spec(table):
            yield _with_types(bucket(step.world, table, spec), table, types)
        return


def _with_types(change: Change, table: str, types: Mapping[str, str]) -> Change:
    if not types:
        return change
    also = retype(change.world, table, types)
    words = " and ".join(f"{name} {column_type}" for name, column_type in types.items())
    text = f"{change.text} Make it the same type as there, too: {words}."
    return Change(change.kind, text, also.world, {**change.fields, "column_types": dict(types)})


def match_either(step: Step) -> tuple[Change, ...]:
    """Bucket one side's table as the other one is, the smaller table first."""
    both = [(step.table, tuple(match_other(step)))]
    if step.other is not None:
        both.append((step.other.table, tuple(match_other(step.other))))

    def size(item: tuple[str, tuple[Change, ...]]) -> int:
        facts = step.world.tables.get(item[0])
        return (facts.size_bytes if facts else None) or 0

    return tuple(change for _, changes in sorted(both, key=size) for change in changes)


def bucket_by_keys(step: Step) -> tuple[Change, ...]:
    """Bucket this side's table by the keys themselves, in the number and hash that it has."""
    columns = step.plain_columns()
    if columns is None or columns[0] != step.table or step.spec is None:
        return ()
    by = tuple(dict.fromkeys(columns[1]))
    return (bucket(step.world, step.table, replace(step.spec, bucket_columns=by, sort_columns=by)),)


def _columns_by_place(step: Step) -> dict[int, Source]:
    """The keys of this side that are columns of one table, plain or cast to the other side's type, by their place."""
    times = Counter(source.column.id for source in step.sources if source)
    found = {
        place: source
        for place, source in enumerate(step.sources)
        if source and source.scan.table in step.world.tables
        # A column that is a key in another type as well has to keep its own.
        if not source.wrapped or (source.cast and times[source.column.id] == 1)
    }
    return found if len({source.scan.number for source in found.values()}) == 1 else {}
