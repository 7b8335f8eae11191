"""Buckets of different keys."""

from __future__ import annotations

from spark_bucketing.eligibility.changes import match_either
from spark_bucketing.eligibility.steps import Explanation, Reason, Step
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

    def explain(self, step: Step) -> Explanation | None:
        """Applies where both sides' buckets serve the join, and not each other."""
        other = step.other
        if not step.needed or other is None or not step.within or not other.within:
            return None
        if step.spec is None or other.spec is None:
            return None
        return Explanation(
            f"{step.table} has {buckets(step.spec)} and {other.table} has {buckets(other.spec)}: these are "
            "different keys of the join.",
            (step.table, other.table),
            match_either(step),
        )
