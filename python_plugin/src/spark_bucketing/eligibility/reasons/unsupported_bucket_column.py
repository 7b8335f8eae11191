"""Bucket columns whose hash cannot be relied on."""

from __future__ import annotations

from spark_bucketing.eligibility.movements import Explanation, Movement, Reason
from spark_bucketing.eligibility.scans import COLUMN_CODES


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

    def explain(self, movement: Movement) -> Explanation | None:
        """Applies where the extension says so."""
        note = movement.note if movement.needed else None
        if note is None or note.code not in COLUMN_CODES:
            return None
        return Explanation(f"{movement.table} cannot be read as bucketed: {note.words}.", (movement.table,))
