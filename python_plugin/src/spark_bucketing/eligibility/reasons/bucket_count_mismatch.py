"""Bucket counts that do not fit."""

from __future__ import annotations

from spark_bucketing.eligibility.arrivals import divides
from spark_bucketing.eligibility.changes import Change, match_either, set_to
from spark_bucketing.eligibility.movements import Explanation, Movement, Reason

PARTITIONS = "spark.sql.shuffle.partitions"


class BucketCountMismatch(Reason):
    """The two sides have different numbers of buckets, of which neither is a multiple of the other.

    **Anti-pattern**

    ```sql
    -- clicks: buckets=64; users: buckets=24
    select * from clicks join users using (user_id)
    ```

    **Best practice**

    Take powers of two everywhere: any two of them fit. It is the same when one side was shuffled before, by an earlier
    join: its rows are in `spark.sql.shuffle.partitions` partitions.
    """

    slug = "bucket-count-mismatch"
    summary = "the numbers of buckets differ, and neither divides the other"

    def explain(self, movement: Movement) -> Explanation | None:
        """Applies where the sides' numbers differ and do not divide, or where one side is no table's buckets."""
        pair = movement.closest if movement.needed else None
        if pair is None or pair[0].kind != pair[1].kind:
            return None
        here, there = pair[0], pair[1]
        if here.partitions == there.partitions:
            return None
        if here.table is not None and there.table is not None and divides(here.partitions, there.partitions):
            return None
        names = [hashed.table or "what an earlier shuffle made" for hashed in (here, there)]
        count = here.partitions if here.table else there.partitions
        changes: tuple[Change, ...] = match_either(movement)
        if here.table is None or there.table is None:
            changes = (set_to({PARTITIONS: str(count)}), *changes)
        return Explanation(
            f"{names[0]} has {here.partitions:,} {'buckets' if here.table else 'partitions'} and {names[1]} has "
            f"{there.partitions:,}: they cannot be put side by side.",
            tuple(hashed.table for hashed in (here, there) if hashed.table),
            changes,
        )
