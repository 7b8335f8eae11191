"""Rules that check queries over bucketed tables."""

from __future__ import annotations

from sqlfluff.core.rules import BaseRule

from spark_bucketing.sqlfluff_plugin.rules.rule import BucketRule


class Rule_SparkBucketing_SB08(BucketRule, BaseRule):
    """A function or cast is applied to a bucket column, so a join or filter cannot use the buckets.

    **Anti-pattern**

    .. code-block:: sql

        -- clicks: clustered_by=['user_name']
        select clicks.url, users.city
        from clicks
        inner join users on lower(clicks.user_name) = users.user_name

    **Best practice**

    Compute the expression in the model that builds the table, and bucket the table by the result.

    .. code-block:: sql

        select lower(user_name) as user_name, url from raw_clicks
    """

    name = "spark_bucketing.expression_over_key"


class Rule_SparkBucketing_SB09(BucketRule, BaseRule):
    """The keys of a join, grouping or window include only some of the bucket columns.

    **Anti-pattern**

    .. code-block:: sql

        -- clicks: clustered_by=['user_id', 'device']
        select user_id, count(*) as n from clicks group by user_id

    **Best practice**

    Choose bucket columns that are keys of all expensive joins and aggregations. The joins and aggregations may have
    additional keys.

    .. code-block:: sql

        -- clicks: clustered_by=['user_id']
        select user_id, count(*) as n from clicks group by user_id
    """

    name = "spark_bucketing.keys_miss_bucket_column"


class Rule_SparkBucketing_SB10(BucketRule, BaseRule):
    """A join reads two tables whose bucket counts differ, and neither count is a multiple of the other.

    **Anti-pattern**

    .. code-block:: sql

        -- clicks: buckets=64; users: buckets=24
        select clicks.url, users.city from clicks inner join users using (user_id)

    **Best practice**

    Use powers of two for all bucket counts, so that the larger count is always a multiple of the smaller one.

    .. code-block:: sql

        -- clicks: buckets=64; users: buckets=32
        select clicks.url, users.city from clicks inner join users using (user_id)
    """

    name = "spark_bucketing.bucket_count_mismatch"


class Rule_SparkBucketing_SB11(BucketRule, BaseRule):
    """A join reads tables with different bucket hashes.

    **Anti-pattern**

    .. code-block:: sql

        -- clicks: bucket_hash='hive'; users: bucket_hash='spark'
        select clicks.url, users.city from clicks inner join users using (user_id)

    **Best practice**

    Use the same ``bucket_hash`` in the whole project.

    .. code-block:: sql

        -- clicks and users: bucket_hash='hive'
        select clicks.url, users.city from clicks inner join users using (user_id)
    """

    name = "spark_bucketing.hash_mismatch"


class Rule_SparkBucketing_SB12(BucketRule, BaseRule):
    """A join compares bucket columns that have different types.

    **Anti-pattern**

    .. code-block:: sql

        -- clicks.user_id is int, users.user_id is bigint
        select clicks.url, users.city from clicks inner join users using (user_id)

    **Best practice**

    Give the key the same type in all models. If necessary, cast it in the staging model.

    .. code-block:: sql

        select cast(user_id as bigint) as user_id, url from raw_clicks
    """

    name = "spark_bucketing.key_types_differ"


class Rule_SparkBucketing_SB13(BucketRule, BaseRule):
    """A join reads two tables that are bucketed by different join keys.

    **Anti-pattern**

    .. code-block:: sql

        -- clicks: clustered_by=['user_id']; sessions: clustered_by=['session_id']
        select clicks.url, sessions.started_at from clicks inner join sessions using (user_id, session_id)

    **Best practice**

    Bucket both sides by the same keys, in the same order.

    .. code-block:: sql

        -- clicks and sessions: clustered_by=['user_id']
        select clicks.url, sessions.started_at from clicks inner join sessions using (user_id, session_id)
    """

    name = "spark_bucketing.bucket_columns_differ"


class Rule_SparkBucketing_SB14(BucketRule, BaseRule):
    """A hint or clause shuffles the rows of a bucketed table before a join or grouping by its bucket columns.

    **Anti-pattern**

    .. code-block:: sql

        select c.url, users.city
        from (select user_id, url from clicks distribute by user_id) as c
        inner join users on c.user_id = users.user_id

    **Best practice**

    Remove the hint or clause, because the rows are already partitioned by bucket.

    .. code-block:: sql

        select clicks.url, users.city
        from clicks
        inner join users on clicks.user_id = users.user_id
    """

    name = "spark_bucketing.repartition"


class Rule_SparkBucketing_SB15(BucketRule, BaseRule):
    """A bucketed model has an ORDER BY for its whole result, although the write sorts each bucket again.

    **Anti-pattern**

    .. code-block:: sql

        {{ config(materialized='bucketed_table', clustered_by=['user_id'], buckets=64) }}
        select user_id, event_at from {{ ref('stg_clicks') }} order by event_at

    **Best practice**

    Use ORDER BY in the query that displays the rows. To sort the files, use ``sorted_by``.

    .. code-block:: sql

        {{ config(
            materialized='bucketed_table', clustered_by=['user_id'], buckets=64, sorted_by=['user_id', 'event_at']
        ) }}
        select user_id, event_at from {{ ref('stg_clicks') }}
    """

    name = "spark_bucketing.global_sort"


class Rule_SparkBucketing_SB16(BucketRule, BaseRule):
    """A join or grouping reads a UNION ALL of tables whose bucket specs differ.

    **Anti-pattern**

    .. code-block:: sql

        -- clicks: buckets=64; old_clicks: buckets=16
        select user_id, count(*) as n
        from (select user_id from clicks union all select user_id from old_clicks) as c
        group by user_id

    **Best practice**

    Give all inputs of the union the same bucket spec. The session extension then combines them bucket by bucket.

    .. code-block:: sql

        -- clicks and old_clicks: buckets=64
        select user_id, count(*) as n
        from (select user_id from clicks union all select user_id from old_clicks) as c
        group by user_id
    """

    name = "spark_bucketing.union"


class Rule_SparkBucketing_SB17(BucketRule, BaseRule):
    """The query of a bucketed model shuffles its result, although the write shuffles the rows again.

    **Anti-pattern**

    .. code-block:: sql

        {{ config(materialized='bucketed_table', clustered_by=['user_id'], buckets=64) }}
        select user_id, event_at from {{ ref('stg_clicks') }} distribute by user_id

    **Best practice**

    Remove the hints and clauses that shuffle the result. ``sqlfluff fix`` does this for you.

    .. code-block:: sql

        {{ config(materialized='bucketed_table', clustered_by=['user_id'], buckets=64) }}
        select user_id, event_at from {{ ref('stg_clicks') }}
    """

    name = "spark_bucketing.redundant_repartition"
    is_fix_compatible = True


class Rule_SparkBucketing_SB18(BucketRule, BaseRule):
    """A join, filter or grouping casts a bucket column to the type that it already has.

    The fix is available only if the column's type is certain. The types of columns are certain in a source, and in a
    model with an enforced contract.

    **Anti-pattern**

    .. code-block:: sql

        -- user_id is bigint in both
        select clicks.url, users.city
        from clicks
        inner join users on cast(clicks.user_id as bigint) = users.user_id

    **Best practice**

    Remove the cast. ``sqlfluff fix`` does this for you.

    .. code-block:: sql

        select clicks.url, users.city
        from clicks
        inner join users on clicks.user_id = users.user_id
    """

    name = "spark_bucketing.needless_cast"
    is_fix_compatible = True
