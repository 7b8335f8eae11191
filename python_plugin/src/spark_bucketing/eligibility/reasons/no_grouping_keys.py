"""An aggregate or window over all rows."""

from __future__ import annotations

from spark_bucketing.eligibility.movements import Explanation, Movement, Reason


class NoGroupingKeys(Reason):
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

    slug = "no-grouping-keys"
    summary = "all rows go into one partition, since there is no key to group them by"
    about = ("Exchange", "Sort")

    def explain(self, movement: Movement) -> Explanation | None:
        """Applies to what has no keys, but to no join."""
        if movement.op.kind == "join" or movement.side.keys != () or not movement.needed:
            return None
        if movement.op.kind == "window":
            return Explanation("A window without PARTITION BY brings all rows into one task; no buckets can help that.")
        return Explanation(
            "An aggregate without GROUP BY brings one row of each task together; nothing is to be gained."
        )
