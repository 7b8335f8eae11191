"""What merging costs on stock Spark."""

from __future__ import annotations

from spark_bucketing.eligibility.changes import let_extension_read, match_either, set_to
from spark_bucketing.eligibility.movements import Explanation, Movement, Reason

MERGED = "spark.bucketing.read.mergeFiles"


class MergedBucketsUnsorted(Reason):
    """Several buckets are read as one, one after the other, so that their order is lost and they are sorted again.

    **Anti-pattern**

    64 buckets against 16 on stock Spark with `coalesceBucketsInJoin`.

    **Best practice**

    Take the same number of buckets on both sides, or load the extension, which merges sorted buckets while it reads
    them.
    """

    slug = "merged-buckets-unsorted"
    summary = "several buckets are read as one, which loses their order"
    about = ("Sort",)

    def explain(self, movement: Movement) -> Explanation | None:
        """Applies to a Sort of the side with more buckets, where nothing is shuffled."""
        pair = movement.closest
        if pair is None or pair[0].table is None or pair[1].table is None:
            return None
        here, there = pair[0], pair[1]
        if here.partitions <= there.partitions or any(side.exchanges for side in movement.op.sides):
            return None
        reads = movement.by_extension
        changes = (set_to({MERGED: "64"}),) if reads else let_extension_read(movement)
        return Explanation(
            f"{here.table} has {here.partitions:,} buckets and {there.table} has {there.partitions:,}: "
            f"{here.partitions // there.partitions} sorted files are read one after the other, and sorted again.",
            (here.table or "", there.table or ""),
            (*match_either(movement), *changes),
        )
