"""Propose changes to settings, tables and queries; Spark's plans show whether they help."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

from spark_bucketing.checks.checked_query import BucketedScan, ExchangeOrSort, Setting, Settings, selected_partitions
from spark_bucketing.checks.results import Change
from spark_bucketing.checks.sql_text import without_repartitions
from spark_bucketing.extension.settings import EXTENSION_CLASS
from spark_bucketing.plan.document import Source, TableFacts
from spark_bucketing.spec import BucketSpec
from spark_bucketing.tables.metadata import Merging, Partition, TableMetadata, smallest_rewrite
from spark_bucketing.tables.rewrite import covering, rewrite_command

Changes = tuple[Change, ...]


def set_to(settings: Mapping[str, str]) -> Change:
    """Propose setting Spark settings to these values."""
    return Change("setting", f"Set {' and '.join(f'{name}={value}' for name, value in settings.items())}.", settings)


def switch_extension_on(settings: Settings) -> Change:
    """Propose loading the extension, or enabling it if it is loaded."""
    if settings.loaded:
        return Change("extension", f"Set {Setting.ENABLED}=true.", {Setting.ENABLED: "true"})
    others = [name for name in settings.get(Setting.EXTENSIONS).split(",") if name.strip()]
    name = Setting.EXTENSIONS
    text = f"Load the session extension with {name}={EXTENSION_CLASS}: see `spark-bucketing extension conf`."
    return Change("extension", text, {name: ",".join([*others, EXTENSION_CLASS]), Setting.ENABLED: "true"})


def let_extension_read(scan: BucketedScan, settings: Mapping[str, str] | None = None) -> Changes:
    """Propose reading a table with the extension or, if it already reads the table, these settings, if any."""
    if scan.by_extension and settings:
        return (set_to(settings),)
    if not scan.settings.extension:
        return (switch_extension_on(scan.settings),)
    if not scan.settings.on(Setting.SPARK_LAYOUT):
        return (set_to({Setting.SPARK_LAYOUT: "true"}),)
    return (seal_files(scan.facts),) if scan.left_to_stock else ()


def merge_files(scan: BucketedScan) -> Change:
    """Propose that the extension merge the sorted files of each bucket while it reads them."""
    if not scan.settings.extension:
        return switch_extension_on(scan.settings)
    return set_to({Setting.MERGE_FILES: str(max(64, scan.files))})


def bucket(facts: TableFacts, spec: BucketSpec, types: Mapping[str, str] | None = None) -> Changes:
    """Propose rewriting a table with this spec and these types, or nothing if they cannot be bucket columns."""
    taken = {name.lower() for name in facts.partition_columns}
    if spec == facts.spec or taken & {name.lower() for name in (*spec.bucket_columns, *spec.sort_columns)}:
        return ()
    text = f"Bucket {facts.name} with {spec.config}."
    if types:
        text += f" Use the same types as the other table: {_typed(types)}."
    return (Change("bucket_spec", text, table=facts.name, spec=spec, column_types=types or {}),)


def retype(facts: TableFacts, types: Mapping[str, str]) -> Change:
    """Propose other types for some columns of a table."""
    text = f"Use the same type in both tables: {_typed(types)} in {facts.name}."
    return Change("column_type", text, table=facts.name, column_types=types)


def seal_files(facts: TableFacts) -> Change:
    """Propose sealing a table's existing files."""
    text = f"If every row is in the correct bucket, run `spark-bucketing table seal {facts.name}` to seal the files."
    return Change("rewrite_files", text, table=facts.name, planned_as_if={Setting.SPARK_LAYOUT: "true"})


def rewrite_files(scan: BucketedScan) -> Change:
    """Propose rewriting a table, or the fewest partitions with which Spark uses a bucketed scan."""
    facts = scan.facts
    if facts.partitions is not None and facts.partitions.spec is not None:
        selected = selected_partitions(scan.scan, facts.partitions)
        # The default settings for merging; the reason for the ordinary scan takes precedence.
        if chosen := smallest_rewrite(facts.partitions, selected, Merging()):
            return rewrite_partitions(facts.partitions, chosen)
    text = f"Run `dbt run --full-refresh` to rewrite {facts.name} with one sorted file per bucket."
    return Change("rewrite_files", text, table=facts.name)


def rewrite_partitions(table: TableMetadata, chosen: Sequence[Partition]) -> Change:
    """Propose rewriting some partitions with the table's current bucket spec."""
    where = covering(table, chosen)
    few = f"partition {chosen[0].name}"
    if len(chosen) > 1:
        names = ", ".join(found.name for found in chosen[:3]) + ", ..." * (len(chosen) > 3)
        few = f"{len(chosen):,} partitions ({names})"
    # The text has no period directly after the command, because users would copy it.
    text = f"Run `{rewrite_command(table.name, where)}` to rewrite {few} with {table.spec}."
    return Change("rewrite_files", text, table=table.name, where=where)


def leave_out_repartition() -> Change:
    """Propose removing the hints and clauses with which the query requests a shuffle."""
    text = "Remove the hint or clause that requests a shuffle: REPARTITION, REBALANCE, DISTRIBUTE BY or CLUSTER BY."
    return Change("sql", text, rewrite=without_repartitions)


def match_other(step: ExchangeOrSort) -> Changes:
    """Propose giving this side's table the other side's bucket spec, by the corresponding join keys."""
    places = _columns_by_place(step)
    if step.other is None or not places:
        return ()
    for there in step.other.partitionings:
        if all(min(at) in places for at in there.places):
            columns = [places[min(at)] for at in there.places]
            by = tuple(source.column.lower() for source in columns)
            types = {source.column.lower(): source.cast for source in columns if source.wrapped}
            table = step.query.tables[columns[0].scan.table or ""]
            return bucket(table, BucketSpec(there.number, by, by, there.kind), types)
    return ()


def match_either(step: ExchangeOrSort) -> Changes:
    """Propose giving one side's table the other side's bucket spec, first the smaller table."""
    sides = [step, *([step.other] if step.other else [])]
    sides.sort(key=lambda side: (side.table.facts.size_bytes if side.table else None) or 0)
    return tuple(change for side in sides for change in match_other(side))


def bucket_by_keys(step: ExchangeOrSort) -> Changes:
    """Propose bucketing this side's table by the operator's keys, with its current bucket count and hash."""
    columns, table = step.plain_columns(), step.table
    if columns is None or table is None or columns[0] != table.name:
        return ()
    by = tuple(dict.fromkeys(columns[1]))
    return bucket(table.facts, replace(table.spec, bucket_columns=by, sort_columns=by))


def _columns_by_place(step: ExchangeOrSort) -> dict[int, Source]:
    """Map positions of keys to columns of one table: the key is the column, or the join's cast of it."""
    times = Counter(source.id for source in step.sources if source)
    found = {
        place: source
        for place, source in enumerate(step.sources)
        if source and source.scan.table in step.query.tables
        # A column that is also a key with another type must keep its type.
        if not source.wrapped or (source.cast and times[source.id] == 1)
    }
    return found if len({source.scan.number for source in found.values()}) == 1 else {}


def _typed(types: Mapping[str, str]) -> str:
    return " and ".join(f"{name} {column_type}" for name, column_type in types.items())
