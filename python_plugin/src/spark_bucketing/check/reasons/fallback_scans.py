"""Reasons why a side has no buckets, or a table is read without those that it has."""

from __future__ import annotations

from spark_bucketing.check.candidate_fixes import match_other, rewrite_files, seal_files, set_to, switch_extension_on
from spark_bucketing.check.reasons.exchanges_and_sorts import ExchangeOrSort
from spark_bucketing.check.reasons.phrases import buckets, purpose, series
from spark_bucketing.check.reasons.reason import Explanation, reason
from spark_bucketing.check.scans import COLUMN_CODES, MIXED_CODES, SEAL_CODES, TASK_CODES, BucketedScan
from spark_bucketing.check.session_settings import BUCKETING


@reason("this side of the join has no buckets, while the other one has")
def side_not_bucketed(exchange_or_sort: ExchangeOrSort) -> Explanation | None:
    """One side of the join is bucketed and this one is not, so that this one is moved.

    **Anti-pattern**

    ```sql
    -- clicks: clustered_by=['user_id'], buckets=64; users: not bucketed
    select * from clicks join users using (user_id)
    ```

    **Best practice**

    Bucket both sides by the join key, into the same number of buckets.
    """
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
        here = "This side of the join reads no table"
    there = f"; {other.name} has {buckets(other.spec)}" if other else ""
    return Explanation(f"{here}, and is {purpose(exchange_or_sort)}{there}.", tables, match_other(exchange_or_sort))


@reason("a setting tells Spark to ignore buckets", of="table")
def bucketing_disabled(_: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """Spark is told to ignore buckets when it reads, by `spark.sql.sources.bucketing.enabled=false`.

    **Anti-pattern**

    ```yaml
    server_side_parameters:
      spark.sql.sources.bucketing.enabled: "false"
    ```

    **Best practice**

    Leave the setting at its default, `true`.
    """
    if table.settings.on(BUCKETING):
        return None
    message = f"{table.name} is bucketed, and {BUCKETING}=false tells Spark to ignore that."
    return Explanation(message, candidates=(set_to({BUCKETING: "true"}),))


@reason("stock Spark does not read the Hive layout as bucketed; the session extension does", of="table")
def hive_layout_without_extension(exchange_or_sort: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """Stock Spark reads a table of the Hive layout as a plain one.

    **Anti-pattern**

    A table with `bucket_hash='hive'`, the default, in a session that does not load the extension, or that has
    `spark.bucketing.enabled=false`.

    **Best practice**

    Load the session extension; `spark-bucketing extension conf` prints the settings. Or take `bucket_hash='spark'`,
    which stock Spark reads as bucketed, when neither Hive nor Trino has to.
    """
    if table.spec.bucket_hash != "hive" or table.settings.extension:
        return None
    return Explanation(
        f"{table.name} has {buckets(table.spec)} in the Hive layout, and this session does not use the extension that "
        "reads them: to stock Spark it is a plain table.",
        candidates=(switch_extension_on(table.settings), *match_other(exchange_or_sort)),
    )


@reason("the selected partitions have different bucket specs", of="table")
def mixed_bucket_specs(_: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """The partitions that the query selects are not all bucketed alike, so that the table is read as a plain one.

    **Anti-pattern**

    A table whose old partitions have 25 buckets and whose new ones have 32, or whose old ones are bucketed by other
    columns, in a query over both.

    **Best practice**

    Select partitions of one spec, or write anew those that stand in the way: `spark-bucketing evolution rewrite`.
    Numbers of buckets with a common divisor are read together by that, unless it is too small. Partitions
    without a seal may need no more than `spark-bucketing seal`.
    """
    if table.note.code not in MIXED_CODES:
        return None
    return Explanation(
        f"{table.name} is read as a plain table: {table.note.words}.", candidates=(rewrite_files(table),)
    )


@reason("buckets of this type or version, or by this reader, cannot be read as such", of="table")
def unsupported_bucket_column(_: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """The table's bucket column, its bucketing version or the reader of its files rules out a read as bucketed.

    **Anti-pattern**

    Buckets of a `double` column: equal values such as 0.0 and -0.0 are in different buckets. Or tables of Hive's
    bucketing version 2, whose hash Spark does not know. Or a session with `spark.sql.orc.impl=hive`, whose reader
    returns the same row for several files.

    **Best practice**

    Bucket by boolean, integer, decimal, string or date columns, in bucketing version 1. Leave the settings of Spark's
    readers at their defaults.
    """
    if table.note.code not in COLUMN_CODES:
        return None
    return Explanation(f"{table.name} cannot be read as bucketed: {table.note.words}.")


@reason("no seal proves that the files are the buckets that the metadata says", of="table")
def not_sealed(_: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """Nothing proves that the table's files are its buckets, so that it is read as a plain table.

    A write through the extension seals its files. Files of others have no seal, and files that were changed have one
    that does not fit them any more.

    **Anti-pattern**

    An INSERT by Hive, Trino or a Spark session without the extension; files that were copied or restored.

    **Best practice**

    `spark-bucketing seal TABLE`, which reads the bucket and sort columns once and seals what holds. What does not hold
    is to be written anew: partitions by `spark-bucketing evolution rewrite TABLE --where`, a table without them by
    `dbt run --full-refresh`.
    """
    if table.note.code not in SEAL_CODES:
        return None
    message = f"{table.name} is read as a plain table: {table.note.words} ({table.note.code})."
    return Explanation(message, candidates=(seal_files(table.facts), rewrite_files(table)))


@reason("the buckets are too few for their bytes and the session's cores", of="table")
def too_few_buckets(_: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """A shuffle is faster than the table's buckets, so that the extension makes no use of them.

    A bucket is read by one task. Buckets of more than `spark.bucketing.read.maxPartitionBytes` are left alone where
    they would keep less than a quarter of the cores busy.

    **Anti-pattern**

    A table of 1 TB in 16 buckets, on 400 cores. Or one of 16 buckets that a plain table of 1 TB is joined to.

    **Best practice**

    More buckets, of 128 to 512 MB each, at least one for each core. `spark-bucketing layout` shows sizes.
    """
    if table.note.code not in TASK_CODES:
        return None
    return Explanation(f"{table.name} is read as a plain table: {table.note.words} ({table.note.code}).")
