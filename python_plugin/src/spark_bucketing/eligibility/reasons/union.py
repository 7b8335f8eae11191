"""Buckets below a UNION."""

from __future__ import annotations

from spark_bucketing.eligibility.arrivals import broken_at
from spark_bucketing.eligibility.changes import let_extension_read, set_to
from spark_bucketing.eligibility.movements import Explanation, Movement, Reason
from spark_bucketing.eligibility.words import purpose, series

SETTING = "spark.bucketing.union.enabled"


class UnionOfBuckets(Reason):
    """A UNION puts the partitions of its inputs one after the other, and the buckets are lost.

    **Anti-pattern**

    ```sql
    select * from (select * from clicks union all select * from old_clicks) as c join users using (user_id)
    ```

    **Best practice**

    Bucket all inputs of the union alike, and load the extension, which unites their buckets one by one.
    """

    slug = "union"
    summary = "a UNION loses the buckets of its inputs"

    def explain(self, movement: Movement) -> Explanation | None:
        """Applies where the buckets reach a union and not what lies above it."""
        if not movement.needed or not movement.readable:
            return None
        node = broken_at(movement)
        if node is None or node.operator not in ("Union", "BucketUnion"):
            return None
        tables = tuple(dict.fromkeys(scan.table for scan in node.walk() if scan.table))
        reads = movement.by_extension
        changes = (set_to({SETTING: "true"}),) if reads else let_extension_read(movement)
        alike = (
            len({(spec.num_buckets, spec.bucket_hash) for table in tables if (spec := movement.spec_of(table))}) == 1
        )
        why = "" if alike and all(map(movement.spec_of, tables)) else " They are not all bucketed alike."
        return Explanation(
            f"The UNION of {series(tables)} is {purpose(movement)}, and loses the buckets of its inputs.{why}",
            tables,
            changes,
        )
