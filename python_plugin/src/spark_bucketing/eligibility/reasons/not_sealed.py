"""Files that no seal covers."""

from __future__ import annotations

from spark_bucketing.eligibility.changes import rewrite_files, rewrite_partitions, seal
from spark_bucketing.eligibility.movements import Explanation, Movement, Reason
from spark_bucketing.eligibility.partitions import MERGING, selected_partitions
from spark_bucketing.eligibility.scans import SEAL_CODES
from spark_bucketing.evolution.together import smallest_rewrite


class NotSealed(Reason):
    """Nothing proves that the table's files are its buckets, so that it is read as a plain table.

    A write through the extension seals its files. Files of others have no seal, and files that were changed have one
    that does not fit them any more.

    **Anti-pattern**

    An INSERT by Hive, Trino or a Spark session without the extension; files that were copied or restored.

    **Best practice**

    `spark-bucketing seal TABLE`, which reads the bucket and sort columns once and seals what holds. Where it does not
    hold, write the table anew (`dbt run --full-refresh`).
    """

    slug = "not-sealed"
    summary = "no seal proves that the files are the buckets that the metadata says"

    def explain(self, movement: Movement) -> Explanation | None:
        """Applies where the extension says so."""
        note = movement.note if movement.needed else None
        if note is None or movement.facts is None or note.code not in SEAL_CODES:
            return None
        facts, scan = movement.facts, movement.scan
        changes = (seal(facts), rewrite_files(facts))
        if facts.partitions is not None and scan is not None:
            selected = selected_partitions(scan, facts.partitions, movement.query.folders)
            if chosen := smallest_rewrite(facts.partitions, selected, MERGING):
                changes = (seal(facts), rewrite_partitions(facts, chosen))
        message = f"{movement.table} is read as a plain table: {note.words} ({note.code})."
        return Explanation(message, (movement.table,), changes)
