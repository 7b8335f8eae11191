"""The way of a partition's new files into its own folder, after the swap that has made another one its location.

The folder is that of the old files, which nothing refers to any more. At any moment the partition's location is a
folder with all of its files:

    copy the files                      into a hidden folder
    delete the partition's own folder   only if its files are those that were replaced, all of them
    rename the copy                     from here on what is there is the partition's, if that is its location
    SET LOCATION                        to its own folder again
    ALTER PARTITION ... CLUSTERED BY    since the descriptor loses its buckets with its location
    delete the other folder
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence

from spark_bucketing.evolution import alter, guards
from spark_bucketing.evolution.journal import Journal
from spark_bucketing.evolution.model import Partition, Table
from spark_bucketing.evolution.staging import Staging, are_copies, fingerprint, hidden_of
from spark_bucketing.evolution.warehouse import StoredFile, Warehouse
from spark_bucketing.spec import BucketSpec

Tell = Callable[[str], None]


class Relocation:
    """Brings a partition back to its own folder.

    Args:
        warehouse: with an open session.
        table: its table.
        staging: the rewrite, whose swap is done.
        tell: is told what is left where it is.
    """

    def __init__(self, warehouse: Warehouse, table: Table, staging: Staging, tell: Tell) -> None:
        self.warehouse, self.table, self.staging, self.tell = warehouse, table, staging, tell
        self.journal = Journal(warehouse, staging)
        self.replaced = self.journal.replaced()

    def run(self, partition: Partition, folder: str, spec: BucketSpec | None) -> bool:
        """Move the partition's files, or say why they stay.

        Args:
            partition: it.
            folder: its location now.
            spec: of the files in there.

        Returns:
            Whether they are in its own folder.
        """
        staging, warehouse = self.staging, self.warehouse
        files = warehouse.files(folder) or ()
        places = dict.fromkeys((staging.replaces, staging.home))
        names = {place: warehouse.names(place) for place in places}
        free = {place: self._is_free(partition, place, files) for place in places}
        if staging.home != staging.replaces:
            if free[staging.replaces]:
                self.journal.deletes()
                self._delete_hidden(partition, staging.replaces, names[staging.replaces])
            else:
                self.tell(f"{partition.name}: {self._why_left(staging.replaces)}")
        return self._move(partition, folder, files, spec) if free[staging.home] else self._stay(partition, folder)

    def _is_free(self, partition: Partition, folder: str, new: Sequence[StoredFile]) -> bool:
        """Whether there are the old files in a folder, or those of them, or copies of the new ones, that a death left.

        Where old files are missing that the rewrite has not deleted, something else has, and may bring others.
        """
        if guards.is_used(self.warehouse, self.table, partition, folder) or self.warehouse.folders(folder):
            return False
        found, is_old = set(self.warehouse.files(folder) or ()), folder == self.staging.replaces
        if is_old and (found == set(self.replaced) or not self.journal.has_deleted()):
            return found == set(self.replaced)
        # Of a partition that was in a hidden folder, copies may be in its own one.
        old = found <= set(self.replaced) if is_old else are_copies(list(found), self.replaced)
        # Of those in the other folder some may have been deleted since they were copied.
        written = self.journal.written() if self.journal.has_deleted() else None
        return old or are_copies(list(found), (*new, *(written.files if written else ())))

    def _stay(self, partition: Partition, folder: str) -> bool:
        home = self.staging.home
        self.tell(f"{partition.name}: {self._why_left(home)}")
        self.tell(f"{partition.name}: its files stay in {folder}. Run this again when {home} is empty or gone.")
        return False

    def _why_left(self, folder: str) -> str:
        found = self.warehouse.files(folder) or ()
        inside = self.warehouse.folders(folder)
        others = [file.name for file in found if file not in self.replaced][:3] or inside[:3]
        if others:
            return (
                f"{folder} holds {'files' if found else 'folders'} that are not in the table: {', '.join(others)}. "
                "Something wrote there after the rows were copied. It is left as it is: look whether rows are missing."
            )
        return (
            f"files in {folder} were deleted after the rows were copied, by something that may write there still. "
            "Look, when it has ended, whether the table has the rows that it should have."
        )

    def _move(self, partition: Partition, folder: str, files: Sequence[StoredFile], spec: BucketSpec | None) -> bool:
        warehouse, staging = self.warehouse, self.staging
        copy = f"{staging.folder}/_home-{uuid.uuid4().hex[:12]}"
        warehouse.copy(folder, copy)
        guards.refuse_loss_of_ownership(warehouse, self.table, staging)
        guards.refuse_moved(warehouse, self.table, partition, folder)
        # By their names, so that another run's files are not deleted that come there in this moment. The rows of these
        # are in the other folder since the swap, whatever has become of them.
        names = warehouse.names(staging.home)
        if not self._is_free(partition, staging.home, files):
            warehouse.delete(copy)
            return self._stay(partition, folder)
        self.journal.deletes()
        is_clear = warehouse.clear(staging.home, names)
        if not is_clear or not self._holds(copy, files) or not self._is_unchanged(folder, files):
            self._say_stays(partition, folder)
            warehouse.delete(copy)
            return False
        warehouse.rename(copy, staging.home)
        self.journal.returned()
        guards.refuse_loss_of_ownership(warehouse, self.table, staging)
        guards.refuse_moved(warehouse, self.table, partition, folder)
        if self._is_unchanged(folder, files) and self._holds(staging.home, files):
            alter.set_location(warehouse, self.table, partition, staging.home)
            # A writer may have found the other folder a moment before: that one has all rows then.
            if self._is_unchanged(folder, files) or not self._is_copy(staging.home, files):
                return self._settle(partition, folder, files, spec)
            alter.set_location(warehouse, self.table, partition, folder)
            alter.record(warehouse, self.table, partition, None)
        self._say_stays(partition, folder)
        warehouse.clear(staging.home, [file.name for file in files])
        return False

    def _settle(self, partition: Partition, folder: str, files: Sequence[StoredFile], spec: BucketSpec | None) -> bool:
        """The partition is in its own folder, and what others do there counts. The other folder goes, or is named."""
        warehouse, home = self.warehouse, self.staging.home
        names = warehouse.names(folder)
        is_whole = self._holds(home, files)
        alter.record(warehouse, self.table, partition, spec if is_whole and self._is_copy(home, files) else None)
        if not is_whole:
            self.tell(
                f"{partition.name}: files in {home} were deleted by something else, just after it was the location "
                f"again. {folder} has all that were there, and is left: delete it, unless rows are missing."
            )
        elif self._is_unchanged(folder, files):
            self._delete_hidden(partition, folder, names)
        else:
            self._say_left(folder)
        return True

    def _holds(self, folder: str, files: Sequence[StoredFile]) -> bool:
        return are_copies(files, self.warehouse.files(folder) or ())

    def _is_copy(self, folder: str, files: Sequence[StoredFile]) -> bool:
        return are_copies(self.warehouse.files(folder) or (), files)

    def _is_unchanged(self, folder: str, files: Sequence[StoredFile]) -> bool:
        return fingerprint(self.warehouse.files(folder)) == fingerprint(files)

    def _delete_hidden(self, partition: Partition, folder: str, names: Sequence[str]) -> None:
        """Delete the hidden folder of a rewrite, which holds one partition's folder, if that holds these files only."""
        hidden = hidden_of(folder)
        guards.refuse_loss_of_ownership(self.warehouse, self.table, self.staging)
        if guards.is_used(self.warehouse, self.table, partition, hidden):
            self.tell(f"{hidden} is in use by another partition, or again by {partition.name}, and is left.")
        elif self.warehouse.clear(folder, names):
            self.warehouse.delete(hidden)
        else:
            self._say_left(folder)

    def _say_stays(self, partition: Partition, folder: str) -> None:
        self.tell(f"{partition.name}: was written to meanwhile, and its files stay in {folder}. Run this again.")

    def _say_left(self, folder: str) -> None:
        self.tell(f"{folder} was written to meanwhile, and is left. Look at it: its rows may not be in the table.")
