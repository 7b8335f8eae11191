"""What becomes of a rewrite that has died."""

from __future__ import annotations

from spark_bucketing.evolution import guards
from spark_bucketing.evolution.evidence import has_spec
from spark_bucketing.evolution.locations import is_within, plain
from spark_bucketing.evolution.model import Partition
from spark_bucketing.evolution.rows import list_files, read_evidence
from spark_bucketing.evolution.staging import (
    Staging,
    are_copies,
    drop_staging,
    find_staging,
    fingerprint,
    read_list,
    share_files,
    take_over,
)
from spark_bucketing.evolution.steps import Steps
from spark_bucketing.spec import BucketSpec


class Recovery(Steps):
    """Completes or undoes what another run has begun."""

    def run(self, died: bool) -> bool:
        """Complete or undo what a run began that has died.

        Args:
            died: it is dead, even if that cannot be told from here.

        Returns:
            Whether there was anything.

        Raises:
            TableError: it may still be at work.
        """
        staging = find_staging(self.warehouse, self.table)
        if staging is None:
            return False
        guards.refuse_owned(self.table, staging, died)
        guards.refuse_other_table(self.warehouse, self.table, staging)
        staging = take_over(self.warehouse, staging)
        partition = next((found for found in self.table.partitions if found.name == staging.partition), None)
        if partition is None:
            self._clear_dropped(staging)
        elif is_within(self.warehouse.address(partition.location), self.warehouse.address(staging.folder)):
            self.tell(f"{partition.name}: completing an earlier run that died after the swap")
            self._complete(partition, staging, partition.location, self._spec_of_new(partition, staging))
        else:
            self.tell(f"{partition.name}: clearing up after an earlier run that died")
            self._clear_up(partition, staging)
        return True

    def _clear_up(self, partition: Partition, staging: Staging) -> None:
        """Of a run that died before its swap, or when the files were back in the partition's own folder."""
        home = self.warehouse.files(partition.location) or ()
        new = self.warehouse.files(f"{staging.folder}/{staging.partition}") or ()
        if fingerprint(home) == staging.files:
            if partition.spec is None:
                self._restore(partition, staging)
        elif plain(partition.location) in map(plain, (staging.replaces, staging.home)):
            spec = self._spec_of_new(partition, staging)
            if spec or partition.spec == staging.target:
                self._record(partition, spec)
            if share_files(new, home) and not are_copies(new, home):
                self.tell(
                    f"{partition.name}: {staging.folder} holds files that are not in {partition.location}, and is "
                    "left. Look at it: rows in there may be missing from the table."
                )
                drop_staging(self.warehouse, staging)
                return
        self._abandon(partition, staging)

    def _spec_of_new(self, partition: Partition, staging: Staging) -> BucketSpec | None:
        """The spec of the new files, which the table may have lost since; None when something was added to them."""
        if staging.target is None:
            return None
        listing = list_files(self.warehouse, [partition])
        evidence = read_evidence(self.warehouse, self.table, [partition], listing, [staging.target])
        return staging.target if has_spec(staging.target, evidence[partition.name]) else None

    def _clear_dropped(self, staging: Staging) -> None:
        """Files of a partition that was dropped meanwhile: a new one in the same folder would have their rows."""
        new = self.warehouse.files(f"{staging.folder}/{staging.partition}") or ()
        replaced = set(read_list(self.warehouse, staging))
        self.tell(f"{staging.partition}: was dropped after an earlier run that died")
        for place in dict.fromkeys((staging.replaces, staging.home)):
            files = self.warehouse.files(place) or ()
            if not files or guards.is_used(self.warehouse, self.table, None, place):
                continue
            if not self.table.external and (set(files) <= replaced or are_copies(files, new)):
                self.warehouse.delete(place)
            else:
                self.tell(f"{staging.partition}: {place} still holds files. Look at it.")
        if self.table.external and new:
            # DROP PARTITION leaves the files of an external table.
            self.tell(f"{staging.partition}: {staging.folder} still holds its files. Look at it.")
            drop_staging(self.warehouse, staging)
        else:
            self._abandon(None, staging)
