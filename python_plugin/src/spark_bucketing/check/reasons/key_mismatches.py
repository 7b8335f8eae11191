"""Reasons in the keys of an operator, or in the operators between a table and that operator."""

from __future__ import annotations

from spark_bucketing.check.changes import (
    Changes,
    bucket_by_keys,
    leave_out_repartition,
    let_extension_read,
    match_other,
    retype,
    set_to,
)
from spark_bucketing.check.reasons.exchanges_and_sorts import EXCHANGE, EXCHANGE_BELOW, ExchangeOrSort
from spark_bucketing.check.reasons.phrases import buckets, doing, purpose, series
from spark_bucketing.check.reasons.reason import Explanation, reason
from spark_bucketing.check.results import Change
from spark_bucketing.check.scans import BucketedScan
from spark_bucketing.check.session_settings import UNION
from spark_bucketing.check.sql_text import with_plain_equality, without_casts


@reason("the join keys have different types, so Spark casts one of them and cannot use its buckets")
def key_types_differ(exchange_or_sort: ExchangeOrSort) -> Explanation | None:
    """The join keys have different types, so Spark casts one of them, and the cast changes its hash.

    **Anti-pattern**

    ```sql
    -- clicks.user_id is int, users.user_id is bigint
    select * from clicks join users on clicks.user_id = users.user_id
    ```

    **Best practice**

    Give the key the same type in all models. If necessary, cast it in the staging model.

    ```sql
    select cast(user_id as bigint) as user_id, ... from raw_clicks
    ```
    """
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
    """The key is an expression over a bucket column, but the table is bucketed by the column itself.

    **Anti-pattern**

    ```sql
    select * from clicks join users on lower(clicks.user_name) = users.user_name
    ```

    INTERSECT, EXCEPT and `<=>` treat NULL as equal to NULL. Spark therefore compares expressions instead of the columns
    themselves.

    **Best practice**

    Compute the expression in the model that builds the table, and bucket the table by the result.

    ```sql
    select lower(user_name) as user_name, ... from raw_clicks
    ```
    """
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
    """A bucket column is missing from the keys, so rows with equal keys can be in different buckets.

    **Anti-pattern**

    ```sql
    -- clicks: clustered_by=['user_id', 'day']
    select * from clicks join users using (user_id)
    ```

    **Best practice**

    Choose bucket columns that are keys of all expensive joins and aggregations. The joins and aggregations may have
    additional keys.
    """
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
    """A UNION concatenates the partitions of its inputs, so its output has no buckets.

    **Anti-pattern**

    ```sql
    select * from (select * from clicks union all select * from old_clicks) as c join users using (user_id)
    ```

    **Best practice**

    Give all inputs of the union the same bucket spec, and load the extension. The extension combines the inputs bucket
    by bucket.
    """
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
    """An operator between the table and this operator redistributes the rows.

    **Anti-pattern**

    ```sql
    select * from (select * from clicks order by event_at limit 1000) as c join users using (user_id)
    ```

    **Best practice**

    First, join and group by the bucket columns. Afterwards, sort the rows, limit them, or join them on other keys.
    """
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
