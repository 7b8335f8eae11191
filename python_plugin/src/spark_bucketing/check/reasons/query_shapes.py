"""Reasons that lie in the query itself."""

from __future__ import annotations

from spark_bucketing.check.candidate_fixes import leave_out_repartition
from spark_bucketing.check.reasons.exchanges_and_sorts import END, EXCHANGE, EXCHANGE_BELOW, JOIN, SORT, ExchangeOrSort
from spark_bucketing.check.reasons.phrases import doing, series
from spark_bucketing.check.reasons.reason import Explanation, reason


@reason("all rows go into one partition, since there is no key to group them by", EXCHANGE, SORT)
def no_grouping_keys(exchange_or_sort: ExchangeOrSort) -> Explanation | None:
    """An aggregate without GROUP BY, or a window without PARTITION BY, brings all rows together in one task.

    **Anti-pattern**

    A window over the whole table sorts all of it in one task:

    ```sql
    select *, row_number() over (order by event_at) as n from clicks
    ```

    **Best practice**

    Number the rows within a key that the table is bucketed by. An aggregate without GROUP BY is fine: each task sends
    one row, and nothing is to be gained.

    ```sql
    select *, row_number() over (partition by user_id order by event_at) as n from clicks
    ```
    """
    if exchange_or_sort.op.kind == "join" or exchange_or_sort.side.keys != ():
        return None
    if exchange_or_sort.op.kind == "window":
        return Explanation("A window without PARTITION BY brings all rows into one task; no buckets can help that.")
    return Explanation("An aggregate without GROUP BY brings one row of each task together; nothing is to be gained.")


@reason("the join has no equality between the sides, and buckets serve equalities only", JOIN)
def no_equi_join(exchange_or_sort: ExchangeOrSort) -> Explanation | None:
    """The join condition has no equality between the two sides, so that every row meets every other one.

    **Anti-pattern**

    ```sql
    select * from clicks join sessions on clicks.event_at between sessions.started_at and sessions.ended_at
    ```

    **Best practice**

    Join by a key that both tables are bucketed by, and filter further:

    ```sql
    select * from clicks join sessions
      on clicks.user_id = sessions.user_id and clicks.event_at between sessions.started_at and sessions.ended_at
    ```
    """
    tables = exchange_or_sort.op.tables
    return Explanation(
        f"{series(tables)} {'are' if len(tables) > 1 else 'is'} joined without an equality between the sides: every "
        "row is compared with every row. Nothing but an equality of columns makes use of buckets; add one to the "
        "join's condition, if there is one.",
        tables,
    )


@reason("the query itself asks for a shuffle, by a hint or clause", EXCHANGE_BELOW)
def repartition(exchange_or_sort: ExchangeOrSort) -> Explanation | None:
    """A hint or clause of the query itself moves the rows: REPARTITION, REBALANCE, DISTRIBUTE BY, CLUSTER BY.

    **Anti-pattern**

    ```sql
    select * from (select /*+ repartition(200) */ * from clicks) as clicks join users using (user_id)
    ```

    **Best practice**

    Leave it out where the table is bucketed: its buckets are the partitions.

    ```sql
    select * from clicks join users using (user_id)
    ```
    """
    shuffle = exchange_or_sort.node.shuffle
    if shuffle is None or not shuffle.requested:
        return None
    how = exchange_or_sort.node.details["Arguments"].split(", [plan_id")[0]
    message = f"The query asks for a shuffle ({how}) of what it reads."
    return Explanation(message, exchange_or_sort.node.tables, (leave_out_repartition(),))


@reason("the outcome as a whole is sorted, limited or spread; buckets cannot help that", END)
def global_sort(exchange_or_sort: ExchangeOrSort) -> Explanation | None:
    """The outcome is sorted as a whole, limited, or spread as the query asks, after all joins and groupings.

    **Anti-pattern**

    ```sql
    select user_id, count(*) as n from clicks group by user_id order by n
    ```

    in a model that is a table: a table has no order.

    **Best practice**

    Leave ORDER BY to the query that shows the rows to somebody. To order files, use `sorted_by`.
    """
    return Explanation(f"At the end, {doing(exchange_or_sort.node, exchange_or_sort)}; buckets cannot help that.")
