"""A join without an equality."""

from __future__ import annotations

from spark_bucketing.eligibility.movements import Explanation, Movement, Reason
from spark_bucketing.eligibility.words import series


class NoEquiJoin(Reason):
    """The join condition has no equality between the two sides, so that every row meets every other one.

    **Anti-pattern**

    ```sql
    select * from clicks join sessions on clicks.event_at between sessions.started_at and sessions.ended_at
    ```

    **Best practice**

    Join by a key that both tables are bucketed by, and filter further:

    ```sql
    select * from clicks join sessions
      on clicks.user_id = sessions.user_id and clicks.event_at between sessions.started_at and sessions.ended_at
    ```
    """

    slug = "no-equi-join"
    summary = "the join has no equality between the sides, and buckets serve equalities only"
    about = ("Join",)

    def explain(self, movement: Movement) -> Explanation | None:
        """Applies to a join without keys, which is no broadcast."""
        if movement.op.kind != "join" or not movement.op.keyless or movement.op.broadcast:
            return None
        tables = tuple(dict.fromkeys(scan.table for side in movement.op.sides for scan in side.scans if scan.table))
        who = f"{series(tables)} are" if len(tables) > 1 else f"{series(tables)} is"
        return Explanation(
            f"{who} joined without an equality between the sides: every row is compared with every "
            "row. Nothing but an equality of columns makes use of buckets; add one to the join's condition, if there "
            "is one.",
            tables,
        )
