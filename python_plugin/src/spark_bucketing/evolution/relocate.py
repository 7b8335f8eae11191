"""The way of a partition's new files into its own folder, after the swap that has made another one its location.

The folder is that of the old files, which nothing refers to any more. At any moment the partition's location is a
folder with all of its files:

    copy the files                      into a hidden folder
    delete the partition's own folder   only if its files are those that were replaced
    rename the copy
    SET LOCATION                        to its own folder again
    ALTER PARTITION ... CLUSTERED BY    since the descriptor loses its buckets with its location
    delete the other folder
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from spark_bucketing.evolution import alter, guards
from spark_bucketing.evolution.model import Partition, Table
from spark_bucketing.evolution.staging import Staging, are_copies, fingerprint, hidden_of, is_left_of
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

    def run(self, partition: Partition, folder: str, spec: BucketSpec | None) -> None:
        """Move the partition's files, or say why they stay.

        Args:
            partition: it.
            folder: its location now.
            spec: of the files in there.
        """
        staging, warehouse = self.staging, self.warehouse
        files = warehouse.files(folder) or ()
        places = dict.fromkeys((staging.replaces, staging.home))
        free = {place: self._is_free(place, files) for place in places}
        for place in (place for place in places if not free[place]):
            self.tell(
                f"{partition.name}: {place} holds files that are not in the table, since something wrote there after "
                "the rows were copied. It is left as it is: look whether its rows are missing."
            )
        if staging.home != staging.replaces:
            self._delete_hidden(staging.replaces, free[staging.replaces])
        if free[staging.home]:
            self._move(partition, folder, files, spec)
        else:
            self.tell(f"{partition.name}: its files stay in {folder}. Run this again when {staging.home} is gone.")

    def _is_free(self, folder: str, new: Sequence[StoredFile]) -> bool:
        """Whether there is nothing in a folder but the old files, or copies of the new ones by a run that died."""
        if guards.is_used(self.warehouse, self.table, folder) or guards.folders_in(self.warehouse, folder):
            return False
        found = self.warehouse.files(folder) or ()
        old = folder == self.staging.replaces and is_left_of(found, self.staging.files)
        return old or are_copies(found, new)

    def _move(self, partition: Partition, folder: str, files: Sequence[StoredFile], spec: BucketSpec | None) -> None:
        warehouse, staging = self.warehouse, self.staging
        before = fingerprint(files)
        copy = f"{staging.folder}/_home"
        if warehouse.files(copy) is not None:
            warehouse.delete(copy)
        warehouse.copy(folder, copy)
        copied = are_copies(files, warehouse.files(copy) or ())
        free = self._is_free(staging.home, files)
        if free and warehouse.files(staging.home) is not None:
            warehouse.delete(staging.home)
        if not free or not copied or fingerprint(warehouse.files(folder)) != before:
            self.tell(f"{partition.name}: was written to meanwhile, and its files stay in {folder}. Run this again.")
            warehouse.delete(copy)
            return
        warehouse.rename(copy, staging.home)
        alter.set_location(warehouse, self.table, partition, staging.home)
        home = warehouse.files(staging.home) or ()
        alone = are_copies(home, files) and are_copies(files, home)
        alter.record(warehouse, self.table, partition, spec if alone else None)
        unchanged = fingerprint(warehouse.files(folder)) == before
        self._delete_hidden(folder, unchanged)
        if not unchanged:
            self.tell(f"{folder} was written to meanwhile, and is left. Look at it: its rows may not be in the table.")

    def _delete_hidden(self, folder: str, unchanged: bool) -> None:
        """Delete the hidden folder of a rewrite, which holds one partition's files and nothing else."""
        hidden = hidden_of(folder)
        if unchanged and not guards.is_used(self.warehouse, self.table, hidden):
            self.warehouse.delete(hidden)
