"""Buckets of more than one file."""

from __future__ import annotations

from spark_bucketing.eligibility.changes import let_extension_read, rewrite_files, set_to
from spark_bucketing.eligibility.steps import Change, Explanation, Reason, Step

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

    def explain(self, step: Step) -> Explanation | None:
        """Applies to a Sort above a scan of a table that has more than one file in a bucket."""
        if not step.readable or step.facts is None or (step.facts.files_per_bucket or 1) < 2:
            return None
        files = step.facts.files_per_bucket or 1
        changes: list[Change] = [rewrite_files(step.world, step.table)]
        if step.world.extension_reads(step.table):
            changes.append(set_to(step.world, {MERGED: str(max(64, files))}))
        else:
            changes += let_extension_read(step.world, step.table)
        return Explanation(
            f"A bucket of {step.table} has {files:,} files: they are sorted one by one, and not together.",
            (step.table,),
            tuple(changes),
        )
