"""Partitions that differ in their buckets."""

from __future__ import annotations

import re

from spark_bucketing.eligibility.changes import rewrite_files
from spark_bucketing.eligibility.steps import Explanation, Reason, Step
from spark_bucketing.eligibility.world import objection

_BEYOND = re.compile(r"a file of bucket \d+, where there are \d+")


class MixedBucketSpecs(Reason):
    """The partitions that the query selects are not all bucketed alike, so that the table is read as a plain one.

    **Anti-pattern**

    A table whose old partitions have 16 buckets and whose new ones have 8, in a query over both.

    **Best practice**

    Select partitions of one spec, or write the old ones anew.
    """

    slug = "mixed-bucket-specs"
    summary = "the selected partitions have different bucket specs"

    def explain(self, step: Step) -> Explanation | None:
        """Applies where the extension met a file with a bucket that the table's spec does not have."""
        why = objection(step.scan) if step.scan and step.needed else None
        if why is None or not (_BEYOND.search(why) or "spec" in why):
            return None
        message = (
            f"{step.table} is read as a plain table, since its files are not all bucketed as its metadata says: {why}."
        )
        return Explanation(message, (step.table,), (rewrite_files(step.world, step.table),))
