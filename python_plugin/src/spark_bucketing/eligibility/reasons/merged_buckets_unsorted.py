"""What merging costs on stock Spark."""

from __future__ import annotations

from spark_bucketing.eligibility.changes import let_extension_read, match_either, set_to
from spark_bucketing.eligibility.pairs import closest
from spark_bucketing.eligibility.steps import Explanation, Reason, Step

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

    def explain(self, step: Step) -> Explanation | None:
        """Applies to a Sort of the side with more buckets, where nothing is shuffled."""
        pair = closest(step)
        if pair is None or pair[0].hashed.table is None or pair[1].hashed.table is None:
            return None
        here, there = pair[0].hashed, pair[1].hashed
        if here.partitions <= there.partitions or any(side.exchanges for side in step.op.sides):
            return None
        table = here.table or ""
        reads = step.world.extension_reads(table)
        changes = (set_to(step.world, {MERGED: "64"}),) if reads else let_extension_read(step.world, table)
        return Explanation(
            f"{here.table} has {here.partitions:,} buckets and {there.table} has {there.partitions:,}: "
            f"{here.partitions // there.partitions} sorted files are read one after the other, and sorted again.",
            (here.table or "", there.table or ""),
            (*match_either(step), *changes),
        )
