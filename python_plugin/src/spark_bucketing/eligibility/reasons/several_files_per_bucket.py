"""Buckets of more than one file."""

from __future__ import annotations

from spark_bucketing.eligibility.changes import Change, merge_files, rewrite_files
from spark_bucketing.eligibility.movements import Explanation, Movement, Reason

MERGED = "spark.bucketing.read.mergeFiles"


class SeveralFilesPerBucket(Reason):
    """A bucket has several files, each of them sorted, so that their rows are sorted again.

    **Anti-pattern**

    `insert into clicks select ...` on stock Spark: every writing task adds a file to every bucket.

    **Best practice**

    Write the table with dbt, or with the extension loaded, and test it with `spark_bucketing.one_file_per_bucket`.
    """

    slug = "several-files-per-bucket"
    summary = "a bucket has several files"
    about = ("Sort",)

    def explain(self, movement: Movement) -> Explanation | None:
        """Applies to a Sort above a scan of a table that has more than one file in a bucket."""
        if not movement.readable or movement.facts is None or (movement.facts.files_per_bucket or 1) < 2:
            return None
        files = movement.facts.files_per_bucket or 1
        changes: list[Change] = [rewrite_files(movement.facts)]
        changes += merge_files(movement, files)
        return Explanation(
            f"A bucket of {movement.table} has {files:,} files: they are sorted one by one, and not together.",
            (movement.table,),
            tuple(changes),
        )
