"""How many files each partition of a table gets: what the macro files_of_partition says in SQL."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal, get_args

Setting = Literal["rows_per_file", "target_file_size", "num_files", "files_per_partition"]
SETTINGS: tuple[Setting, ...] = get_args(Setting)


@dataclass(frozen=True)
class FileCount:
    """How many files a table is to have, in one of four ways."""

    setting: Setting
    value: int  # rows, bytes or files

    def rows_per_file(self, bytes_per_row: Fraction | None = None) -> int | None:
        """Rows of a file; None where the number of files is stated.

        Args:
            bytes_per_row: of rows as they are written; needed for `target_file_size`.

        Raises:
            ValueError: nothing is known of the bytes of a row.
        """
        if self.setting == "rows_per_file":
            return self.value
        if self.setting != "target_file_size":
            return None
        if not bytes_per_row:
            raise ValueError("a size is no number of files while the bytes of a row are not known")
        return max(int(self.value / bytes_per_row), 1)


def files_of_partitions(count: FileCount, rows: Sequence[int], bytes_per_row: Fraction | None = None) -> list[int]:
    """Files of each partition: at least one, and no more than it has rows.

    Args:
        count: what is wanted.
        rows: of each partition.
        bytes_per_row: as for FileCount.rows_per_file().
    """
    per_file, total = count.rows_per_file(bytes_per_row), sum(rows)
    return [min(each, max(1, _wanted(count, each, per_file, total))) for each in rows]


def _wanted(count: FileCount, rows: int, per_file: int | None, total: int) -> int:
    if per_file:
        return -(-rows // per_file)
    # As SQL rounds: halves away from zero.
    return (
        math.floor(Fraction(count.value * rows, max(total, 1)) + Fraction(1, 2))
        if count.setting == "num_files"
        else count.value
    )
