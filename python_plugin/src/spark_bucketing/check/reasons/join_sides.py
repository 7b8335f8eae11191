"""Reasons why the buckets on the two sides of a join do not match."""

from __future__ import annotations

from spark_bucketing.check.changes import Changes, let_extension_read, match_either, set_to
from spark_bucketing.check.reasons.exchanges_and_sorts import ExchangeOrSort
from spark_bucketing.check.reasons.phrases import buckets, purpose
from spark_bucketing.check.reasons.reason import Explanation, reason
from spark_bucketing.check.scans import BucketedScan
from spark_bucketing.check.session_settings import ALIGNMENT, ALL_KEYS, COALESCE, COALESCE_RATIO, SHUFFLE_PARTITIONS
from spark_bucketing.spec import are_compatible, hash_name


@reason("the join has more keys than bucket columns, and a setting requires buckets by all keys", of="table")
def superset_keys(exchange_or_sort: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """The join has more keys than the table has bucket columns, and a Spark setting requires a hash of all join keys.

    **Anti-pattern**

    ```sql
    -- both: clustered_by=['user_id']
    select * from clicks join sessions using (user_id, session_id)
    ```

    The session has `spark.sql.requireAllClusterKeysForCoPartition=true`, the default.

    **Best practice**

    Set `spark.sql.requireAllClusterKeysForCoPartition=false`. The default protects against skewed keys, but you have
    chosen the bucket columns deliberately. If the extension reads tables in the Hive layout, no setting is necessary.
    """
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
    """The two tables use different bucket hashes, so rows with equal keys are in buckets with different numbers.

    The Hive layout has one hash function for each bucketing version. The Spark layout has a different hash function.

    **Anti-pattern**

    ```sql
    -- clicks: bucket_hash='hive'; users: bucket_hash='spark'
    select * from clicks join users using (user_id)

    -- clicks: bucket_hash='hive' (version 1); visits of Trino: bucketing_version 2
    select * from clicks join visits using (user_id)
    ```

    **Best practice**

    Use the same `bucket_hash` in the whole project. For joins with tables of Hive 3 or Trino, use `hive2`.
    """
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
    """One bucket count is a multiple of the other, but the session's settings do not let Spark combine buckets.

    **Anti-pattern**

    Stock Spark with its default settings joins a table of 64 buckets with a table of 16 buckets.

    **Best practice**

    Set `spark.sql.bucketing.coalesceBucketsInJoin.enabled=true`, and set `...maxBucketRatio` to the ratio of the bucket
    counts if it exceeds 4. Alternatively, load the extension, which keeps the sort order when it combines buckets. For
    ratios above 4, the extension combines buckets only if enough buckets remain for all cores. To combine them in any
    case, set `spark.bucketing.join.alignment=coalesce`.
    """
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
    """The two sides have different bucket counts, and neither is a multiple of the other.

    **Anti-pattern**

    ```sql
    -- clicks: buckets=64; users: buckets=24
    select * from clicks join users using (user_id)
    ```

    **Best practice**

    Use powers of two for all bucket counts, so that the larger count is always a multiple of the smaller one. Also use
    a power of two for `spark.sql.shuffle.partitions`, the number of partitions after the shuffle of an earlier join.
    """
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
    """Both sides are bucketed by join keys, but not by the same keys.

    **Anti-pattern**

    ```sql
    -- clicks: clustered_by=['user_id']; sessions: clustered_by=['session_id']
    select * from clicks join sessions using (user_id, session_id)
    ```

    **Best practice**

    Bucket both sides by the same keys, in the same order.
    """
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
