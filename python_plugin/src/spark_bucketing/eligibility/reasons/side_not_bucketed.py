"""A bucketed table that meets a plain one."""

from __future__ import annotations

from spark_bucketing.eligibility.changes import match_other
from spark_bucketing.eligibility.movements import Explanation, Movement, Reason
from spark_bucketing.eligibility.words import buckets, purpose, series


class SideNotBucketed(Reason):
    """One side of the join is bucketed and this one is not, so that this one is moved.

    **Anti-pattern**

    ```sql
    -- clicks: clustered_by=['user_id'], buckets=64; users: not bucketed
    select * from clicks join users using (user_id)
    ```

    **Best practice**

    Bucket both sides by the join key, into the same number of buckets.
    """

    slug = "side-not-bucketed"
    summary = "this side of the join has no buckets, while the other one has"

    def explain(self, movement: Movement) -> Explanation | None:
        """Applies to a side without any bucketed table, or whose keys come from a plain one."""
        if movement.other is None or not movement.needed or not movement.keys:
            return None
        columns = movement.plain_columns()
        plain = columns is not None and movement.spec_of(columns[0]) is None
        if movement.scan is not None and not plain:
            return None
        tables = tuple(dict.fromkeys(scan.table for scan in movement.side.scans if scan.table))
        here = (
            f"{series(tables)} {'are' if len(tables) > 1 else 'is'} not bucketed"
            if tables
            else ("This side of the join reads no table")
        )
        if plain and columns:
            here = f"{columns[0]} is not bucketed"
        there = f"; {movement.other.table} has {buckets(movement.other.spec)}" if movement.other.spec else ""
        return Explanation(f"{here}, and is {purpose(movement)}{there}.", tables, tuple(match_other(movement)))
