"""ORDER BY and LIMIT at the end."""

from __future__ import annotations

from spark_bucketing.eligibility.movements import Explanation, Movement, Reason
from spark_bucketing.eligibility.words import doing


class TotalOrder(Reason):
    """The outcome is sorted as a whole, limited, or spread as the query asks, after all joins and groupings.

    **Anti-pattern**

    ```sql
    select user_id, count(*) as n from clicks group by user_id order by n
    ```

    in a model that is a table: a table has no order.

    **Best practice**

    Leave ORDER BY to the query that shows the rows to somebody. To order files, use `sorted_by`.
    """

    slug = "total-order"
    summary = "the outcome as a whole is sorted, limited or spread; buckets cannot help that"
    about = ("Exchange", "Sort")

    def explain(self, movement: Movement) -> Explanation | None:
        """Applies to what stands above all operators."""
        return Explanation(f"At the end, {doing(movement.node, movement)}; buckets cannot help that.")
