"""What a rewrite and its recovery have in common."""

from __future__ import annotations

from spark_bucketing.errors import TableError
from spark_bucketing.evolution import alter, guards
from spark_bucketing.evolution.model import Partition, Table
from spark_bucketing.evolution.relocate import Relocation, Tell
from spark_bucketing.evolution.staging import Staging, drop_staging, find_staging, fingerprint
from spark_bucketing.evolution.warehouse import Warehouse
from spark_bucketing.spec import BucketSpec


class Steps:
    """Steps of a rewrite.

    Args:
        warehouse: with an open session, settled.
        table: with all its partitions.
        tell: is told what is done.
    """

    def __init__(self, warehouse: Warehouse, table: Table, tell: Tell) -> None:
        self.warehouse, self.table, self.tell = warehouse, table, tell

    def _complete(self, partition: Partition, staging: Staging, folder: str, spec: BucketSpec | None) -> bool:
        """What follows the swap.

        Returns:
            Whether the partition is in its own folder.

        Raises:
            TableError: another statement has put the location back.
        """
        self._record(partition, spec)
        try:
            guards.refuse_moved(self.warehouse, self.table, partition, folder)
        except TableError:
            # The record is not of the files that are there.
            self._record(partition, None)
            raise
        home = Relocation(self.warehouse, self.table, staging, self.tell).run(partition, folder, spec)
        guards.refuse_loss_of_ownership(self.warehouse, self.table, staging)
        drop_staging(self.warehouse, staging)
        return home

    def _restore(self, partition: Partition, staging: Staging) -> None:
        """The record that was taken away just before a swap that did not come."""
        if staging.spec and fingerprint(self.warehouse.files(staging.replaces)) == staging.files:
            self._record(partition, staging.spec)

    def _abandon(self, partition: Partition | None, staging: Staging) -> None:
        if not guards.is_used(self.warehouse, self.table, partition, staging.folder):
            self.warehouse.delete(staging.folder)
        # Another run's has the same name.
        if find_staging(self.warehouse, self.table) == staging:
            drop_staging(self.warehouse, staging)

    def _record(self, partition: Partition, spec: BucketSpec | None) -> None:
        alter.record(self.warehouse, self.table, partition, spec)
