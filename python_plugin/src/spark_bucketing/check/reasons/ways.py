"""Reasons that lie between a table and an operator."""

from __future__ import annotations

from spark_bucketing.check.candidates import leave_out_repartition, let_extension_read, set_to
from spark_bucketing.check.reasons.movements import EXCHANGE, EXCHANGE_BELOW, Movement
from spark_bucketing.check.reasons.partitioning import lost_at
from spark_bucketing.check.reasons.phrases import buckets, doing, purpose, series
from spark_bucketing.check.reasons.reason import Explanation, reason
from spark_bucketing.check.session_settings import UNION
from spark_bucketing.plan.known import GATHERING


@reason("a UNION loses the buckets of its inputs")
def union(movement: Movement) -> Explanation | None:
    """A UNION puts the partitions of its inputs one after the other, and the buckets are lost.

    **Anti-pattern**

    ```sql
    select * from (select * from clicks union all select * from old_clicks) as c join users using (user_id)
    ```

    **Best practice**

    Bucket all inputs of the union alike, and load the extension, which unites their buckets one by one.
    """
    table, node = movement.read, lost_at(movement)
    if table is None or node is None or node.operator not in ("Union", "BucketUnion"):
        return None
    scans = [movement.query.bucketed(scan) for scan in node.scans]
    alike = None not in scans and len({(s.spec.num_buckets, s.spec.bucket_hash) for s in scans if s}) == 1
    return Explanation(
        f"The UNION of {series(node.tables)} is {purpose(movement)}, and loses the buckets of its inputs."
        f"{'' if alike else ' They are not all bucketed alike.'}",
        node.tables,
        (set_to({UNION: "true"}),) if table.by_extension else let_extension_read(table),
    )


@reason(
    "an operator in between spreads the rows otherwise: LIMIT, ORDER BY, another join or grouping",
    EXCHANGE,
    EXCHANGE_BELOW,
)
def layout_destroyed(movement: Movement) -> Explanation | None:
    """An operator between the table and this one spreads the rows otherwise.

    **Anti-pattern**

    ```sql
    select * from (select * from clicks order by event_at limit 1000) as c join users using (user_id)
    ```

    **Best practice**

    Join and group by the bucket key first, and sort, limit, or join by other keys afterwards.
    """
    if movement.about == EXCHANGE_BELOW:
        limit = movement.node.operator in GATHERING
        above = next((n for n in movement.side.way if movement.node in n.children and not limit), movement.node)
        message = f"On the way, {doing(above, movement)}. That is what the query asks for."
        return Explanation(message, movement.node.tables)
    table, node = movement.read, lost_at(movement)
    if table is None or node is None:
        return None
    message = f"{table.name} has {buckets(table.spec)} and is {purpose(movement)}, but {doing(node, movement)}."
    asked = node.shuffle is not None and node.shuffle.requested
    return Explanation(message, (table.name,), (leave_out_repartition(),) if asked else ())
