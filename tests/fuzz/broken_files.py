"""What may happen to the files of a table of the Hive layout behind Spark's back."""

from __future__ import annotations

import shutil
from pathlib import Path

from bucketed import Tables

# Each is a method below, but for none, which most tables have.
BREAKAGES = ("none",) * 6 + (
    "hive names",
    "swap",
    "loose",
    "high id",
    "lose",
    "copy",
    "foreign",
    "version",
    "empty",
    "cut",
)


class Files:
    """Breaks the files of one table.

    Args:
        tables: the database.
        name: of the table.
        buckets: that the table was created with.
    """

    def __init__(self, tables: Tables, name: str, buckets: int) -> None:
        self.tables, self.name, self.buckets = tables, name, buckets

    def damage(self, how: str) -> None:
        """Do one of BREAKAGES to the files, if there are any."""
        files = [self.tables.folder(self.name) / path for path in self.tables.files(self.name)]
        if how == "version":
            self.tables.sql(f"alter table {self.name} set tblproperties ('bucketing_version' = '2')")
        elif files:
            getattr(self, f"_{how.replace(' ', '_')}")(files)
        self.tables.sql(f"refresh table {self.name}")

    def _hive_names(self, files: list[Path]) -> None:
        for number, path in enumerate(files):
            _move(path, path.with_name(f"0{path.name[:5]}_0_copy_{number}"))

    def _swap(self, files: list[Path]) -> None:
        first, second = files[0], files[-1]
        aside = first.with_name("aside")
        _move(first, aside)
        if second != first:
            _move(second, first)
        _move(aside, second)

    def _loose(self, files: list[Path]) -> None:
        shutil.copy(files[0], files[0].with_name("part-00000-22222222-2222-2222-2222-222222222222-c000"))

    def _high_id(self, files: list[Path]) -> None:
        _move(files[0], files[0].with_name(f"{self.buckets:05d}_0_high"))

    def _lose(self, files: list[Path]) -> None:
        files[0].unlink()

    def _copy(self, files: list[Path]) -> None:
        shutil.copy(files[0], files[0].with_name(f"{files[0].name[:5]}_0_copy_9"))

    def _foreign(self, files: list[Path]) -> None:
        shutil.copy(files[0], files[-1].with_name(f"{files[-1].name[:5]}_0_copy_8"))

    def _empty(self, files: list[Path]) -> None:
        files[0].with_name("00000_0_nothing").touch()

    def _cut(self, files: list[Path]) -> None:
        """Files of another number of buckets, under names that are in range."""
        for path in files:
            _move(path, path.with_name(f"{int(path.name[:5]) // 2:05d}_0_half_{path.name[:5]}"))


def _move(path: Path, target: Path) -> None:
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    path.rename(target)
