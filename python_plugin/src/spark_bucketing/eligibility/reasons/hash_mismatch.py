"""Hive's hash against Spark's."""

from __future__ import annotations

from spark_bucketing.eligibility.changes import match_either
from spark_bucketing.eligibility.movements import Explanation, Movement, Reason


class HashMismatch(Reason):
    """One table is bucketed by Hive's hash and the other one by Spark's, so that equal keys are in different buckets.

    **Anti-pattern**

    ```sql
    -- clicks: bucket_hash='hive'; users: bucket_hash='spark'
    select * from clicks join users using (user_id)
    ```

    **Best practice**

    Choose one `bucket_hash` for the project.
    """

    slug = "hash-mismatch"
    summary = "one table has the Hive layout, the other one the Spark layout"

    def explain(self, movement: Movement) -> Explanation | None:
        """Applies where both sides are bucketed, by different hashes."""
        pair = movement.closest if movement.needed else None
        if pair is None or pair[0].kind == pair[1].kind:
            return None
        here, there = pair[0], pair[1]
        if here.table is None or there.table is None:
            return None
        return Explanation(
            f"{here.table} is bucketed by {here.kind.capitalize()}'s hash and {there.table} by "
            f"{there.kind.capitalize()}'s: equal keys are in different buckets.",
            (here.table, there.table),
            match_either(movement),
        )
