"""What loses the order of sorted files."""

from __future__ import annotations

from spark_bucketing.eligibility.changes import let_extension_read
from spark_bucketing.eligibility.path import disordered_at
from spark_bucketing.eligibility.steps import Explanation, Reason, Step
from spark_bucketing.eligibility.world import bucket_read


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

    def explain(self, step: Step) -> Explanation | None:
        """Applies to a Sort whose order the scan has."""
        if step.scan is None:
            return None
        read = bucket_read(step.scan, step.world)
        node = disordered_at(step) if read and read.order else None
        if node is None:
            return None
        return Explanation(
            f"{step.table} is read in order, but {node.operator} does not keep it.",
            (step.table,),
            () if step.world.extension_reads(step.table) else let_extension_read(step.world, step.table),
        )
