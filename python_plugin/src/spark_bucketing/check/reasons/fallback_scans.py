"""Reasons why one side of a join is not bucketed, or why Spark uses an ordinary scan for a bucketed table."""

from __future__ import annotations

from spark_bucketing.check.changes import match_other, rewrite_files, seal_files, set_to, switch_extension_on
from spark_bucketing.check.reasons.exchanges_and_sorts import ExchangeOrSort
from spark_bucketing.check.reasons.phrases import buckets, purpose, series
from spark_bucketing.check.reasons.reason import Explanation, reason
from spark_bucketing.check.scans import COLUMN_CODES, MIXED_CODES, SEAL_CODES, TASK_CODES, BucketedScan
from spark_bucketing.check.session_settings import BUCKETING, CONVERT_METASTORE


@reason("one side of the join is bucketed, but this side is not")
def side_not_bucketed(exchange_or_sort: ExchangeOrSort) -> Explanation | None:
    """Only the other side of the join is bucketed, so Spark shuffles this side.

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
    """The setting `spark.sql.sources.bucketing.enabled=false` makes Spark ignore the buckets of all tables.

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
    """Stock Spark uses ordinary scans for tables in the Hive layout.

    **Anti-pattern**

    A session reads a table with `bucket_hash='hive'`, the default. The session does not load the extension, or sets
    `spark.bucketing.enabled=false`.

    **Best practice**

    Load the session extension; `spark-bucketing extension conf` prints the settings. If neither Hive nor Trino reads
    the table, you can also choose `bucket_hash='spark'`. Stock Spark can read buckets in that layout.
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

    A query reads old partitions with 25 buckets together with new partitions with 32 buckets. Another example is a
    query over partitions that have different bucket columns.

    **Best practice**

    Select only partitions with the same spec, or rewrite the other partitions with `spark-bucketing table rewrite`. The
    extension reads partitions together if their bucket counts have a common divisor that is large enough. For unsealed
    partitions, `spark-bucketing table seal` may suffice.
    """
    if table.scan.code not in MIXED_CODES:
        return None
    return Explanation(
        f"Spark uses an ordinary scan for {table.name}: {table.scan.words}.", changes=(rewrite_files(table),)
    )


@reason("Spark cannot use the buckets because of a bucket column's type or the file reader", of="table")
def unsupported_bucket_column(_: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """Spark cannot use the table's buckets because of a bucket column's type or the session's file reader.

    **Anti-pattern**

    The table has a `double` bucket column. Equal values such as 0.0 and -0.0 are then in different buckets. Another
    example is a session with `spark.sql.orc.impl=hive`. Hive's ORC reader returns the same row for several files. With
    `spark.sql.hive.convertMetastoreParquet=false`, Hive's own reader reads the table, and ignores its buckets.

    **Best practice**

    Bucket by boolean, integer, decimal, string or date columns. Keep the default settings for Spark's file readers.
    """
    if table.by_hive_reader:
        names = " or ".join(f"{name}=false" for name in CONVERT_METASTORE if not table.settings.on(name))
        why = f", because of {names}" if names else ""
        return Explanation(f"{table.name} cannot be read as bucketed: Hive's own reader reads it{why}.")
    if table.scan.code not in COLUMN_CODES:
        return None
    return Explanation(f"{table.name} cannot be read as bucketed: {table.scan.words}.")


@reason("no seal proves that the files are bucketed as the metadata says", of="table")
def not_sealed(_: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """No valid seal covers the table's files, so Spark uses an ordinary scan.

    The extension seals the files that it writes. Files from other writers have no seal. If files change later, their
    seal is stale.

    **Anti-pattern**

    Hive, Trino or a Spark session without the extension inserts rows. Another example is a table whose files were
    copied or restored.

    **Best practice**

    Run `spark-bucketing table seal TABLE`, which reads the bucket and sort columns once, and seals the files whose rows
    match the bucket spec. If other files remain, rewrite their partitions with `spark-bucketing table rewrite TABLE
    --where`. Rewrite an unpartitioned table with `dbt run --full-refresh`.
    """
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
    """A shuffle is faster than a bucketed scan of this table, so the extension does not use its buckets.

    In a bucketed scan, a single task reads each bucket. The extension does not use buckets if two conditions hold. The
    buckets are larger than `spark.bucketing.read.maxPartitionBytes`, and their tasks would use less than a quarter of
    the cores.

    **Anti-pattern**

    A session with 400 cores reads a table of 1 TB with 16 buckets. Another example is a join of a table that has 16
    buckets with an unbucketed table of 1 TB.

    **Best practice**

    Use more buckets: at least one bucket per core, and 128 to 512 MB per bucket. `spark-bucketing table show` shows the
    sizes of the buckets.
    """
    if table.scan.code not in TASK_CODES:
        return None
    return Explanation(f"Spark uses an ordinary scan for {table.name}: {table.scan.words} ({table.scan.code}).")
