"""Buckets of different keys."""

from __future__ import annotations

from spark_bucketing.eligibility.changes import match_either
from spark_bucketing.eligibility.movements import Explanation, Movement, Reason
from spark_bucketing.eligibility.words import buckets


class BucketColumnsDiffer(Reason):
    """Both sides are bucketed by keys of the join, but not by the same ones.

    **Anti-pattern**

    ```sql
    -- clicks: clustered_by=['user_id']; sessions: clustered_by=['session_id']
    select * from clicks join sessions using (user_id, session_id)
    ```

    **Best practice**

    Bucket both sides by the same key, in the same order of columns.
    """

    slug = "bucket-columns-differ"
    summary = "both sides are bucketed, by different keys of the join"

    def explain(self, movement: Movement) -> Explanation | None:
        """Applies where both sides' buckets serve the join, and not each other."""
        other = movement.other
        if not movement.needed or other is None or not movement.arrivals or not other.arrivals:
            return None
        if movement.spec is None or other.spec is None:
            return None
        return Explanation(
            f"{movement.table} has {buckets(movement.spec)} and {other.table} has {buckets(other.spec)}: these are "
            "different keys of the join.",
            (movement.table, other.table),
            match_either(movement),
        )
