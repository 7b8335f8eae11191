"""A shuffle that the query asks for."""

from __future__ import annotations

from spark_bucketing.eligibility.changes import leave_out_repartition
from spark_bucketing.eligibility.movements import Explanation, Movement, Reason


class Repartition(Reason):
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

    slug = "repartition"
    summary = "the query itself asks for a shuffle, by a hint or clause"

    def explain(self, movement: Movement) -> Explanation | None:
        """Applies to Exchanges that a user asked for."""
        shuffle = movement.node.shuffle
        if shuffle is None or not shuffle.requested:
            return None
        how = movement.node.details["Arguments"].split(", [plan_id")[0]
        return Explanation(
            f"The query asks for a shuffle ({how}) of what it reads.",
            tuple(dict.fromkeys(scan.table for scan in movement.node.walk() if scan.table)),
            (leave_out_repartition(),),
        )
