"""Reasons why a side has no buckets, or why Spark uses an ordinary scan for a bucketed table."""

from __future__ import annotations

from spark_bucketing.check.changes import match_other, rewrite_files, seal_files, set_to, switch_extension_on
from spark_bucketing.check.reasons.exchanges_and_sorts import ExchangeOrSort
from spark_bucketing.check.reasons.phrases import buckets, purpose, series
from spark_bucketing.check.reasons.reason import Explanation, reason
from spark_bucketing.check.scans import COLUMN_CODES, MIXED_CODES, SEAL_CODES, TASK_CODES, BucketedScan
from spark_bucketing.check.session_settings import BUCKETING


@reason("one side of the join is bucketed, but this side is not")
def side_not_bucketed(exchange_or_sort: ExchangeOrSort) -> Explanation | None:
    """The other side of the join is bucketed but this one is not, so Spark shuffles this one.

    **Anti-pattern**

    ```sql
    -- clicks: clustered_by=['user_id'], buckets=64; users: not bucketed
    select * from clicks join users using (user_id)
    ```

    **Best practice**

    Bucket both sides by the join key into the same number of buckets.
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
        here = "This side of the join does not read a table"
    there = f"; {other.name} has {buckets(other.spec)}" if other else ""
    return Explanation(f"{here}, and is {purpose(exchange_or_sort)}{there}.", tables, match_other(exchange_or_sort))


@reason("a setting makes Spark ignore buckets", of="table")
def bucketing_disabled(_: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """The setting `spark.sql.sources.bucketing.enabled=false` makes Spark ignore buckets when it reads.

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
    message = f"{table.name} is bucketed, but {BUCKETING}=false makes Spark ignore buckets."
    return Explanation(message, changes=(set_to({BUCKETING: "true"}),))


@reason("stock Spark does not read the Hive layout as bucketed, but the session extension does", of="table")
def hive_layout_without_extension(exchange_or_sort: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """Stock Spark uses an ordinary scan for a table with the Hive layout.

    **Anti-pattern**

    A table with `bucket_hash='hive'`, the default, in a session without the extension or with
    `spark.bucketing.enabled=false`.

    **Best practice**

    Load the session extension; `spark-bucketing extension conf` prints the settings. If neither Hive nor Trino needs
    the buckets, you can use `bucket_hash='spark'`, which stock Spark reads as bucketed.
    """
    if not table.spec.in_hive_layout or table.settings.extension:
        return None
    return Explanation(
        f"{table.name} has {buckets(table.spec)} in the Hive layout, but this session does not use the extension that "
        "reads them, so Spark uses an ordinary scan.",
        changes=(switch_extension_on(table.settings), *match_other(exchange_or_sort)),
    )


@reason("the selected partitions have different bucket specs", of="table")
def mixed_bucket_specs(_: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """The partitions that the query selects have different bucket specs, so Spark uses an ordinary scan.

    **Anti-pattern**

    A query over old partitions with 25 buckets and new ones with 32, or over partitions with different bucket columns.

    **Best practice**

    Select partitions with one spec, or rewrite the others with `spark-bucketing table rewrite`. The extension reads
    partitions together if their bucket counts have a common divisor that is large enough. For unsealed partitions,
    `spark-bucketing table seal` may suffice.
    """
    if table.note.code not in MIXED_CODES:
        return None
    return Explanation(
        f"Spark uses an ordinary scan for {table.name}: {table.note.words}.", changes=(rewrite_files(table),)
    )


@reason("Spark cannot use the buckets because of a bucket column's type or the file reader", of="table")
def unsupported_bucket_column(_: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """The table cannot be read as bucketed because of its bucket column or its reader.

    **Anti-pattern**

    A `double` bucket column, where equal values such as 0.0 and -0.0 are in different buckets. Or a session with
    `spark.sql.orc.impl=hive`, whose reader returns the same row for several files.

    **Best practice**

    Bucket by boolean, integer, decimal, string or date columns. Keep the settings of Spark's readers at their
    defaults.
    """
    if table.note.code not in COLUMN_CODES:
        return None
    return Explanation(f"{table.name} cannot be read as bucketed: {table.note.words}.")


@reason("no seal proves that the files are bucketed as the metadata says", of="table")
def not_sealed(_: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """No valid seal covers the table's files, so Spark uses an ordinary scan.

    A write with the extension seals its files. Files from other writers have no seal, and changed files have a stale
    seal.

    **Anti-pattern**

    An INSERT by Hive, Trino or a Spark session without the extension; copied or restored files.

    **Best practice**

    Run `spark-bucketing table seal TABLE`, which reads the bucket and sort columns once and seals correct files.
    Rewrite incorrect partitions with `spark-bucketing table rewrite TABLE --where`, and unpartitioned tables with
    `dbt run --full-refresh`.
    """
    if table.note.code not in SEAL_CODES:
        return None
    message = f"Spark uses an ordinary scan for {table.name}: {table.note.words} ({table.note.code})."
    return Explanation(message, changes=(seal_files(table.facts), rewrite_files(table)))


@reason("the table has too few buckets for its size and the session's cores", of="table")
def too_few_buckets(_: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """A shuffle is faster than a bucketed scan of the table, so the extension ignores its buckets.

    One task reads each bucket. The extension ignores buckets larger than `spark.bucketing.read.maxPartitionBytes` if
    they would use less than a quarter of the cores.

    **Anti-pattern**

    A table of 1 TB in 16 buckets on 400 cores. Another example is a table with 16 buckets joined with an unbucketed
    table of 1 TB.

    **Best practice**

    Use more buckets: at least one per core, of 128 to 512 MB each. `spark-bucketing table show` shows their sizes.
    """
    if table.note.code not in TASK_CODES:
        return None
    return Explanation(f"Spark uses an ordinary scan for {table.name}: {table.note.words} ({table.note.code}).")
