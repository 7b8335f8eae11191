"""What becomes of a rewrite that has died."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from spark_bucketing.errors import TableError
from spark_bucketing.evolution import alter, guards
from spark_bucketing.evolution.evidence import has_spec
from spark_bucketing.evolution.journal import Journal, Written
from spark_bucketing.evolution.locations import is_within, plain
from spark_bucketing.evolution.model import Partition
from spark_bucketing.evolution.rows import list_files, read_evidence
from spark_bucketing.evolution.staging import (
    Staging,
    are_copies,
    drop_staging,
    find_staging,
    fingerprint,
    take_over,
)
from spark_bucketing.evolution.steps import Steps
from spark_bucketing.evolution.warehouse import StoredFile
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
        files = self.warehouse.files(partition.location) or ()
        journal = Journal(self.warehouse, staging)
        written = journal.written()
        is_cut_off = written is not None and self._is_cut_off(partition, staging, journal, written, files)
        if written and is_cut_off and self._are_known(files, journal, written):
            self._take_back(partition, staging, written)
            return
        if fingerprint(files) == staging.files:
            if partition.spec is None:
                self._restore(partition, staging)
        elif plain(partition.location) in map(plain, (staging.replaces, staging.home)):
            spec = self._spec_of_new(partition, staging)
            if spec or partition.spec == staging.target:
                self._record(partition, spec)
        # Somebody who has made the partition anew since, or has added to it, has other files there than these.
        whole = [file.name for file in written.files] if written and is_cut_off else []
        if written and (late := self._late(written, files) or whole):
            self.tell(
                f"{partition.name}: {written.folder} holds files that are not in {partition.location}, and is left: "
                f"{', '.join(late[:3])}. Look at it: rows in there may be missing from the table."
            )
            drop_staging(self.warehouse, staging)
        else:
            self._abandon(partition, staging)

    def _is_cut_off(
        self, partition: Partition, staging: Staging, journal: Journal, written: Written, files: Sequence[StoredFile]
    ) -> bool:
        """Whether a partition lies where the run had deleted files when it died, and all rows are in the hidden folder.

        Another statement has put the location back that it had read before the swap, such as ANALYZE.
        """
        return (
            plain(partition.location) in map(plain, (staging.replaces, staging.home))
            and journal.has_deleted()
            and not journal.has_returned()
            and not are_copies(written.files, files)
            and are_copies(written.files, self.warehouse.files(written.folder) or ())
        )

    def _are_known(self, files: Sequence[StoredFile], journal: Journal, written: Written) -> bool:
        replaced = set(journal.replaced())
        return all(file in replaced or are_copies([file], written.files) for file in files)

    def _take_back(self, partition: Partition, staging: Staging, written: Written) -> None:
        self.tell(
            f"{partition.name}: another statement has put its location back to {partition.location}, of which files "
            f"were deleted already; it lies in {written.folder} again, which has all of them"
        )
        self._record(partition, None)
        alter.set_location(self.warehouse, self.table, partition, written.folder)
        away = replace(partition, location=written.folder)
        self._complete(away, staging, written.folder, self._spec_of_new(away, staging))

    def _late(self, written: Written, files: Sequence[StoredFile]) -> list[str]:
        """Files that somebody has brought to the hidden folder, and that are not among these of the partition."""
        found = self.warehouse.files(written.folder) or ()
        return [file.name for file in found if not are_copies([file], (*written.files, *files))]

    def _spec_of_new(self, partition: Partition, staging: Staging) -> BucketSpec | None:
        """The spec of the new files, which the table may have lost since; None when something was added to them."""
        if staging.target is None:
            return None
        listing = list_files(self.warehouse, [partition])
        evidence = read_evidence(self.warehouse, self.table, [partition], listing, [staging.target])
        return staging.target if has_spec(staging.target, evidence[partition.name]) else None

    def _clear_dropped(self, staging: Staging) -> None:
        """Files of a partition that was dropped meanwhile: a new one in the same folder would have their rows.

        Raises:
            TableError: some of them may be of somebody else, and are left.
        """
        self.tell(f"{staging.partition}: was dropped or renamed after an earlier run that died")
        journal = Journal(self.warehouse, staging)
        left = [
            place
            for place in dict.fromkeys((staging.replaces, staging.home))
            if not guards.is_used(self.warehouse, self.table, None, place) and not self._clear_old(place, journal)
        ]
        written = journal.written()
        new = written.folder if written and self.warehouse.files(written.folder) else ""
        if self.table.external and new and not guards.is_used(self.warehouse, self.table, None, new):
            # DROP PARTITION leaves the files of an external table.
            left.append(new)
            drop_staging(self.warehouse, staging)
        else:
            self._abandon(None, staging)
        if left:
            raise TableError(
                f"Partition {staging.partition} of {self.table.name} was dropped or renamed after a rewrite that died, "
                f"and its files may still be in {' and '.join(left)}. Expected nothing there: a new partition of that "
                "folder would have their rows. Look at them, delete them, and run the command again."
            )

    def _clear_old(self, folder: str, journal: Journal) -> bool:
        """Delete the old files of a table's own partition, or copies of the new ones; whether nothing is left there."""
        found, written = self.warehouse.files(folder) or (), journal.written()
        known = set(found) <= set(journal.replaced()) or are_copies(found, written.files if written else ())
        if found and known and not self.table.external:
            self.warehouse.clear(folder, [file.name for file in found])
        return not self.warehouse.files(folder)
