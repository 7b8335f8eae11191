"""What could be changed: settings, tables and queries, in words for the user; Spark's plans show whether it helps."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from spark_bucketing.check.results import Candidate
from spark_bucketing.check.scans import MERGING, BucketedScan, TableFacts, selected_partitions
from spark_bucketing.check.session_settings import ENABLED, EXTENSIONS, MERGE_FILES, SPARK_LAYOUT, Settings
from spark_bucketing.check.sql_text import without_repartitions
from spark_bucketing.evolution.compatibility import smallest_rewrite
from spark_bucketing.evolution.model import Partition, Table, words
from spark_bucketing.evolution.partition_predicates import covering, rewrite_command
from spark_bucketing.extension.settings import EXTENSION_CLASS
from spark_bucketing.spec import BucketHash, BucketSpec

if TYPE_CHECKING:
    from spark_bucketing.check.reasons.exchanges_and_sorts import ExchangeOrSort
    from spark_bucketing.plan.lineage import Source

Candidates = tuple[Candidate, ...]


def set_to(settings: Mapping[str, str]) -> Candidate:
    """Give settings other values."""
    return Candidate("setting", f"Set {' and '.join(f'{name}={value}' for name, value in settings.items())}.", settings)


def switch_extension_on(settings: Settings) -> Candidate:
    """Load the extension, or switch it on where it is loaded."""
    if settings.loaded:
        return Candidate("extension", f"Set {ENABLED}=true.", {ENABLED: "true"})
    others = [name for name in settings.get(EXTENSIONS).split(",") if name.strip()]
    text = "Load the session extension: `spark-bucketing extension conf` prints the settings."
    return Candidate("extension", text, {EXTENSIONS: ",".join([*others, EXTENSION_CLASS]), ENABLED: "true"})


def let_extension_read(scan: BucketedScan) -> Candidates:
    """Have the extension read a table that stock Spark reads; nothing where it does already."""
    if not scan.settings.extension:
        return (switch_extension_on(scan.settings),)
    if not scan.settings.on(SPARK_LAYOUT):
        return (set_to({SPARK_LAYOUT: "true"}),)
    return (seal_files(scan.facts),) if scan.left_to_stock else ()


def merge_files(scan: BucketedScan) -> Candidate:
    """Have the extension merge sorted files of a bucket while it reads them."""
    if not scan.settings.extension:
        return switch_extension_on(scan.settings)
    return set_to({MERGE_FILES: str(max(64, scan.files))})


def bucket(facts: TableFacts, spec: BucketSpec, types: Mapping[str, str] | None = None) -> Candidates:
    """Write a table anew with this spec, and other types of columns; nothing where Spark refuses its columns."""
    taken = {name.lower() for name in facts.partition_columns}
    if spec == facts.spec or taken & {name.lower() for name in (*spec.bucket_columns, *spec.sort_columns)}:
        return ()
    text = f"Bucket {facts.name} with {spec.config}."
    if types:
        text += f" Make it the same type as there, too: {_typed(types)}."
    return (Candidate("bucket_spec", text, table=facts.name, spec=spec, column_types=types or {}),)


def retype(facts: TableFacts, types: Mapping[str, str]) -> Candidate:
    """Give columns of a table another type."""
    text = f"Make it the same type in both tables: {_typed(types)} in {facts.name}."
    return Candidate("column_type", text, table=facts.name, column_types=types)


def seal_files(facts: TableFacts) -> Candidate:
    """Prove that a table's files are its buckets."""
    text = f"Run `spark-bucketing seal {facts.name}` to prove that its files are its buckets, where they are."
    return Candidate("rewrite_files", text, table=facts.name, planned_as_if={SPARK_LAYOUT: "true"})


def rewrite_files(scan: BucketedScan) -> Candidate:
    """Write a table anew as it is meant to be, or as few of its partitions as give the scan its buckets."""
    facts = scan.facts
    if facts.partitions is not None and facts.partitions.spec is not None:
        selected = selected_partitions(scan.node, facts.partitions, scan.folders)
        if chosen := smallest_rewrite(facts.partitions, selected, MERGING):
            return rewrite_partitions(facts.partitions, chosen)
    text = f"Run `dbt run --full-refresh` to write {facts.name} anew with one sorted file for each bucket."
    return Candidate("rewrite_files", text, table=facts.name)


def rewrite_partitions(table: Table, chosen: Sequence[Partition]) -> Candidate:
    """Bring some partitions to the table's own spec."""
    where = covering(table, chosen)
    few = f"partition {chosen[0].name}"
    if len(chosen) > 1:
        names = ", ".join(found.name for found in chosen[:3]) + ", ..." * (len(chosen) > 3)
        few = f"{len(chosen):,} partitions ({names})"
    # No full stop after a command, which would be copied along with it.
    text = f"Run `{rewrite_command(table.name, where)}` to bring {few} to {words(table.spec)}."
    return Candidate("rewrite_files", text, table=table.name, where=where)


def leave_out_repartition() -> Candidate:
    """Leave out what asks for a shuffle."""
    text = "Leave out the hint or clause: REPARTITION, REBALANCE, DISTRIBUTE BY, CLUSTER BY."
    return Candidate("sql", text, rewrite=without_repartitions)


def match_other(exchange_or_sort: ExchangeOrSort) -> Candidates:
    """Bucket this side's table as the other side's is, by the columns that it is joined with."""
    places = _columns_by_place(exchange_or_sort)
    if exchange_or_sort.other is None or not places:
        return ()
    for there in exchange_or_sort.other.partitionings:
        if all(min(at) in places for at in there.places):
            columns = [places[min(at)] for at in there.places]
            by = tuple(source.column.name.lower() for source in columns)
            kind: BucketHash = "hive" if there.kind == "hive" else "spark"
            types = {source.column.name.lower(): source.cast for source in columns if source.wrapped}
            table = exchange_or_sort.query.tables[columns[0].scan.table or ""]
            return bucket(table, BucketSpec(there.number, by, by, kind), types)
    return ()


def match_either(exchange_or_sort: ExchangeOrSort) -> Candidates:
    """Bucket one side's table as the other one is, the smaller table first."""
    sides = [exchange_or_sort, *([exchange_or_sort.other] if exchange_or_sort.other else [])]
    sides.sort(key=lambda side: (side.table.facts.size_bytes if side.table else None) or 0)
    return tuple(candidate for side in sides for candidate in match_other(side))


def bucket_by_keys(exchange_or_sort: ExchangeOrSort) -> Candidates:
    """Bucket this side's table by the keys themselves, in the number and hash that it has."""
    columns, table = exchange_or_sort.plain_columns(), exchange_or_sort.table
    if columns is None or table is None or columns[0] != table.name:
        return ()
    by = tuple(dict.fromkeys(columns[1]))
    return bucket(table.facts, replace(table.spec, bucket_columns=by, sort_columns=by))


def _columns_by_place(exchange_or_sort: ExchangeOrSort) -> dict[int, Source]:
    """The keys of this side that are columns of one table, plain or cast to the other side's type, by their place."""
    times = Counter(source.column.id for source in exchange_or_sort.sources if source)
    found = {
        place: source
        for place, source in enumerate(exchange_or_sort.sources)
        if source and source.scan.table in exchange_or_sort.query.tables
        # A column that is a key in another type as well has to keep its own.
        if not source.wrapped or (source.cast and times[source.column.id] == 1)
    }
    return found if len({source.scan.number for source in found.values()}) == 1 else {}


def _typed(types: Mapping[str, str]) -> str:
    return " and ".join(f"{name} {column_type}" for name, column_type in types.items())
