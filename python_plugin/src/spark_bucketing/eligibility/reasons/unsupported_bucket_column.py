"""Bucket columns whose hash cannot be relied on."""

from __future__ import annotations

from spark_bucketing.eligibility.steps import Explanation, Reason, Step
from spark_bucketing.eligibility.world import objection


class UnsupportedBucketColumn(Reason):
    """The table's bucket column, or its bucketing version, is one that cannot be read as bucketed.

    **Anti-pattern**

    Buckets of a `double` column: equal values such as 0.0 and -0.0 are in different buckets. Or tables of Hive's
    bucketing version 2, whose hash Spark does not know.

    **Best practice**

    Bucket by boolean, integer, decimal, string or date columns, in bucketing version 1.
    """

    slug = "unsupported-bucket-column"
    summary = "buckets of this type or version cannot be read as such"

    def explain(self, step: Step) -> Explanation | None:
        """Applies where the extension says so."""
        why = objection(step.scan) if step.scan and step.needed else None
        if why is None or not why.startswith(("bucket column", "its bucketing_version", "several columns")):
            return None
        return Explanation(f"{step.table} cannot be read as bucketed: {why}.", (step.table,))
