"""What lies between a bucketed table and an operator."""

from __future__ import annotations

from spark_bucketing.eligibility.changes import leave_out
from spark_bucketing.eligibility.known import GATHERING
from spark_bucketing.eligibility.path import broken_at
from spark_bucketing.eligibility.steps import Explanation, Reason, Step
from spark_bucketing.eligibility.words import buckets, doing, purpose


class LayoutDestroyed(Reason):
    """An operator between the table and this one spreads the rows otherwise.

    **Anti-pattern**

    ```sql
    select * from (select * from clicks order by event_at limit 1000) as c join users using (user_id)
    ```

    **Best practice**

    Join and group by the bucket key first, and sort, limit, or join by other keys afterwards.
    """

    slug = "layout-destroyed"
    summary = "an operator in between spreads the rows otherwise: LIMIT, ORDER BY, another join or grouping"

    def explain(self, step: Step) -> Explanation | None:
        """Applies where the buckets get lost on the way, and to the Exchanges of what loses them."""
        if not step.needed:
            tables = tuple(dict.fromkeys(scan.table for scan in step.node.walk() if scan.table))
            limit = step.node.operator in GATHERING
            above = next((n for n in step.side.way if step.node in n.children and not limit), step.node)
            return Explanation(f"On the way, {doing(above, step)}. That is what the query asks for.", tables)
        if not step.readable or step.spec is None:
            return None
        node = broken_at(step)
        if node is None:
            return None
        message = f"{step.table} has {buckets(step.spec)} and is {purpose(step)}, but {doing(node, step)}."
        asked = node.shuffle is not None and node.shuffle.requested
        return Explanation(message, (step.table,), (leave_out(node, step.world),) if asked else ())
