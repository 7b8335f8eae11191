"""Files that break their table's word."""

from __future__ import annotations

from spark_bucketing.eligibility.changes import rewrite_files
from spark_bucketing.eligibility.steps import Explanation, Reason, Step
from spark_bucketing.eligibility.world import objection


class FilesNotAsBucketed(Reason):
    """The table's files are not the buckets that its metadata promises, so that it is read as a plain table.

    **Anti-pattern**

    An INSERT by a stock Spark session after a SELECT from the same table, which writes files without buckets.

    **Best practice**

    Write bucketed tables with dbt, or with the extension loaded, and let `dbt test` look at the files
    (`spark_bucketing.one_file_per_bucket`).
    """

    slug = "files-not-as-bucketed"
    summary = "the files are not the buckets that the metadata promises"

    def explain(self, step: Step) -> Explanation | None:
        """Applies where the extension found such a file."""
        why = objection(step.scan) if step.scan and step.needed else None
        if why is None:
            return None
        message = f"{step.table} is read as a plain table, since its files are not as its metadata says: {why}."
        return Explanation(message, (step.table,), (rewrite_files(step.world, step.table),))
