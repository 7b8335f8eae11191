"""Verify a table against its metadata.

The checks cover file names, seals, rows in their buckets, the sort order and file statistics.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from spark_bucketing.errors import SparkError
from spark_bucketing.table.file_statistics import FileStats, State, verify_file_statistics
from spark_bucketing.table.metadata import seal_table
from spark_bucketing.table.model import Partition, Status
from spark_bucketing.table.overview import Overview
from spark_bucketing.table.warehouse import Warehouse
from spark_bucketing.units import count


@dataclass(frozen=True)
class Verification:
    """The results of all checks of one table."""

    overview: Overview
    is_deep: bool = False  # whether rows were read
    sealed: tuple[Partition, ...] = ()  # from a dry run of SEAL BUCKETS
    statistics: tuple[FileStats, ...] = ()  # of an organized table
    problem: str = ""  # why Spark could not read the rows

    @property
    def state(self) -> Literal["ok", "wrong", "unknown"]:
        """Return the state of the table.

        Findings take precedence over checks that could not run.
        """
        if self.findings:
            return "wrong"
        return "unknown" if self.unknown else "ok"

    @property
    def unknown(self) -> str:
        """Return why some checks could not run, or an empty string if all of them ran."""
        files = self.overview.files
        if self.problem or (files and files.unreadable):
            return self.problem or (files.unreadable if files else "")
        if files and files.spec.in_hive_layout and self.overview.merging is None:
            return "The table's seals are unknown, because the session does not load the extension."
        return ""

    @property
    def findings(self) -> tuple[str, ...]:
        """Return one message for each finding, with a fix."""
        return tuple(self._findings())

    def _findings(self) -> Iterator[str]:
        name, files = self.overview.table.name, self.overview.files
        yield from files.findings if files else ()
        yield from self._seals(name)
        yield from self._statistics(name)

    def _seals(self, name: str) -> Iterator[str]:
        for part in self.sealed:
            if part.status == Status.REFUSED:
                where = part.name or "the table"
                yield f"{where} has {part.problem}: rewrite it (spark-bucketing table rewrite {name}, or dbt run)."
        refused = {part.name for part in self.sealed if part.status == Status.REFUSED}
        # In the Spark layout, stock Spark uses buckets without a seal.
        spec = self.overview.table.spec
        fine = {Status.SEALED, Status.EMPTY} | ({Status.NOT_SEALED} if spec and spec.bucket_hash == "spark" else set())
        loose = [
            part for part in self.overview.table.partitions if part.status not in fine and part.name not in refused
        ]
        if loose:
            found = f"[{loose[0].status}] {loose[0].problem}".rstrip()
            others = f"{count(len(loose), 'partition')} without a valid seal, such as {loose[0].name} {found}"
            yield (
                f"{others if loose[0].name else f'no valid seal {found}'}: queries use an ordinary scan; "
                f"seal the files (spark-bucketing table seal {name})."
            )

    def _statistics(self, name: str) -> Iterator[str]:
        repair = f"rewrite the statistics (spark-bucketing table stats {name} --repair)"
        for found, what in (
            ([file for file in self.statistics if file.state == State.NOT_COVERED], "not in the file statistics"),
            ([file for file in self.statistics if file.state == State.WRONG], "whose statistics differ from the rows"),
        ):
            if found:
                yield f"{count(len(found), 'file')} {what}, such as {found[0].name}: {repair}."
        overlapping = [file for file in self.statistics if file.overlaps]
        if overlapping:
            yield (
                f"{count(len(overlapping), 'file')} whose range overlaps the range of another file, such as "
                f"{overlapping[0].name}: queries read both files; rebuild the table (dbt run --full-refresh)."
            )


def verify_table(
    warehouse: Warehouse, overview: Overview, deep: bool = False, where: str | None = None
) -> Verification:
    """Run all checks that apply to a table.

    Args:
        warehouse: a warehouse with an open session.
        overview: the overview of the table.
        deep: whether to read the rows of unsealed files and of organized tables.
        where: a predicate on the partition columns, which selects the partitions whose rows are read.
    """
    if not deep:
        return Verification(overview, statistics=overview.statistics or ())
    try:
        if overview.organized:
            return Verification(overview, deep, statistics=tuple(verify_file_statistics(warehouse, overview.organized)))
        sealed = seal_table(warehouse, overview.table.name, where, dry_run=True) if overview.merging else []
        return Verification(overview, deep, sealed=tuple(sealed))
    except SparkError as error:
        return Verification(overview, deep, problem=str(error))
