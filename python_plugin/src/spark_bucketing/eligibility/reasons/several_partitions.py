"""A bucket of several partitions is several files."""

from __future__ import annotations

from spark_bucketing.eligibility.changes import merge_files
from spark_bucketing.eligibility.movements import Explanation, Movement, Reason
from spark_bucketing.eligibility.scans import partitions_read, reads_all_partitions

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

    def explain(self, movement: Movement) -> Explanation | None:
        """Applies to a Sort above a scan of several partitions."""
        if not movement.readable or movement.scan is None or movement.facts is None:
            return None
        number = partitions_read(movement.scan, movement.facts)
        if number < 2:
            return None
        which = "All" if reads_all_partitions(movement.scan) else f"{number:,}"
        return Explanation(
            f"{which} partitions of {movement.table} are read, and a bucket has a sorted file in each of them.",
            (movement.table,),
            merge_files(movement, number * (movement.facts.files_per_bucket or 1)),
        )
