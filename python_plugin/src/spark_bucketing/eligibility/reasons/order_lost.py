"""What loses the order of sorted files."""

from __future__ import annotations

from spark_bucketing.eligibility.arrivals import disordered_at, reads_in_order
from spark_bucketing.eligibility.changes import let_extension_read
from spark_bucketing.eligibility.movements import Explanation, Movement, Reason


class OrderLost(Reason):
    """The files are sorted as wanted, but an operator between them and this one does not keep the order.

    **Anti-pattern**

    ```sql
    select * from (select user_id, name from users union all select user_id, name from old_users) as u
    join clicks using (user_id)
    ```

    **Best practice**

    Nothing in most cases: a sort of rows that do not move is cheap beside a shuffle. The extension merges sorted
    inputs of a union.
    """

    slug = "order-lost"
    summary = "an operator in between loses the order of the files"
    about = ("Sort",)

    def explain(self, movement: Movement) -> Explanation | None:
        """Applies to a Sort whose order the scan has."""
        if movement.scan is None:
            return None
        node = disordered_at(movement) if reads_in_order(movement) else None
        if node is None:
            return None
        return Explanation(
            f"{movement.table} is read in order, but {node.operator} does not keep it.",
            (movement.table,),
            () if movement.by_extension else let_extension_read(movement),
        )
