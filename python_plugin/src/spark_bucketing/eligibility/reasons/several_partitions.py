"""A bucket of several partitions is several files."""

from __future__ import annotations

from spark_bucketing.eligibility.changes import let_extension_read, set_to
from spark_bucketing.eligibility.steps import Explanation, Reason, Step
from spark_bucketing.eligibility.world import partitions_read, reads_all_partitions

MERGED = "spark.bucketing.read.mergeFiles"


class SeveralPartitions(Reason):
    """The query reads several partitions, in each of which a bucket is a file of its own, so that it is sorted again.

    **Anti-pattern**

    ```sql
    -- clicks: partition_by=['day'], clustered_by=['user_id']
    select * from clicks join users using (user_id) where day >= '2024-01-01'
    ```

    on stock Spark.

    **Best practice**

    Load the extension, which merges the sorted files of a bucket while it reads them
    (`spark.bucketing.read.mergeFiles`).
    """

    slug = "several-partitions"
    summary = "a bucket has a file in each of the selected partitions"
    about = ("Sort",)

    def explain(self, step: Step) -> Explanation | None:
        """Applies to a Sort above a scan of several partitions."""
        if not step.readable or step.scan is None or step.facts is None:
            return None
        number = partitions_read(step.scan, step.facts)
        if number < 2:
            return None
        which = "All" if reads_all_partitions(step.scan) else f"{number:,}"
        merge = set_to(step.world, {MERGED: str(max(64, number * (step.facts.files_per_bucket or 1)))})
        return Explanation(
            f"{which} partitions of {step.table} are read, and a bucket has a sorted file in each of them.",
            (step.table,),
            (merge,) if step.world.extension_reads(step.table) else let_extension_read(step.world, step.table),
        )
