"""Reasons why Spark shuffles: the query, scans without buckets, keys, and the two sides of a join."""

from __future__ import annotations

from spark_bucketing.checks.changes import (
    Changes,
    bucket_by_keys,
    leave_out_repartition,
    let_extension_read,
    match_either,
    match_other,
    retype,
    rewrite_files,
    seal_files,
    set_to,
    switch_extension_on,
)
from spark_bucketing.checks.checked_query import COLUMN_CODES, MIXED_CODES, SEAL_CODES, TASK_CODES, BucketedScan
from spark_bucketing.checks.reasons.exchanges_and_sorts import END, EXCHANGE, EXCHANGE_BELOW, JOIN, SORT, ExchangeOrSort
from spark_bucketing.checks.reasons.reason import Explanation, buckets, doing, purpose, reason, series
from spark_bucketing.checks.results import Change
from spark_bucketing.checks.session_settings import (
    ALIGNMENT,
    ALL_KEYS,
    BUCKETING,
    COALESCE,
    COALESCE_RATIO,
    CONVERT_METASTORE,
    SHUFFLE_PARTITIONS,
    UNION,
)
from spark_bucketing.checks.sql_text import with_plain_equality, without_casts
from spark_bucketing.spec import are_compatible, hash_name


@reason("all rows go to one partition, because there is no grouping key", EXCHANGE, SORT)
def no_grouping_keys(exchange_or_sort: ExchangeOrSort) -> Explanation | None:
    """An aggregate without GROUP BY or a window without PARTITION BY collects all rows in one task."""
    if exchange_or_sort.op.kind == "join" or exchange_or_sort.side.keys != ():
        return None
    if exchange_or_sort.op.kind == "window":
        return Explanation("A window without PARTITION BY collects all rows in one task. Buckets cannot prevent this.")
    return Explanation("An aggregate without GROUP BY sends only one row per task, so it needs no improvement.")


@reason("the join condition has no equality between the two sides, and buckets help only with equalities", JOIN)
def no_equi_join(exchange_or_sort: ExchangeOrSort) -> Explanation | None:
    """The join condition does not require equal values on both sides, so Spark compares every pair of rows."""
    tables = exchange_or_sort.op.tables
    return Explanation(
        f"{series(tables)} {'are' if len(tables) > 1 else 'is'} joined without an equality between the sides, so "
        "Spark compares every pair of rows. Only an equality of columns can use buckets. If there is one, add it to "
        "the join condition.",
        tables,
    )


@reason("a hint or clause in the query requests a shuffle", EXCHANGE_BELOW)
def repartition(exchange_or_sort: ExchangeOrSort) -> Explanation | None:
    """A hint or clause in the query makes Spark shuffle the rows."""
    shuffle = exchange_or_sort.node.shuffle
    if shuffle is None or not shuffle.requested:
        return None
    message = f"The query requests a shuffle ({shuffle.text}) of its input."
    return Explanation(message, exchange_or_sort.node.tables, (leave_out_repartition(),))


@reason("the final result is sorted, limited or redistributed, which buckets cannot prevent", END)
def global_sort(exchange_or_sort: ExchangeOrSort) -> Explanation | None:
    """After all joins and aggregations, the query sorts, limits or redistributes its result."""
    return Explanation(
        f"At the end of the query, {doing(exchange_or_sort.node, exchange_or_sort)}. Buckets cannot prevent this."
    )


@reason("one side of the join is bucketed, but this side is not")
def side_not_bucketed(exchange_or_sort: ExchangeOrSort) -> Explanation | None:
    """Only the other side of the join is bucketed, so Spark shuffles this side."""
    if exchange_or_sort.other is None or not exchange_or_sort.keys:
        return None
    columns = exchange_or_sort.plain_columns()
    plain = columns[0] if columns and exchange_or_sort.query.tables[columns[0]].spec is None else None
    if exchange_or_sort.table and not plain:
        return None
    tables, other = exchange_or_sort.side.entry.tables, exchange_or_sort.other.table
    named = (plain,) if plain else tables
    here = f"{series(named)} {'are' if len(named) > 1 else 'is'} not bucketed"
    if not named:
        here = "This side of the join does not read a table"
    there = f"; {other.name} has {buckets(other.spec)}" if other else ""
    return Explanation(f"{here}, and is {purpose(exchange_or_sort)}{there}.", tables, match_other(exchange_or_sort))


@reason("a setting makes Spark ignore buckets", of="table")
def bucketing_disabled(_: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """The setting `spark.sql.sources.bucketing.enabled=false` makes Spark ignore the buckets of all tables."""
    if table.settings.on(BUCKETING):
        return None
    message = f"{table.name} is bucketed, but {BUCKETING}=false makes Spark ignore buckets."
    return Explanation(message, changes=(set_to({BUCKETING: "true"}),))


@reason("stock Spark does not read the Hive layout as bucketed, but the session extension does", of="table")
def hive_layout_without_extension(exchange_or_sort: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """Stock Spark uses ordinary scans for tables in the Hive layout."""
    if not table.spec.in_hive_layout or table.settings.extension:
        return None
    return Explanation(
        f"{table.name} has {buckets(table.spec)} in the Hive layout, but this session does not use the extension that "
        "reads them, so Spark uses an ordinary scan.",
        changes=(switch_extension_on(table.settings), *match_other(exchange_or_sort)),
    )


@reason("the selected partitions have different bucket specs", of="table")
def mixed_bucket_specs(_: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """The partitions that the query selects have different bucket specs, so Spark uses an ordinary scan."""
    if table.scan.code not in MIXED_CODES:
        return None
    return Explanation(
        f"Spark uses an ordinary scan for {table.name}: {table.scan.words}.", changes=(rewrite_files(table),)
    )


@reason("Spark cannot use the buckets because of a bucket column's type or the file reader", of="table")
def unsupported_bucket_column(_: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """Spark cannot use the table's buckets because of a bucket column's type or the session's file reader."""
    if table.by_hive_reader:
        names = " or ".join(f"{name}=false" for name in CONVERT_METASTORE if not table.settings.on(name))
        why = f", because of {names}" if names else ""
        return Explanation(f"{table.name} cannot be read as bucketed: Hive's own reader reads it{why}.")
    if table.scan.code not in COLUMN_CODES:
        return None
    return Explanation(f"{table.name} cannot be read as bucketed: {table.scan.words}.")


@reason("no seal proves that the files are bucketed as the metadata says", of="table")
def not_sealed(_: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """No valid seal covers the table's files, so Spark uses an ordinary scan."""
    if table.scan.code not in SEAL_CODES:
        return None
    if table.scan.code == "files-missing":
        accept = f"ALTER TABLE {table.name} SEAL BUCKETS"
        return Explanation(
            f"Queries of {table.name} fail: {table.scan.words} ({table.scan.code}). Restore the files from a backup, "
            f"or accept the loss with `{accept}`."
        )
    message = f"Spark uses an ordinary scan for {table.name}: {table.scan.words} ({table.scan.code})."
    return Explanation(message, changes=(seal_files(table.facts), rewrite_files(table)))


@reason("the table has too few buckets for its size and the session's cores", of="table")
def too_few_buckets(_: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """A shuffle is faster than a bucketed scan of this table, so the extension does not use its buckets."""
    if table.scan.code not in TASK_CODES:
        return None
    return Explanation(f"Spark uses an ordinary scan for {table.name}: {table.scan.words} ({table.scan.code}).")


@reason("the join keys have different types, so Spark casts one of them and cannot use its buckets")
def key_types_differ(exchange_or_sort: ExchangeOrSort) -> Explanation | None:
    """The join keys have different types, so Spark casts one of them, and the cast changes its hash."""
    tables = exchange_or_sort.query.tables
    for source, theirs in zip(
        exchange_or_sort.sources, exchange_or_sort.other.sources if exchange_or_sort.other else (), strict=False
    ):
        if not source or not theirs or not source.cast or not source.scan.table or source.scan.table not in tables:
            continue
        here, there = tables[source.scan.table], tables.get(theirs.scan.table or "")
        own = here.columns.get(source.column.lower(), "?")
        stored = there.columns.get(theirs.column.lower(), "?") if there else "?"
        if own == source.cast or (theirs.cast and stored == own):
            continue
        return Explanation(
            f"{here.name}.{source.column} ({own}) is compared with {theirs.scan.table}.{theirs.column} "
            f"({theirs.cast or stored}). Spark casts the former to {source.cast}, which changes its hash.",
            tuple(dict.fromkeys((here.name, theirs.scan.table or ""))),
            (retype(here, {source.column.lower(): source.cast}), *match_other(exchange_or_sort)),
        )
    return None


@reason("a key is an expression or cast over a bucket column, so Spark cannot use the buckets", of="table")
def expression_over_key(exchange_or_sort: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """The key is an expression over a bucket column, but the table is bucketed by the column itself."""
    own = [
        s for s in exchange_or_sort.columns if s.scan.number == table.node.number and s.column.lower() in table.columns
    ]
    wrapped = [source.column for source in own if source.wrapped]
    plain = {source.column.lower() for source in exchange_or_sort.sources if source in own and not source.wrapped}
    if not wrapped or plain.issuperset(table.columns):
        return None
    return Explanation(
        f"{table.name} is bucketed by {series(table.spec.bucket_columns)} but {purpose(exchange_or_sort)}. "
        f"Because of the expression over {series(list(dict.fromkeys(wrapped)))}, Spark cannot use the buckets.",
        changes=_without_expressions(exchange_or_sort),
    )


@reason("a bucket column is missing from the keys", of="table")
def keys_miss_bucket_column(exchange_or_sort: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """A bucket column is missing from the keys, so rows with equal keys can be in different buckets."""
    names = exchange_or_sort.names_of(table.node)
    missing = [name for name in table.columns if name not in names]
    if not missing:
        return None
    lost = exchange_or_sort.lost_at if table.readable else None
    if lost is not None and lost.operator == "Expand":
        return None
    return Explanation(
        f"{table.name} has {buckets(table.spec)} but is {purpose(exchange_or_sort)}; the keys do not include "
        f"{series(missing)}.",
        changes=(*match_other(exchange_or_sort), *bucket_by_keys(exchange_or_sort)),
    )


@reason("a UNION loses the buckets of its inputs", of="read")
def union(exchange_or_sort: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """A UNION concatenates the partitions of its inputs, so its output has no buckets."""
    node = exchange_or_sort.lost_at
    if node is None or node.operator not in ("Union", "BucketUnion"):
        return None
    scans = [exchange_or_sort.query.bucketed(scan) for scan in node.scans]
    alike = None not in scans and len({(s.spec.num_buckets, s.spec.bucket_hash) for s in scans if s}) == 1
    return Explanation(
        f"The UNION of {series(node.tables)} is {purpose(exchange_or_sort)} but loses the buckets of its "
        f"inputs.{'' if alike else ' The inputs have different bucket specs.'}",
        node.tables,
        (set_to({UNION: "true"}),) if table.by_extension else let_extension_read(table),
    )


@reason(
    "another operator redistributes the rows: LIMIT, ORDER BY, another join or grouping",
    EXCHANGE,
    EXCHANGE_BELOW,
)
def repartitioned_below(exchange_or_sort: ExchangeOrSort) -> Explanation | None:
    """An operator between the table and this operator redistributes the rows."""
    if exchange_or_sort.about == EXCHANGE_BELOW:
        limit = exchange_or_sort.node.kind == "gather"
        path = (node for node in exchange_or_sort.side.way if node.kind != "reused" and not limit)
        above = next((node for node in path if exchange_or_sort.node in node.inputs), exchange_or_sort.node)
        message = f"Below this operator, {doing(above, exchange_or_sort)}. The query itself requires this."
        return Explanation(message, exchange_or_sort.node.tables)
    table, node = exchange_or_sort.read, exchange_or_sort.lost_at
    if table is None or node is None:
        return None
    found = f"{table.name} has {buckets(table.spec)} and is {purpose(exchange_or_sort)}"
    message = f"{found}, but {doing(node, exchange_or_sort)}."
    asked = node.shuffle is not None and node.shuffle.requested
    return Explanation(message, (table.name,), (leave_out_repartition(),) if asked else ())


def _without_expressions(exchange_or_sort: ExchangeOrSort) -> Changes:
    other = exchange_or_sort.other
    if other is None:
        return ()
    if any(key.text.startswith("isnull(") for key in exchange_or_sort.keys):
        text = "If the keys are never NULL, use = instead of <=>, INTERSECT or EXCEPT."
        return (Change("sql", text, rewrite=with_plain_equality),)
    pairs = zip(exchange_or_sort.sources, other.sources, strict=False)
    if all(here and here.cast and there and there.cast for here, there in pairs):
        text = "Join on the columns themselves, because both sides have the same cast."
        return (Change("sql", text, rewrite=without_casts),)
    return ()


@reason("the join has more keys than bucket columns, and a setting requires buckets by all keys", of="table")
def superset_keys(exchange_or_sort: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """The join has more keys than bucket columns, and a setting requires a hash of all keys."""
    found = exchange_or_sort.partitionings
    if exchange_or_sort.other is None or not found or not table.settings.on(ALL_KEYS):
        return None
    every = set(range(len(exchange_or_sort.keys)))
    if any(one.kind != "spark" or set().union(*one.places) == every for one in found):
        return None
    return Explanation(
        f"{table.name} has {buckets(table.spec)} but is {purpose(exchange_or_sort)}, which includes more keys; "
        f"{ALL_KEYS}=true requires buckets by all of them.",
        changes=(set_to({ALL_KEYS: "false"}), *match_either(exchange_or_sort)),
    )


@reason("the tables are bucketed with different hash functions")
def hash_mismatch(exchange_or_sort: ExchangeOrSort) -> Explanation | None:
    """The two tables use different bucket hashes, so rows with equal keys are in buckets with different numbers."""
    here, there = exchange_or_sort.closest or (None, None)
    if not here or not there or here.kind == there.kind or here.table is None or there.table is None:
        return None
    return Explanation(
        f"{here.table} is bucketed by {hash_name(here.kind)} and {there.table} by {hash_name(there.kind)}, so equal "
        "keys are in different buckets.",
        (here.table, there.table),
        match_either(exchange_or_sort),
    )


@reason(
    "one bucket count is a multiple of the other, but the settings do not allow Spark to combine buckets", of="table"
)
def bucket_coalescing_disabled(exchange_or_sort: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """One bucket count is a multiple of the other, but the session's settings do not let Spark combine buckets."""
    here, there = exchange_or_sort.closest or (None, None)
    if not here or not there or here.kind != there.kind or here.table is None or there.table is None:
        return None
    few, many = sorted((here.number, there.number))
    if few == many or not are_compatible(few, many):
        return None
    ratio, limit = many // few, exchange_or_sort.query.settings.number(COALESCE_RATIO)
    over = f", and {ratio} is above {COALESCE_RATIO}={limit}" if ratio > limit else ""
    setting = ALIGNMENT if table.by_extension else COALESCE
    return Explanation(
        f"{here.table} has {here.number:,} buckets and {there.table} has {there.number:,}. "
        f"{setting}={exchange_or_sort.query.settings.get(setting)} does not allow Spark to combine "
        f"{ratio} buckets into one{over}.",
        (here.table, there.table),
        (*_merging(table, ratio, limit), *match_either(exchange_or_sort)),
    )


@reason("the bucket counts differ, and neither is a multiple of the other")
def bucket_count_mismatch(exchange_or_sort: ExchangeOrSort) -> Explanation | None:
    """The two sides have different bucket counts, and neither is a multiple of the other."""
    here, there = exchange_or_sort.closest or (None, None)
    if not here or not there or here.kind != there.kind or here.number == there.number:
        return None
    tables = tuple(side.table for side in (here, there) if side.table)
    names = [side.table or "the result of an earlier shuffle" for side in (here, there)]
    partitions = set_to({SHUFFLE_PARTITIONS: str(here.number if here.table else there.number)})
    return Explanation(
        f"{names[0]} has {here.number:,} {'buckets' if here.table else 'partitions'} but {names[1]} has "
        f"{there.number:,}, so Spark cannot join them bucket by bucket.",
        tables,
        (*((partitions,) if len(tables) < 2 else ()), *match_either(exchange_or_sort)),
    )


@reason("the two sides are bucketed by different join keys", of="table")
def bucket_columns_differ(exchange_or_sort: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """Both sides are bucketed by join keys, but not by the same keys."""
    other = exchange_or_sort.other
    if not exchange_or_sort.partitionings or not other or not other.partitionings or other.table is None:
        return None
    return Explanation(
        f"{table.name} has {buckets(table.spec)} and {other.table.name} has {buckets(other.table.spec)}, which are "
        "different keys of the join.",
        (table.name, other.table.name),
        match_either(exchange_or_sort),
    )


def _merging(table: BucketedScan, ratio: int, limit: int) -> Changes:
    if table.by_extension:
        return (set_to({ALIGNMENT: "coalesce" if ratio > limit else "auto"}),)
    over = {COALESCE_RATIO: str(ratio)} if ratio > limit else {}
    return (set_to({COALESCE: "true", **over}), *let_extension_read(table))
