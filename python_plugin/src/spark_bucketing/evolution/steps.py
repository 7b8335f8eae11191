"""What a rewrite and its recovery have in common."""

from __future__ import annotations

from spark_bucketing.evolution import alter, guards
from spark_bucketing.evolution.evidence import has_spec
from spark_bucketing.evolution.model import Partition, Table
from spark_bucketing.evolution.relocate import Relocation, Tell
from spark_bucketing.evolution.rows import list_files, read_evidence
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

    def _spec_of_new(self, partition: Partition, staging: Staging) -> BucketSpec | None:
        """The spec of the new files, which the table may have lost since; None when something was added to them."""
        if staging.target is None:
            return None
        listing = list_files(self.warehouse, [partition])
        evidence = read_evidence(self.warehouse, self.table, [partition], listing, [staging.target])
        files = evidence.get(partition.name)
        proven = not listing[partition.name] or (files is not None and has_spec(staging.target, files))
        return staging.target if proven else None

    def _complete(self, partition: Partition, staging: Staging, folder: str, spec: BucketSpec | None) -> None:
        """What follows the swap."""
        self._record(partition, spec)
        Relocation(self.warehouse, self.table, staging, self.tell).run(partition, folder, spec)
        guards.refuse_loss_of_ownership(self.warehouse, self.table, staging)
        drop_staging(self.warehouse, staging)

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
