"""What is left when no other reason applies, and what stands above all operators."""

from __future__ import annotations

from spark_bucketing.check.reasons.movements import END, EXCHANGE, EXCHANGE_BELOW, JOIN, SORT, Movement
from spark_bucketing.check.reasons.phrases import doing
from spark_bucketing.check.reasons.reason import Explanation, reason


@reason("the check found no reason; a gap in the check itself", EXCHANGE, EXCHANGE_BELOW, SORT, JOIN)
def unexplained(movement: Movement) -> Explanation | None:
    """None of the other reasons applies: the check does not understand the plan well enough.

    **Anti-pattern**

    None. It is a gap in the check.

    **Best practice**

    Look at the plan (`EXPLAIN FORMATTED`), and report it together with the query and the tables' DDL.
    """
    article = "an" if movement.about.startswith(EXCHANGE) else "a"
    message = f"Spark puts {article} {movement.about} here, and no reason for it is known to this check."
    return Explanation(message, movement.side.entry.tables)


@reason("the outcome as a whole is sorted, limited or spread; buckets cannot help that", END)
def total_order(movement: Movement) -> Explanation | None:
    """The outcome is sorted as a whole, limited, or spread as the query asks, after all joins and groupings.

    **Anti-pattern**

    ```sql
    select user_id, count(*) as n from clicks group by user_id order by n
    ```

    in a model that is a table: a table has no order.

    **Best practice**

    Leave ORDER BY to the query that shows the rows to somebody. To order files, use `sorted_by`.
    """
    return Explanation(f"At the end, {doing(movement.node, movement)}; buckets cannot help that.")
