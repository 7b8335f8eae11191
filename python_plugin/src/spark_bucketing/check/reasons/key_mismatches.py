"""Reasons that lie in the keys, which are not the bucket columns, or between a table and the operator."""

from __future__ import annotations

from spark_bucketing.check.candidate_fixes import (
    Candidates,
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
from spark_bucketing.check.results import Candidate
from spark_bucketing.check.scans import BucketedScan
from spark_bucketing.check.session_settings import UNION
from spark_bucketing.check.sql_text import with_plain_equality, without_casts
from spark_bucketing.plan.known_operators import GATHERING


@reason("the keys have different types, and a cast hides the buckets")
def key_types_differ(exchange_or_sort: ExchangeOrSort) -> Explanation | None:
    """The join's keys have different types, so that Spark casts one of them, and the hash of a cast value is another.

    **Anti-pattern**

    ```sql
    -- clicks.user_id is int, users.user_id is bigint
    select * from clicks join users on clicks.user_id = users.user_id
    ```

    **Best practice**

    Give the key one type everywhere: cast it in the staging model.

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
        own = here.columns.get(source.column.name.lower(), "?")
        stored = there.columns.get(theirs.column.name.lower(), "?") if there else "?"
        if own == source.cast or (theirs.cast and stored == own):
            continue
        return Explanation(
            f"{here.name}.{source.column.name} is {own} and is compared with {theirs.scan.table}.{theirs.column.name}, "
            f"which is {theirs.cast or stored}: it is cast to {source.cast}, and the hash of that is another one.",
            tuple(dict.fromkeys((here.name, theirs.scan.table or ""))),
            (retype(here, {source.column.name.lower(): source.cast}), *match_other(exchange_or_sort)),
        )
    return None


@reason("an expression or cast over the key hides the buckets", of="table")
def expression_over_key(exchange_or_sort: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """The key is an expression over a bucket column, and the rows are spread by the column.

    **Anti-pattern**

    ```sql
    select * from clicks join users on lower(clicks.user_name) = users.user_name
    ```

    INTERSECT, EXCEPT and `<=>` compare by expressions too, so that NULL equals NULL.

    **Best practice**

    Compute the key in the model that the table is built from, and bucket by the outcome.

    ```sql
    select lower(user_name) as user_name, ... from raw_clicks
    ```
    """
    own = [
        s
        for s in exchange_or_sort.columns
        if s.scan.number == table.node.number and s.column.name.lower() in table.columns
    ]
    wrapped = [source.column.name for source in own if source.wrapped]
    plain = {source.column.name.lower() for source in exchange_or_sort.sources if source in own and not source.wrapped}
    if not wrapped or plain.issuperset(table.columns):
        return None
    return Explanation(
        f"{table.name} is bucketed by {series(table.spec.bucket_columns)} and {purpose(exchange_or_sort)}: "
        f"an expression over {series(list(dict.fromkeys(wrapped)))} is not where the rows are.",
        candidates=_without_expressions(exchange_or_sort),
    )


@reason("a bucket column is missing among the keys", of="table")
def keys_miss_bucket_column(exchange_or_sort: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """A bucket column is not among the keys, so that rows with equal keys are in several buckets.

    **Anti-pattern**

    ```sql
    -- clicks: clustered_by=['user_id', 'day']
    select * from clicks join users using (user_id)
    ```

    **Best practice**

    Bucket by columns that all of the joins and groupings that matter have in common; keys may have more columns than
    the buckets, but no fewer.
    """
    if not exchange_or_sort.uncovered:
        return None
    lost = exchange_or_sort.lost_at if table.readable else None
    if lost is not None and lost.operator == "Expand":
        return None
    return Explanation(
        f"{table.name} has {buckets(table.spec)} and is {purpose(exchange_or_sort)}: "
        f"{series(exchange_or_sort.uncovered)} "
        f"{'are' if len(exchange_or_sort.uncovered) > 1 else 'is'} missing among the keys.",
        candidates=(*match_other(exchange_or_sort), *bucket_by_keys(exchange_or_sort)),
    )


@reason("a UNION loses the buckets of its inputs", of="read")
def union(exchange_or_sort: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """A UNION puts the partitions of its inputs one after the other, and the buckets are lost.

    **Anti-pattern**

    ```sql
    select * from (select * from clicks union all select * from old_clicks) as c join users using (user_id)
    ```

    **Best practice**

    Bucket all inputs of the union alike, and load the extension, which unites their buckets one by one.
    """
    node = exchange_or_sort.lost_at
    if node is None or node.operator not in ("Union", "BucketUnion"):
        return None
    scans = [exchange_or_sort.query.bucketed(scan) for scan in node.scans]
    alike = None not in scans and len({(s.spec.num_buckets, s.spec.bucket_hash) for s in scans if s}) == 1
    return Explanation(
        f"The UNION of {series(node.tables)} is {purpose(exchange_or_sort)}, and loses the buckets of its inputs."
        f"{'' if alike else ' They are not all bucketed alike.'}",
        node.tables,
        (set_to({UNION: "true"}),) if table.by_extension else let_extension_read(table),
    )


@reason(
    "an operator in between spreads the rows otherwise: LIMIT, ORDER BY, another join or grouping",
    EXCHANGE,
    EXCHANGE_BELOW,
)
def repartitioned_below(exchange_or_sort: ExchangeOrSort) -> Explanation | None:
    """An operator between the table and this one spreads the rows otherwise.

    **Anti-pattern**

    ```sql
    select * from (select * from clicks order by event_at limit 1000) as c join users using (user_id)
    ```

    **Best practice**

    Join and group by the bucket key first, and sort, limit, or join by other keys afterwards.
    """
    if exchange_or_sort.about == EXCHANGE_BELOW:
        limit = exchange_or_sort.node.operator in GATHERING
        above = next(
            (n for n in exchange_or_sort.side.way if exchange_or_sort.node in n.children and not limit),
            exchange_or_sort.node,
        )
        message = f"On the way, {doing(above, exchange_or_sort)}. That is what the query asks for."
        return Explanation(message, exchange_or_sort.node.tables)
    table, node = exchange_or_sort.read, exchange_or_sort.lost_at
    if table is None or node is None:
        return None
    found = f"{table.name} has {buckets(table.spec)} and is {purpose(exchange_or_sort)}"
    message = f"{found}, but {doing(node, exchange_or_sort)}."
    asked = node.shuffle is not None and node.shuffle.requested
    return Explanation(message, (table.name,), (leave_out_repartition(),) if asked else ())


def _without_expressions(exchange_or_sort: ExchangeOrSort) -> Candidates:
    other = exchange_or_sort.other
    if other is None:
        return ()
    if any(key.startswith("isnull(") for key in exchange_or_sort.keys):
        text = "Where the keys are never NULL, join with = instead of <=>, INTERSECT or EXCEPT."
        return (Candidate("sql", text, rewrite=with_plain_equality),)
    pairs = zip(exchange_or_sort.sources, other.sources, strict=False)
    if all(here and here.cast and there and there.cast for here, there in pairs):
        text = "Join by the columns themselves: both sides are cast alike."
        return (Candidate("sql", text, rewrite=without_casts),)
    return ()
