"""Reasons why the buckets of one side of a join do not serve with those of the other."""

from __future__ import annotations

from spark_bucketing.check.candidate_fixes import Candidates, let_extension_read, match_either, set_to
from spark_bucketing.check.reasons.exchanges_and_sorts import ExchangeOrSort
from spark_bucketing.check.reasons.phrases import buckets, purpose
from spark_bucketing.check.reasons.reason import Explanation, reason
from spark_bucketing.check.scans import BucketedScan
from spark_bucketing.check.session_settings import ALIGNMENT, ALL_KEYS, COALESCE, COALESCE_RATIO, SHUFFLE_PARTITIONS


@reason("the join has more keys than the buckets, and a setting forbids that", of="table")
def superset_keys(exchange_or_sort: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """The join has more keys than the table has bucket columns, and a setting of Spark's wants all of them hashed.

    **Anti-pattern**

    ```sql
    -- both: clustered_by=['user_id']
    select * from clicks join sessions using (user_id, session_id)
    ```

    with `spark.sql.requireAllClusterKeysForCoPartition=true`, the default.

    **Best practice**

    Set `spark.sql.requireAllClusterKeysForCoPartition=false`: it guards against skew in keys that nobody chose, and
    bucket columns were chosen. Tables of the Hive layout, read by the extension, need no setting.
    """
    found = exchange_or_sort.partitionings
    if exchange_or_sort.other is None or not found or not table.settings.on(ALL_KEYS):
        return None
    every = set(range(len(exchange_or_sort.keys)))
    if any(one.kind == "hive" or set().union(*one.places) == every for one in found):
        return None
    return Explanation(
        f"{table.name} has {buckets(table.spec)} and is {purpose(exchange_or_sort)}, which are more keys; "
        f"{ALL_KEYS}=true wants the buckets to be of all of them.",
        candidates=(set_to({ALL_KEYS: "false"}), *match_either(exchange_or_sort)),
    )


@reason("one table has the Hive layout, the other one the Spark layout")
def hash_mismatch(exchange_or_sort: ExchangeOrSort) -> Explanation | None:
    """One table is bucketed by Hive's hash and the other one by Spark's, so that equal keys are in different buckets.

    **Anti-pattern**

    ```sql
    -- clicks: bucket_hash='hive'; users: bucket_hash='spark'
    select * from clicks join users using (user_id)
    ```

    **Best practice**

    Choose one `bucket_hash` for the project.
    """
    here, there = exchange_or_sort.closest or (None, None)
    if not here or not there or here.kind == there.kind or here.table is None or there.table is None:
        return None
    return Explanation(
        f"{here.table} is bucketed by {here.kind.capitalize()}'s hash and {there.table} by {there.kind.capitalize()}'s"
        ": equal keys are in different buckets.",
        (here.table, there.table),
        match_either(exchange_or_sort),
    )


@reason("the bucket counts divide, but merging buckets is off or over its ratio", of="table")
def bucket_coalescing_disabled(exchange_or_sort: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """One number of buckets is a multiple of the other, but nothing is allowed to read several buckets as one.

    **Anti-pattern**

    64 buckets against 16, on stock Spark with its default settings.

    **Best practice**

    Set `spark.sql.bucketing.coalesceBucketsInJoin.enabled=true`, and `...maxBucketRatio` to the ratio where it is
    above 4. Or load the extension, which reads k buckets as one, sorted; above that ratio only where there are buckets
    enough for all cores, unless `spark.bucketing.join.alignment` says `coalesce`.
    """
    here, there = exchange_or_sort.closest or (None, None)
    if not here or not there or here.kind != there.kind or here.table is None or there.table is None:
        return None
    few, many = sorted((here.number, there.number))
    if few == many or many % few:
        return None
    ratio, limit = many // few, exchange_or_sort.query.settings.number(COALESCE_RATIO)
    over = f", and {ratio} is above {COALESCE_RATIO}={limit}" if ratio > limit else ""
    setting = ALIGNMENT if table.by_extension else COALESCE
    return Explanation(
        f"{here.table} has {here.number:,} buckets and {there.table} has {there.number:,}: {ratio} buckets of one are "
        f"1 of the other, but {setting}={exchange_or_sort.query.settings.get(setting)} "
        f"does not let them be read so{over}.",
        (here.table, there.table),
        (*_merging(table, ratio, limit), *match_either(exchange_or_sort)),
    )


@reason("the numbers of buckets differ, and neither divides the other")
def bucket_count_mismatch(exchange_or_sort: ExchangeOrSort) -> Explanation | None:
    """The two sides have different numbers of buckets, of which neither is a multiple of the other.

    **Anti-pattern**

    ```sql
    -- clicks: buckets=64; users: buckets=24
    select * from clicks join users using (user_id)
    ```

    **Best practice**

    Take powers of two everywhere: any two of them fit. It is the same when one side was shuffled before, by an earlier
    join: its rows are in `spark.sql.shuffle.partitions` partitions.
    """
    here, there = exchange_or_sort.closest or (None, None)
    if not here or not there or here.kind != there.kind or here.number == there.number:
        return None
    tables = tuple(side.table for side in (here, there) if side.table)
    names = [side.table or "what an earlier shuffle made" for side in (here, there)]
    partitions = set_to({SHUFFLE_PARTITIONS: str(here.number if here.table else there.number)})
    return Explanation(
        f"{names[0]} has {here.number:,} {'buckets' if here.table else 'partitions'} and {names[1]} has "
        f"{there.number:,}: they cannot be put side by side.",
        tables,
        (*((partitions,) if len(tables) < 2 else ()), *match_either(exchange_or_sort)),
    )


@reason("both sides are bucketed, by different keys of the join", of="table")
def bucket_columns_differ(exchange_or_sort: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """Both sides are bucketed by keys of the join, but not by the same ones.

    **Anti-pattern**

    ```sql
    -- clicks: clustered_by=['user_id']; sessions: clustered_by=['session_id']
    select * from clicks join sessions using (user_id, session_id)
    ```

    **Best practice**

    Bucket both sides by the same key, in the same order of columns.
    """
    other = exchange_or_sort.other
    if not exchange_or_sort.partitionings or not other or not other.partitionings or other.table is None:
        return None
    return Explanation(
        f"{table.name} has {buckets(table.spec)} and {other.table.name} has {buckets(other.table.spec)}: these are "
        "different keys of the join.",
        (table.name, other.table.name),
        match_either(exchange_or_sort),
    )


def _merging(table: BucketedScan, ratio: int, limit: int) -> Candidates:
    if table.by_extension:
        return (set_to({ALIGNMENT: "coalesce" if ratio > limit else "auto"}),)
    over = {COALESCE_RATIO: str(ratio)} if ratio > limit else {}
    return (set_to({COALESCE: "true", **over}), *let_extension_read(table))
