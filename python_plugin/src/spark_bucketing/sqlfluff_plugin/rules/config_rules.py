"""Rules for the config of a bucketed model."""

from __future__ import annotations

from sqlfluff.core.rules import BaseRule

from spark_bucketing.sqlfluff_plugin.rules.rule import BucketRule


class Rule_SparkBucketing_SB01(BucketRule, BaseRule):
    """A bucketed model has no ``buckets`` or no ``clustered_by``.

    **Anti-pattern**

    .. code-block:: sql

        {{ config(materialized='bucketed_table', clustered_by=['user_id']) }}
        select user_id, event_at from {{ ref('stg_clicks') }}

    **Best practice**

    Set both the bucket columns and the number of buckets.

    .. code-block:: sql

        {{ config(materialized='bucketed_table', clustered_by=['user_id'], buckets=64) }}
        select user_id, event_at from {{ ref('stg_clicks') }}
    """

    name = "spark_bucketing.missing_buckets"
    aliases = ("missing-buckets",)


class Rule_SparkBucketing_SB02(BucketRule, BaseRule):
    """A config key is misspelled, so nothing reads it.

    **Anti-pattern**

    .. code-block:: sql

        {{ config(materialized='bucketed_table', cluster_by=['user_id'], num_buckets=64) }}
        select user_id, event_at from {{ ref('stg_clicks') }}

    **Best practice**

    Use the correct keys; ``sqlfluff fix`` replaces them.

    .. code-block:: sql

        {{ config(materialized='bucketed_table', clustered_by=['user_id'], buckets=64) }}
        select user_id, event_at from {{ ref('stg_clicks') }}
    """

    name = "spark_bucketing.misspelled_key"
    aliases = ("misspelled-key",)
    is_fix_compatible = True


class Rule_SparkBucketing_SB03(BucketRule, BaseRule):
    """A partition column is a bucket or sort column.

    The files do not contain partition columns, so Spark cannot hash or sort by them.

    **Anti-pattern**

    .. code-block:: sql

        {{ config(materialized='bucketed_table', clustered_by=['ds', 'user_id'], buckets=64, partition_by=['ds']) }}
        select user_id, ds from {{ ref('stg_clicks') }}

    **Best practice**

    Bucket each partition by other columns.

    .. code-block:: sql

        {{ config(materialized='bucketed_table', clustered_by=['user_id'], buckets=64, partition_by=['ds']) }}
        select user_id, ds from {{ ref('stg_clicks') }}
    """

    name = "spark_bucketing.partition_column_in_buckets"
    aliases = ("partition-column-in-buckets",)


class Rule_SparkBucketing_SB04(BucketRule, BaseRule):
    """A bucket column has a type that Spark cannot hash, or with which Spark does not use the buckets.

    **Anti-pattern**

    .. code-block:: sql

        {{ config(materialized='bucketed_table', clustered_by=['price'], buckets=64) }}
        select cast(price as double) as price from {{ ref('stg_orders') }}

    **Best practice**

    Bucket by boolean, integer, decimal, string or date columns. The Spark layout also supports timestamps and binary.

    .. code-block:: sql

        {{ config(materialized='bucketed_table', clustered_by=['price'], buckets=64) }}
        select cast(price as decimal(38, 9)) as price from {{ ref('stg_orders') }}
    """

    name = "spark_bucketing.unsupported_bucket_column"
    aliases = ("unsupported-bucket-column",)


class Rule_SparkBucketing_SB05(BucketRule, BaseRule):
    """The sort columns do not help joins on the bucket columns.

    The rule accepts ``sorted_by=[]``, which means no sort order.

    **Anti-pattern**

    .. code-block:: sql

        {{ config(materialized='bucketed_table', clustered_by=['user_id'], buckets=64, sorted_by=['event_at']) }}
        select user_id, event_at from {{ ref('stg_clicks') }}

    **Best practice**

    Sort by the bucket columns first, then by the ORDER BY columns of windows over them.

    .. code-block:: sql

        {{ config(
            materialized='bucketed_table', clustered_by=['user_id'], buckets=64, sorted_by=['user_id', 'event_at']
        ) }}
        select user_id, event_at from {{ ref('stg_clicks') }}
    """

    name = "spark_bucketing.sort_columns_mismatch"
    aliases = ("sort-columns-mismatch",)


class Rule_SparkBucketing_SB06(BucketRule, BaseRule):
    """A merge has no ``unique_key``, so it appends all rows.

    **Anti-pattern**

    .. code-block:: sql

        {{ config(materialized='bucketed_incremental', clustered_by=['id'], buckets=64, incremental_strategy='merge') }}
        select id, name from {{ ref('stg_users') }}

    **Best practice**

    Set the key that identifies a row, or use the strategy ``append``.

    .. code-block:: sql

        {{ config(
            materialized='bucketed_incremental', clustered_by=['id'], buckets=64,
            incremental_strategy='merge', unique_key='id'
        ) }}
        select id, name from {{ ref('stg_users') }}
    """

    name = "spark_bucketing.merge_without_unique_key"
    aliases = ("merge-without-unique-key",)


class Rule_SparkBucketing_SB07(BucketRule, BaseRule):
    """A config value is invalid, so the run would fail.

    **Anti-pattern**

    .. code-block:: sql

        {{ config(materialized='bucketed_table', clustered_by=['user_id'], buckets='64', bucket_hash='murmur3') }}
        select user_id from {{ ref('stg_clicks') }}

    **Best practice**

    .. code-block:: sql

        {{ config(materialized='bucketed_table', clustered_by=['user_id'], buckets=64, bucket_hash='spark') }}
        select user_id from {{ ref('stg_clicks') }}
    """

    name = "spark_bucketing.invalid_config"
    aliases = ("invalid-config",)


CONFIG_RULES: tuple[type[BaseRule], ...] = (
    Rule_SparkBucketing_SB01,
    Rule_SparkBucketing_SB02,
    Rule_SparkBucketing_SB03,
    Rule_SparkBucketing_SB04,
    Rule_SparkBucketing_SB05,
    Rule_SparkBucketing_SB06,
    Rule_SparkBucketing_SB07,
)
