"""The reasons for an Exchange or a Sort in a plan, in the order in which they are evaluated.

The order: causes other than buckets; whether Spark can read the table as bucketed; whether its buckets match the keys,
reach the operator and match the other side; finally, sorts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from spark_bucketing.checks import changes
from spark_bucketing.checks.checked_query import REASON_OF_CODE, BucketedScan, ExchangeOrSort, Setting, Topic
from spark_bucketing.checks.reasons.project import PROJECT_REASONS, ProjectFacts
from spark_bucketing.checks.reasons.reason import Reason, doing, explained, purpose, reason, series
from spark_bucketing.checks.results import Change, Finding, Fix
from spark_bucketing.checks.sql_text import with_plain_equality, without_casts
from spark_bucketing.spec import are_compatible, hash_name


@reason(Topic.EXCHANGE, Topic.SORT)
def no_grouping_keys(step: ExchangeOrSort) -> Finding | None:
    """All rows go to one partition, because there is no grouping key."""
    if step.op.kind == "join" or step.side.keys != ():
        return None
    if step.op.kind == "window":
        return explained("A window without PARTITION BY collects all rows in one task. Buckets cannot prevent this.")
    return explained("An aggregate without GROUP BY sends only one row per task, so it needs no improvement.")


@reason(Topic.JOIN)
def no_equi_join(step: ExchangeOrSort) -> Finding | None:
    """The join condition has no equality between the two sides, and buckets help only with equalities."""
    tables = step.op.tables
    return explained(
        f"{series(tables)} {'are' if len(tables) > 1 else 'is'} joined without an equality between the sides, so "
        "Spark compares every pair of rows. Only an equality of columns can use buckets. If there is one, add it to "
        "the join condition.",
        tables,
    )


@reason(Topic.EXCHANGE_BELOW)
def repartition(step: ExchangeOrSort) -> Finding | None:
    """A hint or clause in the query requests a shuffle."""
    shuffle = step.node.shuffle
    if shuffle is None or not shuffle.requested:
        return None
    message = f"The query requests a shuffle ({shuffle.text}) of its input."
    return explained(message, step.node.tables, (changes.leave_out_repartition(),))


@reason(Topic.END)
def global_sort(step: ExchangeOrSort) -> Finding | None:
    """The final result is sorted, limited or redistributed, which buckets cannot prevent."""
    return explained(f"At the end of the query, {doing(step.node, step)}. Buckets cannot prevent this.")


@reason()
def side_not_bucketed(step: ExchangeOrSort) -> Finding | None:
    """One side of the join is bucketed, but this side is not."""
    if step.other is None or not step.keys:
        return None
    columns = step.plain_columns()
    plain = columns[0] if columns and step.query.tables[columns[0]].spec is None else None
    if step.table and not plain:
        return None
    tables, other = step.side.entry.tables, step.other.table
    named = (plain,) if plain else tables
    here = f"{series(named)} {'are' if len(named) > 1 else 'is'} not bucketed"
    if not named:
        here = "This side of the join does not read a table"
    there = f"; {other.name} has {other.spec.buckets}" if other else ""
    return explained(f"{here}, and is {purpose(step)}{there}.", tables, changes.match_other(step))


@reason(of="table")
def bucketing_disabled(_: ExchangeOrSort, table: BucketedScan) -> Finding | None:
    """A setting makes Spark ignore buckets."""
    if table.settings.on(Setting.BUCKETING):
        return None
    message = f"{table.name} is bucketed, but {Setting.BUCKETING}=false makes Spark ignore buckets."
    return explained(message, changes=(changes.set_to({Setting.BUCKETING: "true"}),))


@reason(of="table")
def hive_layout_without_extension(step: ExchangeOrSort, table: BucketedScan) -> Finding | None:
    """Stock Spark does not read the Hive layout as bucketed, but the session extension does."""
    if not table.spec.in_hive_layout or table.settings.extension:
        return None
    return explained(
        f"{table.name} has {table.spec.buckets} in the Hive layout, but this session does not use the extension that "
        "reads them, so Spark uses an ordinary scan.",
        changes=(changes.switch_extension_on(table.settings), *changes.match_other(step)),
    )


@reason(of="table")
def mixed_bucket_specs(_: ExchangeOrSort, table: BucketedScan) -> Finding | None:
    """The selected partitions have different bucket specs."""
    return _ordinary_scan("mixed-bucket-specs", table, lambda: (changes.rewrite_files(table),))


@reason(of="table")
def unsupported_bucket_column(_: ExchangeOrSort, table: BucketedScan) -> Finding | None:
    """Spark cannot use the buckets because of a bucket column's type or the file reader."""
    # Spark does not use its own file readers, but the reader of Hive, which ignores buckets.
    if table.scan.format == "hive":
        converting = (Setting.CONVERT_PARQUET, Setting.CONVERT_ORC)
        names = " or ".join(f"{name}=false" for name in converting if not table.settings.on(name))
        why = f", because of {names}" if names else ""
        return explained(f"{table.name} cannot be read as bucketed: Hive's own reader reads it{why}.")
    return _ordinary_scan("unsupported-bucket-column", table)


@reason(of="table")
def not_sealed(_: ExchangeOrSort, table: BucketedScan) -> Finding | None:
    """No seal proves that the files are bucketed as the metadata says."""
    if table.scan.code == "files-missing":
        return explained(
            f"Queries of {table.name} fail: {table.scan.words} ({table.scan.code}). Restore the files from a backup, "
            f"or accept the loss with `ALTER TABLE {table.name} SEAL BUCKETS`."
        )
    return _ordinary_scan("not-sealed", table, lambda: (changes.seal_files(table.facts), changes.rewrite_files(table)))


@reason(Topic.BUCKETS, of="table")
def empty_buckets(_: ExchangeOrSort, table: BucketedScan) -> Finding | None:
    """Many buckets are empty, because the keys have a pattern that the table's hash preserves."""
    empty, number = table.facts.empty_buckets, table.spec.num_buckets
    return explained(
        f"{empty} of {number} buckets of {table.name} are empty, so the other {number - empty} have all rows. Run "
        f"`spark-bucketing table show {table.name}` to see whether bucket_hash='hive2' fills all buckets."
    )


@reason(of="table")
def too_few_buckets(_: ExchangeOrSort, table: BucketedScan) -> Finding | None:
    """The table has too few buckets for its size and the session's cores."""
    return _ordinary_scan("too-few-buckets", table)


def _ordinary_scan(slug: str, table: BucketedScan, fixes: Callable[[], changes.Changes] = lambda: ()) -> Finding | None:
    """Explain an ordinary scan if the extension states a code of this reason."""
    if REASON_OF_CODE.get(table.scan.code) != slug:
        return None
    message = f"Spark uses an ordinary scan for {table.name}: {table.scan.words} ({table.scan.code})."
    return explained(message, changes=fixes())


@reason()
def key_types_differ(step: ExchangeOrSort) -> Finding | None:
    """The join keys have different types, so Spark casts one of them and cannot use its buckets."""
    tables = step.query.tables
    for source, theirs in zip(step.sources, step.other.sources if step.other else (), strict=False):
        if not source or not theirs or not source.cast or not source.scan.table or source.scan.table not in tables:
            continue
        here, there = tables[source.scan.table], tables.get(theirs.scan.table or "")
        own = here.columns.get(source.column.lower(), "?")
        stored = there.columns.get(theirs.column.lower(), "?") if there else "?"
        if own == source.cast or (theirs.cast and stored == own):
            continue
        return explained(
            f"{here.name}.{source.column} ({own}) is compared with {theirs.scan.table}.{theirs.column} "
            f"({theirs.cast or stored}). Spark casts the former to {source.cast}, which changes its hash.",
            tuple(dict.fromkeys((here.name, theirs.scan.table or ""))),
            (changes.retype(here, {source.column.lower(): source.cast}), *changes.match_other(step)),
        )
    return None


@reason(of="table")
def expression_over_key(step: ExchangeOrSort, table: BucketedScan) -> Finding | None:
    """A key is an expression or cast over a bucket column, so Spark cannot use the buckets."""
    own = [s for s in step.columns if s.scan.number == table.node.number and s.column.lower() in table.columns]
    wrapped = [source.column for source in own if source.wrapped]
    plain = {source.column.lower() for source in step.sources if source in own and not source.wrapped}
    if not wrapped or plain.issuperset(table.columns):
        return None
    return explained(
        f"{table.name} is bucketed by {series(table.spec.bucket_columns)} but {purpose(step)}. "
        f"Because of the expression over {series(list(dict.fromkeys(wrapped)))}, Spark cannot use the buckets.",
        changes=_without_expressions(step),
    )


@reason(of="table")
def keys_miss_bucket_column(step: ExchangeOrSort, table: BucketedScan) -> Finding | None:
    """A bucket column is missing from the keys."""
    names = step.names_of(table.node)
    missing = [name for name in table.columns if name not in names]
    if not missing:
        return None
    lost = step.lost_at if table.readable else None
    if lost is not None and lost.operator == "Expand":
        return None
    return explained(
        f"{table.name} has {table.spec.buckets} but is {purpose(step)}; the keys do not include {series(missing)}.",
        changes=(*changes.match_other(step), *changes.bucket_by_keys(step)),
    )


@reason(of="read")
def union(step: ExchangeOrSort, table: BucketedScan) -> Finding | None:
    """A UNION loses the buckets of its inputs."""
    node = step.lost_at
    if node is None or node.operator not in ("Union", "BucketUnion"):
        return None
    scans = [step.query.bucketed(scan) for scan in node.scans]
    alike = None not in scans and len({(s.spec.num_buckets, s.spec.bucket_hash) for s in scans if s}) == 1
    return explained(
        f"The UNION of {series(node.tables)} is {purpose(step)} but loses the buckets of its "
        f"inputs.{'' if alike else ' The inputs have different bucket specs.'}",
        node.tables,
        changes.let_extension_read(table, {Setting.UNION: "true"}),
    )


@reason(Topic.EXCHANGE, Topic.EXCHANGE_BELOW)
def repartitioned_below(step: ExchangeOrSort) -> Finding | None:
    """Another operator redistributes the rows: LIMIT, ORDER BY, another join or grouping."""
    if step.about == Topic.EXCHANGE_BELOW:
        limit = step.node.kind == "gather"
        path = (node for node in step.side.way if node.kind != "reused" and not limit)
        above = next((node for node in path if step.node in node.inputs), step.node)
        message = f"Below this operator, {doing(above, step)}. The query itself requires this."
        return explained(message, step.node.tables)
    table, node = step.read, step.lost_at
    if table is None or node is None:
        return None
    found = f"{table.name} has {table.spec.buckets} and is {purpose(step)}"
    message = f"{found}, but {doing(node, step)}."
    asked = node.shuffle is not None and node.shuffle.requested
    return explained(message, (table.name,), (changes.leave_out_repartition(),) if asked else ())


def _without_expressions(step: ExchangeOrSort) -> changes.Changes:
    other = step.other
    if other is None:
        return ()
    if any(key.text.startswith("isnull(") for key in step.keys):
        text = "If the keys are never NULL, use = instead of <=>, INTERSECT or EXCEPT."
        return (Change("sql", text, rewrite=with_plain_equality),)
    pairs = zip(step.sources, other.sources, strict=False)
    if all(here and here.cast and there and there.cast for here, there in pairs):
        text = "Join on the columns themselves, because both sides have the same cast."
        return (Change("sql", text, rewrite=without_casts),)
    return ()


@reason(of="table")
def superset_keys(step: ExchangeOrSort, table: BucketedScan) -> Finding | None:
    """The join has more keys than bucket columns, and a setting requires buckets by all keys."""
    found = step.partitionings
    if step.other is None or not found or not table.settings.on(Setting.ALL_KEYS):
        return None
    every = set(range(len(step.keys)))
    if any(one.kind != "spark" or set().union(*one.places) == every for one in found):
        return None
    return explained(
        f"{table.name} has {table.spec.buckets} but is {purpose(step)}, which includes more keys; "
        f"{Setting.ALL_KEYS}=true requires buckets by all of them.",
        changes=(changes.set_to({Setting.ALL_KEYS: "false"}), *changes.match_either(step)),
    )


@reason()
def hash_mismatch(step: ExchangeOrSort) -> Finding | None:
    """The tables are bucketed with different hash functions."""
    here, there = step.closest or (None, None)
    if not here or not there or here.kind == there.kind or not (here.table and there.table):
        return None
    return explained(
        f"{here.table} is bucketed by {hash_name(here.kind)} and {there.table} by {hash_name(there.kind)}, so equal "
        "keys are in different buckets.",
        (here.table, there.table),
        changes.match_either(step),
    )


@reason(of="table")
def bucket_coalescing_disabled(step: ExchangeOrSort, table: BucketedScan) -> Finding | None:
    """One bucket count is a multiple of the other, but the settings do not allow Spark to combine buckets."""
    here, there = step.closest or (None, None)
    if not here or not there or here.kind != there.kind or here.table is None or there.table is None:
        return None
    few, many = sorted((here.number, there.number))
    if few == many or not are_compatible(few, many):
        return None
    ratio, limit = many // few, int(step.query.settings.get(Setting.COALESCE_RATIO))
    over = f", and {ratio} is above {Setting.COALESCE_RATIO}={limit}" if ratio > limit else ""
    setting = Setting.ALIGNMENT if table.by_extension else Setting.COALESCE
    allow = {Setting.COALESCE: "true", **({Setting.COALESCE_RATIO: str(ratio)} if ratio > limit else {})}
    merging = (changes.set_to(allow), *changes.let_extension_read(table))
    if table.by_extension:
        merging = (changes.set_to({Setting.ALIGNMENT: "coalesce" if ratio > limit else "auto"}),)
    return explained(
        f"{here.table} has {here.number:,} buckets and {there.table} has {there.number:,}. "
        f"{setting}={step.query.settings.get(setting)} does not allow Spark to combine "
        f"{ratio} buckets into one{over}.",
        (here.table, there.table),
        (*merging, *changes.match_either(step)),
    )


@reason()
def bucket_count_mismatch(step: ExchangeOrSort) -> Finding | None:
    """The bucket counts differ, and neither is a multiple of the other."""
    here, there = step.closest or (None, None)
    if not here or not there or here.kind != there.kind or here.number == there.number:
        return None
    tables = tuple(side.table for side in (here, there) if side.table)
    names = [side.table or "the result of an earlier shuffle" for side in (here, there)]
    partitions = changes.set_to({Setting.SHUFFLE_PARTITIONS: str(here.number if here.table else there.number)})
    return explained(
        f"{names[0]} has {here.number:,} {'buckets' if here.table else 'partitions'} but {names[1]} has "
        f"{there.number:,}, so Spark cannot join them bucket by bucket.",
        tables,
        (*((partitions,) if len(tables) < 2 else ()), *changes.match_either(step)),
    )


@reason(of="table")
def bucket_columns_differ(step: ExchangeOrSort, table: BucketedScan) -> Finding | None:
    """The two sides are bucketed by different join keys."""
    other = step.other
    if not step.partitionings or not other or not other.partitionings or other.table is None:
        return None
    return explained(
        f"{table.name} has {table.spec.buckets} and {other.table.name} has {other.table.spec.buckets}, which are "
        "different keys of the join.",
        (table.name, other.table.name),
        changes.match_either(step),
    )


@reason(Topic.SORT, of="table")
def coalesced_buckets_unsorted(step: ExchangeOrSort, table: BucketedScan) -> Finding | None:
    """Spark combines several buckets, which loses their sort order."""
    here, there = step.closest or (None, None)
    if not here or not there or here.table is None or there.table is None:
        return None
    if here.number <= there.number or any(side.exchanges for side in step.op.sides):
        return None
    return explained(
        f"{here.table} has {here.number:,} buckets and {there.table} has {there.number:,}. Spark reads "
        f"{here.number // there.number} sorted files one after another and sorts their rows again.",
        (here.table, there.table),
        (*changes.match_either(step), *changes.let_extension_read(table, {Setting.MERGE_FILES: "64"})),
    )


@reason(Topic.SORT, of="read")
def sort_columns_mismatch(step: ExchangeOrSort, table: BucketedScan) -> Finding | None:
    """The files have a different sort order than the operator requires."""
    wanted = step.order_columns()
    if wanted is not None and _serves(step, table, wanted):
        return None
    have = table.spec.sort_columns
    order = f"sorted by {series([name.lower() for name in have])}" if have else "not sorted"
    words = ", ".join(map(str, step.node.sort.order)) if step.node.sort else ""
    message = f"The files of {table.name} are {order}, but the operator requires the order {words}."
    return explained(message, changes=_in_order(table, wanted or ()))


@reason(Topic.SORT, of="read")
def multiple_partitions(_: ExchangeOrSort, table: BucketedScan) -> Finding | None:
    """A bucket has one file in each of the selected partitions."""
    if table.partitions_read < 2:
        return None
    which = "all" if table.scan.all_partitions else f"{table.partitions_read:,}"
    message = f"The query reads {which} partitions of {table.name}, each with its own sorted file per bucket."
    return explained(message, changes=(changes.merge_files(table),))


@reason(Topic.SORT, of="read")
def multiple_files_per_bucket(_: ExchangeOrSort, table: BucketedScan) -> Finding | None:
    """A bucket has several files."""
    files = table.facts.files_per_bucket
    if files < 2:
        return None
    message = f"A bucket of {table.name} has {files:,} files, each sorted separately."
    return explained(message, changes=(changes.rewrite_files(table), changes.merge_files(table)))


@reason(Topic.SORT, of="read")
def scan_ordering_disabled(_: ExchangeOrSort, table: BucketedScan) -> Finding | None:
    """The files are sorted, but a setting prevents Spark from using their order."""
    if table.by_extension or table.settings.on(Setting.ORDERING):
        return None
    extension = " Stock Spark reads this table, because the extension does not support it."
    return explained(
        f"The files of {table.name} have the required order, but {Setting.ORDERING}=false prevents Spark from using "
        f"it.{extension if table.settings.extension else ''}",
        changes=(changes.set_to({Setting.ORDERING: "true"}), *changes.let_extension_read(table)),
    )


@reason(Topic.SORT, of="table")
def ordering_not_preserved(step: ExchangeOrSort, table: BucketedScan) -> Finding | None:
    """An operator between the table and this operator does not preserve the sort order."""
    node = step.first_above()
    if node is None or not (table.ordered or (table.readable and table.scan.by_extension)):
        return None
    message = f"The files of {table.name} are sorted, but {node.operator} does not preserve this order."
    return explained(message, changes=() if table.by_extension else changes.let_extension_read(table))


@reason(Topic.SORT)
def unordered_input(step: ExchangeOrSort) -> Finding | None:
    """An operator below shuffled the rows, so they are no longer sorted."""
    if step.read and any(found.table for found in step.partitionings):
        return None
    message = f"The rows that are {purpose(step)} come from operators with unsorted output."
    return explained(message, step.side.entry.tables)


def _serves(step: ExchangeOrSort, table: BucketedScan, wanted: tuple[str, ...]) -> bool:
    have = tuple(name.lower() for name in table.spec.sort_columns)[: len(wanted)]
    # A join compares its keys in the order of the bucket columns.
    if step.op.kind == "join" and sorted(wanted) == sorted(table.columns):
        return sorted(have) == sorted(wanted)
    return have == wanted


def _in_order(table: BucketedScan, wanted: tuple[str, ...]) -> changes.Changes:
    first = [name for name in table.columns if name in wanted]
    orders = dict.fromkeys([wanted, (*first, *(name for name in wanted if name not in first))])
    specs = (replace(table.spec, sort_columns=order) for order in orders if order)
    return tuple(change for spec in specs for change in changes.bucket(table.facts, spec))


@reason(Topic.EXCHANGE, Topic.EXCHANGE_BELOW, Topic.SORT, Topic.JOIN)
def unexplained(step: ExchangeOrSort) -> Finding | None:
    """Check does not know the reason, which is a gap in check itself."""
    article = "an" if step.about.startswith(Topic.EXCHANGE) else "a"
    message = f"Spark adds {article} {step.about} here, but check does not know the reason."
    return explained(message, step.side.entry.tables)


REASONS = tuple(found for found in list(globals().values()) if isinstance(found, Reason))
EVERY_REASON = (*REASONS, *PROJECT_REASONS)


def finding_of(step: ExchangeOrSort) -> Finding:
    """Return the finding of the first reason that applies."""
    asked = (one.find(step) for one in REASONS if step.about in one.about)
    finding: Finding = next(filter(None, asked))
    return finding


def project_findings(project: ProjectFacts) -> tuple[Finding, ...]:
    """Return the findings that concern the whole project, whose changes need no test."""
    found = (finding for reason in PROJECT_REASONS for finding in reason.find(project))
    return tuple(replace(one, fixes=tuple(Fix(**vars(change)) for change in one.changes), changes=()) for one in found)
