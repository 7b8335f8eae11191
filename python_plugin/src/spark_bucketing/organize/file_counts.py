"""Compute the number of files in each partition, as the macro files_of_partition does in SQL."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from spark_bucketing.config.schema import FILE_COUNTS

SETTINGS = tuple(FILE_COUNTS)


@dataclass(frozen=True)
class FileCount:
    """A setting that determines how many files a table has."""

    setting: str  # name of the setting, from SETTINGS
    value: int  # number of rows, bytes or files

    def rows_per_file(self, bytes_per_row: Fraction | None = None) -> int | None:
        """Return the number of rows per file, or None if the setting is a number of files.

        Args:
            bytes_per_row: size of a row on disk in bytes. It is required if `target_file_size` is set.

        Raises:
            ValueError: `target_file_size` is set, and the bytes per row are unknown.
        """
        if self.setting == "rows_per_file":
            return self.value
        if self.setting != "target_file_size":
            return None
        if not bytes_per_row:
            raise ValueError("target_file_size requires the bytes per row, which are unknown")
        return max(int(self.value / bytes_per_row), 1)


def files_of_partitions(count: FileCount, rows: Sequence[int], bytes_per_row: Fraction | None = None) -> list[int]:
    """Return the number of files for each partition: at least one, and at most one per row.

    Args:
        count: the setting that determines the number of files.
        rows: number of rows in each partition.
        bytes_per_row: size of a row on disk in bytes. It is required if `target_file_size` is set.
    """
    per_file, total = count.rows_per_file(bytes_per_row), sum(rows)
    return [min(each, max(1, _wanted(count, each, per_file, total))) for each in rows]


def _wanted(count: FileCount, rows: int, per_file: int | None, total: int) -> int:
    if per_file:
        return -(-rows // per_file)
    # Round half up, as SQL does.
    return (
        math.floor(Fraction(count.value * rows, max(total, 1)) + Fraction(1, 2))
        if count.setting == "num_files"
        else count.value
    )
