"""What lies between a bucketed table and an operator."""

from __future__ import annotations

from spark_bucketing.eligibility.arrivals import broken_at
from spark_bucketing.eligibility.changes import leave_out_repartition
from spark_bucketing.eligibility.known import GATHERING
from spark_bucketing.eligibility.movements import Explanation, Movement, Reason
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

    def explain(self, movement: Movement) -> Explanation | None:
        """Applies where the buckets get lost on the way, and to the Exchanges of what loses them."""
        if not movement.needed:
            tables = tuple(dict.fromkeys(scan.table for scan in movement.node.walk() if scan.table))
            limit = movement.node.operator in GATHERING
            above = next((n for n in movement.side.way if movement.node in n.children and not limit), movement.node)
            return Explanation(f"On the way, {doing(above, movement)}. That is what the query asks for.", tables)
        if not movement.readable or movement.spec is None:
            return None
        node = broken_at(movement)
        if node is None:
            return None
        message = (
            f"{movement.table} has {buckets(movement.spec)} and is {purpose(movement)}, but {doing(node, movement)}."
        )
        asked = node.shuffle is not None and node.shuffle.requested
        return Explanation(message, (movement.table,), (leave_out_repartition(),) if asked else ())
