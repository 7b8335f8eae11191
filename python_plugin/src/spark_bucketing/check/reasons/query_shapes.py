"""Reasons in the text of the query itself."""

from __future__ import annotations

from spark_bucketing.check.changes import leave_out_repartition
from spark_bucketing.check.reasons.exchanges_and_sorts import END, EXCHANGE, EXCHANGE_BELOW, JOIN, SORT, ExchangeOrSort
from spark_bucketing.check.reasons.phrases import doing, series
from spark_bucketing.check.reasons.reason import Explanation, reason


@reason("all rows go to one partition, because there is no grouping key", EXCHANGE, SORT)
def no_grouping_keys(exchange_or_sort: ExchangeOrSort) -> Explanation | None:
    """An aggregate without GROUP BY or a window without PARTITION BY collects all rows in one task.

    **Anti-pattern**

    A window without PARTITION BY sorts the whole table in one task:

    ```sql
    select *, row_number() over (order by event_at) as n from clicks
    ```

    **Best practice**

    Partition the window by the table's bucket columns. An aggregate without GROUP BY is fine, because each task sends
    only one row.

    ```sql
    select *, row_number() over (partition by user_id order by event_at) as n from clicks
    ```
    """
    if exchange_or_sort.op.kind == "join" or exchange_or_sort.side.keys != ():
        return None
    if exchange_or_sort.op.kind == "window":
        return Explanation("A window without PARTITION BY collects all rows in one task. Buckets cannot prevent this.")
    return Explanation("An aggregate without GROUP BY sends only one row per task, so it needs no improvement.")


@reason("the join condition has no equality between the two sides, and buckets help only with equalities", JOIN)
def no_equi_join(exchange_or_sort: ExchangeOrSort) -> Explanation | None:
    """The join condition does not require equal values on both sides, so Spark compares every pair of rows.

    **Anti-pattern**

    ```sql
    select * from clicks join sessions on clicks.event_at between sessions.started_at and sessions.ended_at
    ```

    **Best practice**

    Join on the bucket columns of both tables, and add the other conditions:

    ```sql
    select * from clicks join sessions
      on clicks.user_id = sessions.user_id and clicks.event_at between sessions.started_at and sessions.ended_at
    ```
    """
    tables = exchange_or_sort.op.tables
    return Explanation(
        f"{series(tables)} {'are' if len(tables) > 1 else 'is'} joined without an equality between the sides, so "
        "Spark compares every pair of rows. Only an equality of columns can use buckets. If there is one, add it to "
        "the join condition.",
        tables,
    )


@reason("a hint or clause in the query requests a shuffle", EXCHANGE_BELOW)
def repartition(exchange_or_sort: ExchangeOrSort) -> Explanation | None:
    """A hint or clause in the query makes Spark shuffle the rows: REPARTITION, REBALANCE, DISTRIBUTE BY or CLUSTER BY.

    **Anti-pattern**

    ```sql
    select * from (select /*+ repartition(200) */ * from clicks) as clicks join users using (user_id)
    ```

    **Best practice**

    Remove the hint or clause if the table is bucketed, because the rows are already partitioned by bucket.

    ```sql
    select * from clicks join users using (user_id)
    ```
    """
    shuffle = exchange_or_sort.node.shuffle
    if shuffle is None or not shuffle.requested:
        return None
    message = f"The query requests a shuffle ({shuffle.text}) of its input."
    return Explanation(message, exchange_or_sort.node.tables, (leave_out_repartition(),))


@reason("the final result is sorted, limited or redistributed, which buckets cannot prevent", END)
def global_sort(exchange_or_sort: ExchangeOrSort) -> Explanation | None:
    """After all joins and aggregations, the query sorts, limits or redistributes its result.

    **Anti-pattern**

    ```sql
    select user_id, count(*) as n from clicks group by user_id order by n
    ```

    In a model that is a table, this ORDER BY has no lasting effect, because the rows of a table have no order.

    **Best practice**

    Use ORDER BY in the query that displays the rows. To sort the files, use `sorted_by`.
    """
    return Explanation(
        f"At the end of the query, {doing(exchange_or_sort.node, exchange_or_sort)}. Buckets cannot prevent this."
    )
