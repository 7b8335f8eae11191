"""Rules for what queries do with tables that are bucketed."""

from __future__ import annotations

from sqlfluff.core.rules import BaseRule

from spark_bucketing.sqlfluff_plugin.rules.rule import BucketRule


class Rule_SparkBucketing_SB08(BucketRule, BaseRule):
    """A function or cast over a bucket column hides the buckets from a join or filter.

    **Anti-pattern**

    .. code-block:: sql

        -- clicks: clustered_by=['user_name']
        select clicks.url, users.city
        from clicks
        inner join users on lower(clicks.user_name) = users.user_name

    **Best practice**

    Compute the key in the model that the table is built from, and bucket by the outcome.

    .. code-block:: sql

        select lower(user_name) as user_name, url from raw_clicks
    """

    name = "spark_bucketing.expression_over_key"
    aliases = ("expression-over-key",)


class Rule_SparkBucketing_SB09(BucketRule, BaseRule):
    """A join, grouping or window by some of the bucket columns, but not by all.

    **Anti-pattern**

    .. code-block:: sql

        -- clicks: clustered_by=['user_id', 'device']
        select user_id, count(*) as n from clicks group by user_id

    **Best practice**

    Bucket by columns that all of the joins and groupings that matter have in common: keys may have more columns than
    the buckets, but no fewer.

    .. code-block:: sql

        -- clicks: clustered_by=['user_id']
        select user_id, count(*) as n from clicks group by user_id
    """

    name = "spark_bucketing.keys_miss_bucket_column"
    aliases = ("keys-miss-bucket-column",)


class Rule_SparkBucketing_SB10(BucketRule, BaseRule):
    """Two tables are joined whose numbers of buckets do not divide.

    **Anti-pattern**

    .. code-block:: sql

        -- clicks: buckets=64; users: buckets=24
        select clicks.url, users.city from clicks inner join users using (user_id)

    **Best practice**

    Take powers of two everywhere: any two of them fit.

    .. code-block:: sql

        -- clicks: buckets=64; users: buckets=32
        select clicks.url, users.city from clicks inner join users using (user_id)
    """

    name = "spark_bucketing.bucket_count_mismatch"
    aliases = ("bucket-count-mismatch",)


class Rule_SparkBucketing_SB11(BucketRule, BaseRule):
    """Two tables are joined of which one is bucketed by Hive's hash and the other by Spark's.

    **Anti-pattern**

    .. code-block:: sql

        -- clicks: bucket_hash='hive'; users: bucket_hash='spark'
        select clicks.url, users.city from clicks inner join users using (user_id)

    **Best practice**

    Choose one ``bucket_hash`` for the project.

    .. code-block:: sql

        -- clicks and users: bucket_hash='hive'
        select clicks.url, users.city from clicks inner join users using (user_id)
    """

    name = "spark_bucketing.hash_mismatch"
    aliases = ("hash-mismatch",)


class Rule_SparkBucketing_SB12(BucketRule, BaseRule):
    """Two tables are joined whose bucket columns have different types.

    **Anti-pattern**

    .. code-block:: sql

        -- clicks.user_id is int, users.user_id is bigint
        select clicks.url, users.city from clicks inner join users using (user_id)

    **Best practice**

    Give the key one type everywhere: cast it in the staging model.

    .. code-block:: sql

        select cast(user_id as bigint) as user_id, url from raw_clicks
    """

    name = "spark_bucketing.key_types_differ"
    aliases = ("key-types-differ",)


class Rule_SparkBucketing_SB13(BucketRule, BaseRule):
    """Two tables are joined that are bucketed by different keys of the join.

    **Anti-pattern**

    .. code-block:: sql

        -- clicks: clustered_by=['user_id']; sessions: clustered_by=['session_id']
        select clicks.url, sessions.started_at from clicks inner join sessions using (user_id, session_id)

    **Best practice**

    Bucket both sides by the same key, in the same order of columns.

    .. code-block:: sql

        -- clicks and sessions: clustered_by=['user_id']
        select clicks.url, sessions.started_at from clicks inner join sessions using (user_id, session_id)
    """

    name = "spark_bucketing.bucket_columns_differ"
    aliases = ("bucket-columns-differ",)


class Rule_SparkBucketing_SB14(BucketRule, BaseRule):
    """A hint or clause moves the rows of a bucketed table, which is then joined or grouped by its bucket columns.

    **Anti-pattern**

    .. code-block:: sql

        select c.url, users.city
        from (select user_id, url from clicks distribute by user_id) as c
        inner join users on c.user_id = users.user_id

    **Best practice**

    Leave it out: the buckets are the partitions.

    .. code-block:: sql

        select clicks.url, users.city
        from clicks
        inner join users on clicks.user_id = users.user_id
    """

    name = "spark_bucketing.repartition"
    aliases = ("repartition",)


class Rule_SparkBucketing_SB15(BucketRule, BaseRule):
    """A bucketed model sorts its rows as a whole, which are sorted within their buckets when it is written.

    **Anti-pattern**

    .. code-block:: sql

        {{ config(materialized='bucketed_table', clustered_by=['user_id'], buckets=64) }}
        select user_id, event_at from {{ ref('stg_clicks') }} order by event_at

    **Best practice**

    Leave ORDER BY to the query that shows the rows to somebody. To order files, use ``sorted_by``.

    .. code-block:: sql

        {{ config(
            materialized='bucketed_table', clustered_by=['user_id'], buckets=64, sorted_by=['user_id', 'event_at']
        ) }}
        select user_id, event_at from {{ ref('stg_clicks') }}
    """

    name = "spark_bucketing.global_sort"
    aliases = ("global-sort",)


class Rule_SparkBucketing_SB16(BucketRule, BaseRule):
    """A UNION ALL of tables whose buckets are not alike is joined or grouped by their bucket columns.

    **Anti-pattern**

    .. code-block:: sql

        -- clicks: buckets=64; old_clicks: buckets=16
        select user_id, count(*) as n
        from (select user_id from clicks union all select user_id from old_clicks) as c
        group by user_id

    **Best practice**

    Bucket all inputs of the union alike; the session extension unites their buckets one by one.

    .. code-block:: sql

        -- clicks and old_clicks: buckets=64
        select user_id, count(*) as n
        from (select user_id from clicks union all select user_id from old_clicks) as c
        group by user_id
    """

    name = "spark_bucketing.union"
    aliases = ("union",)


class Rule_SparkBucketing_SB17(BucketRule, BaseRule):
    """A bucketed model moves its rows itself, which are moved once more into their buckets when it is written.

    **Anti-pattern**

    .. code-block:: sql

        {{ config(materialized='bucketed_table', clustered_by=['user_id'], buckets=64) }}
        select user_id, event_at from {{ ref('stg_clicks') }} distribute by user_id

    **Best practice**

    Leave out hints and clauses that move the outcome; ``sqlfluff fix`` does.

    .. code-block:: sql

        {{ config(materialized='bucketed_table', clustered_by=['user_id'], buckets=64) }}
        select user_id, event_at from {{ ref('stg_clicks') }}
    """

    name = "spark_bucketing.redundant_repartition"
    aliases = ("redundant-repartition",)
    is_fix_compatible = True


class Rule_SparkBucketing_SB18(BucketRule, BaseRule):
    """A bucket column is cast to the type that it has, in a join, filter or grouping.

    It is mended where the type is certain: that of a source, or of a model whose contract is enforced.

    **Anti-pattern**

    .. code-block:: sql

        -- user_id is bigint in both
        select clicks.url, users.city
        from clicks
        inner join users on cast(clicks.user_id as bigint) = users.user_id

    **Best practice**

    Leave the cast out; ``sqlfluff fix`` does.

    .. code-block:: sql

        select clicks.url, users.city
        from clicks
        inner join users on clicks.user_id = users.user_id
    """

    name = "spark_bucketing.needless_cast"
    aliases = ("needless-cast",)
    is_fix_compatible = True


QUERY_RULES: tuple[type[BaseRule], ...] = (
    Rule_SparkBucketing_SB08,
    Rule_SparkBucketing_SB09,
    Rule_SparkBucketing_SB10,
    Rule_SparkBucketing_SB11,
    Rule_SparkBucketing_SB12,
    Rule_SparkBucketing_SB13,
    Rule_SparkBucketing_SB14,
    Rule_SparkBucketing_SB15,
    Rule_SparkBucketing_SB16,
    Rule_SparkBucketing_SB17,
    Rule_SparkBucketing_SB18,
)
