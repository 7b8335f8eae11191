"""Keys that leave out a bucket column."""

from __future__ import annotations

from spark_bucketing.eligibility.arrivals import broken_at
from spark_bucketing.eligibility.changes import bucket_by_keys, match_other
from spark_bucketing.eligibility.movements import Explanation, Movement, Reason
from spark_bucketing.eligibility.words import buckets, purpose, series


class KeysDoNotCoverBuckets(Reason):
    """A bucket column is not among the keys, so that rows with equal keys are in several buckets.

    **Anti-pattern**

    ```sql
    -- clicks: clustered_by=['user_id', 'day']
    select * from clicks join users using (user_id)
    ```

    **Best practice**

    Bucket by columns that all of the joins and groupings that matter have in common; keys may have more columns than
    the buckets, but no fewer.
    """

    slug = "keys-do-not-cover-buckets"
    summary = "a bucket column is missing among the keys"

    def explain(self, movement: Movement) -> Explanation | None:
        """Applies where the table's bucket columns are not all among the keys."""
        if not movement.needed or movement.spec is None or not movement.uncovered:
            return None
        lost_at = broken_at(movement) if movement.readable else None
        if lost_at is not None and lost_at.operator == "Expand":
            return None
        return Explanation(
            f"{movement.table} has {buckets(movement.spec)} and is {purpose(movement)}: {series(movement.uncovered)} "
            f"{'are' if len(movement.uncovered) > 1 else 'is'} missing among the keys.",
            (movement.table,),
            (*match_other(movement), *bucket_by_keys(movement)),
        )
