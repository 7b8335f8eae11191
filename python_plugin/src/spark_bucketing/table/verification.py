"""Verify a table against its metadata.

The checks cover file names, seals, rows in their buckets, the sort order and file statistics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from spark_bucketing.errors import SparkError
from spark_bucketing.spec import HASH_OF_VERSION, STATED_VERSIONS, VERSION_OF_HASH, VERSION_PROPERTY, stated_version
from spark_bucketing.table.file_statistics import FileStats, State, verify_file_statistics
from spark_bucketing.table.metadata import seal_table
from spark_bucketing.table.model import Partition, Status
from spark_bucketing.table.overview import Overview, seal_findings
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
        yield from self._versions(name)
        yield from self._statistics(name)

    def _seals(self, name: str) -> Iterator[str]:
        for part in self.sealed:
            if part.status == Status.REFUSED:
                where = part.name or "the table"
                yield f"{where} has {part.problem}: rewrite it (spark-bucketing table rewrite {name}, or dbt run)."
        refused = {part.name for part in self.sealed if part.status == Status.REFUSED}
        yield from seal_findings(name, [part for part in self.overview.unsealed if part.name not in refused])

    def _versions(self, name: str) -> Iterator[str]:
        """Compare the bucketing version that the table states with the version of its rows, as Hive and Trino do."""
        table = self.overview.table
        if table.spec is None or not table.spec.in_hive_layout:
            return
        before = _versions_of(table.partitions)
        versions = before | _versions_of(self.sealed)
        stated = stated_version(table.details)
        numbers = Counter(versions.values())
        common = max(numbers, key=lambda version: (numbers[version], version == stated), default=None)
        others = sorted(part for part, version in versions.items() if version != common)
        seal = f"seal the table (spark-bucketing table seal {name})"
        is_known = stated in HASH_OF_VERSION
        states = f"The table has {VERSION_PROPERTY} '{stated}'{'' if is_known else ', so Trino cannot read the table'}"
        is_whole = all(part.spec or not part.has_files for part in table.partitions)
        is_read = {part.name for part in table.partitions if part.has_files} <= {part.name for part in self.sealed}
        if common and not is_read and (others or (stated != common and not is_whole)):
            # Few rows match both versions, so a partition may get another version with its next seal.
            found = " and ".join(sorted(numbers))
            yield (
                f"{states}, and its partitions are sealed with version {found}: {seal}. The command compares the rows "
                "with both versions, and reports the partitions to rewrite and the property to set."
            )
            return
        if common and stated != common:
            yield (
                f"{states}{', but its' if is_known else '. Its'} rows are in buckets of version {common}"
                f"{', so Hive and Trino look for rows in the wrong buckets' if is_known else ''}: set the table "
                f"property (ALTER TABLE {name} SET TBLPROPERTIES ('{VERSION_PROPERTY}' = '{common}'))."
            )
        elif not is_known:
            yield (
                f"{states}. Spark and Trino support only {STATED_VERSIONS}: {seal}, and set the property to the "
                "version that the command finds."
            )
        if others:
            yield (
                f"{count(len(others), 'partition')} in buckets of version {versions[others[0]]}, such as {others[0]}, "
                f"but other partitions have version {common}: "
                f"{'' if stated == common else 'first set the table property, and then '}rewrite these partitions "
                f"(spark-bucketing table rewrite {name})."
            )
        again = sorted(part for part, version in before.items() if version != versions[part])
        if again:
            yield (
                f"{count(len(again), 'partition')} sealed with version {before[again[0]]}, such as {again[0]}, whose "
                f"rows also match version {versions[again[0]]}: {seal}."
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


def _versions_of(partitions: Iterable[Partition]) -> dict[str, str]:
    """Return the bucketing versions of sealed partitions in the Hive layout, by the name of the partition."""
    return {
        part.name: VERSION_OF_HASH[part.spec.bucket_hash]
        for part in partitions
        if part.spec and part.spec.in_hive_layout
    }


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
