"""Rules that check the config of a bucketed model."""

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


class Rule_SparkBucketing_SB02(BucketRule, BaseRule):
    """A config key is misspelled, so nothing reads its value.

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
    is_fix_compatible = True


class Rule_SparkBucketing_SB03(BucketRule, BaseRule):
    """A partition column is also a bucket column or a sort column.

    The data files do not contain the partition columns, so Spark cannot hash rows or sort rows by them.

    **Anti-pattern**

    .. code-block:: sql

        {{ config(materialized='bucketed_table', clustered_by=['ds', 'user_id'], buckets=64, partition_by=['ds']) }}
        select user_id, ds from {{ ref('stg_clicks') }}

    **Best practice**

    Choose bucket columns that are not partition columns.

    .. code-block:: sql

        {{ config(materialized='bucketed_table', clustered_by=['user_id'], buckets=64, partition_by=['ds']) }}
        select user_id, ds from {{ ref('stg_clicks') }}
    """

    name = "spark_bucketing.partition_column_in_buckets"


class Rule_SparkBucketing_SB04(BucketRule, BaseRule):
    """A bucket column has a type that Spark cannot hash, or a type for which Spark does not use buckets.

    **Anti-pattern**

    .. code-block:: sql

        {{ config(materialized='bucketed_table', clustered_by=['price'], buckets=64) }}
        select cast(price as double) as price from {{ ref('stg_orders') }}

    **Best practice**

    Bucket by boolean, integer, decimal, string or date columns. The Spark layout also supports timestamp and binary
    columns.

    .. code-block:: sql

        {{ config(materialized='bucketed_table', clustered_by=['price'], buckets=64) }}
        select cast(price as decimal(38, 9)) as price from {{ ref('stg_orders') }}
    """

    name = "spark_bucketing.unsupported_bucket_column"


class Rule_SparkBucketing_SB05(BucketRule, BaseRule):
    """The sort columns do not help joins on the bucket columns.

    The rule accepts ``sorted_by=[]``, which means no sort order.

    **Anti-pattern**

    .. code-block:: sql

        {{ config(materialized='bucketed_table', clustered_by=['user_id'], buckets=64, sorted_by=['event_at']) }}
        select user_id, event_at from {{ ref('stg_clicks') }}

    **Best practice**

    Sort by the bucket columns first. If windows are partitioned by the bucket columns, add the columns of their ORDER
    BY.

    .. code-block:: sql

        {{ config(
            materialized='bucketed_table', clustered_by=['user_id'], buckets=64, sorted_by=['user_id', 'event_at']
        ) }}
        select user_id, event_at from {{ ref('stg_clicks') }}
    """

    name = "spark_bucketing.sort_columns_mismatch"


class Rule_SparkBucketing_SB06(BucketRule, BaseRule):
    """A model with the strategy merge has no ``unique_key``, so every run appends all rows.

    **Anti-pattern**

    .. code-block:: sql

        {{ config(materialized='bucketed_incremental', clustered_by=['id'], buckets=64, incremental_strategy='merge') }}
        select id, name from {{ ref('stg_users') }}

    **Best practice**

    Set ``unique_key`` to the columns that identify a row, or use the strategy ``append``.

    .. code-block:: sql

        {{ config(
            materialized='bucketed_incremental', clustered_by=['id'], buckets=64,
            incremental_strategy='merge', unique_key='id'
        ) }}
        select id, name from {{ ref('stg_users') }}
    """

    name = "spark_bucketing.merge_without_unique_key"


class Rule_SparkBucketing_SB07(BucketRule, BaseRule):
    """A config value is invalid, so dbt would fail to run the model.

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
