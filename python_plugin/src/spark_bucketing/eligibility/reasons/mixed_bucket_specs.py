"""Partitions that differ in their buckets."""

from __future__ import annotations

import re

from spark_bucketing.eligibility.changes import rewrite_files, rewrite_partitions
from spark_bucketing.eligibility.partitions import MERGING, selected_partitions
from spark_bucketing.eligibility.steps import Explanation, Reason, Step
from spark_bucketing.eligibility.world import objection
from spark_bucketing.evolution.smallest import smallest_rewrite

_RECORDS = re.compile(
    r"its bucket specs differ|^partition .* (?:is recorded as one|has (?:a broken|no)) "
    r"|^partitions .* (?:are recorded as ones|have (?:broken|no)) "
)
_BEYOND = re.compile(r"a file of bucket \d+, where there are \d+")


class MixedBucketSpecs(Reason):
    """The partitions that the query selects are not all bucketed alike, so that the table is read as a plain one.

    **Anti-pattern**

    A table whose old partitions have 25 buckets and whose new ones have 32, or whose old ones are bucketed by other
    columns, in a query over both.

    **Best practice**

    Select partitions of one spec, or write anew those that stand in the way: `spark-bucketing evolution rewrite`.
    Numbers of buckets with a common divisor are read together by that, unless it is too small. A record that is
    broken or missing may need no more than `spark-bucketing evolution repair`.
    """

    slug = "mixed-bucket-specs"
    summary = "the selected partitions have different bucket specs"

    def explain(self, step: Step) -> Explanation | None:
        """Applies where partitions have specs that do not fit, or a file has a bucket that its spec does not have."""
        why = objection(step.scan) if step.scan and step.needed else None
        if why is None or not (_BEYOND.search(why) or _RECORDS.search(why)):
            return None
        table = step.facts.partitions if step.facts else None
        if step.scan is not None and table is not None and not _BEYOND.search(why):
            selected = selected_partitions(step.scan, table, step.world.folders)
            chosen = smallest_rewrite(table, selected, MERGING)
            if chosen:
                message = f"{step.table} is read as a plain table: {why}."
                return Explanation(message, (step.table,), (rewrite_partitions(step.world, step.table, chosen),))
        message = (
            f"{step.table} is read as a plain table, since its files are not all bucketed as its metadata says: {why}."
        )
        return Explanation(message, (step.table,), (rewrite_files(step.world, step.table),))
