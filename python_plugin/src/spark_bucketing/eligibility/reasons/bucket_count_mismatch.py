"""Bucket counts that do not fit."""

from __future__ import annotations

from spark_bucketing.eligibility.changes import match_either, set_to
from spark_bucketing.eligibility.joining import divides
from spark_bucketing.eligibility.pairs import closest
from spark_bucketing.eligibility.steps import Change, Explanation, Reason, Step

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

    def explain(self, step: Step) -> Explanation | None:
        """Applies where the sides' numbers differ and do not divide, or where one side is no table's buckets."""
        pair = closest(step) if step.needed else None
        if pair is None or pair[0].hashed.kind != pair[1].hashed.kind:
            return None
        here, there = pair[0].hashed, pair[1].hashed
        if here.partitions == there.partitions:
            return None
        if here.table is not None and there.table is not None and divides(here.partitions, there.partitions):
            return None
        names = [hashed.table or "what an earlier shuffle made" for hashed in (here, there)]
        count = here.partitions if here.table else there.partitions
        changes: tuple[Change, ...] = match_either(step)
        if here.table is None or there.table is None:
            changes = (set_to(step.world, {PARTITIONS: str(count)}), *changes)
        return Explanation(
            f"{names[0]} has {here.partitions:,} {'buckets' if here.table else 'partitions'} and {names[1]} has "
            f"{there.partitions:,}: they cannot be put side by side.",
            tuple(hashed.table for hashed in (here, there) if hashed.table),
            changes,
        )
