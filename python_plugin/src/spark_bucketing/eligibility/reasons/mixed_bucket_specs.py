"""Partitions that differ in their buckets."""

from __future__ import annotations

from spark_bucketing.eligibility.changes import rewrite_files, rewrite_partitions
from spark_bucketing.eligibility.movements import Explanation, Movement, Reason
from spark_bucketing.eligibility.partitions import MERGING, selected_partitions
from spark_bucketing.eligibility.scans import MIXED_CODES
from spark_bucketing.evolution.together import smallest_rewrite


class MixedBucketSpecs(Reason):
    """The partitions that the query selects are not all bucketed alike, so that the table is read as a plain one.

    **Anti-pattern**

    A table whose old partitions have 25 buckets and whose new ones have 32, or whose old ones are bucketed by other
    columns, in a query over both.

    **Best practice**

    Select partitions of one spec, or write anew those that stand in the way: `spark-bucketing evolution rewrite`.
    Numbers of buckets with a common divisor are read together by that, unless it is too small. Partitions
    without a seal may need no more than `spark-bucketing seal`.
    """

    slug = "mixed-bucket-specs"
    summary = "the selected partitions have different bucket specs"

    def explain(self, movement: Movement) -> Explanation | None:
        """Applies where the extension says so."""
        note = movement.note if movement.needed else None
        if note is None or movement.facts is None or note.code not in MIXED_CODES:
            return None
        table, changes = movement.facts.partitions, (rewrite_files(movement.facts),)
        if movement.scan is not None and table is not None:
            selected = selected_partitions(movement.scan, table, movement.query.folders)
            if chosen := smallest_rewrite(table, selected, MERGING):
                changes = (rewrite_partitions(movement.facts, chosen),)
        return Explanation(f"{movement.table} is read as a plain table: {note.words}.", (movement.table,), changes)
