"""Damage the files of a table in the Hive layout without using Spark."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

from bucketed_tables import Tables, put

# Names of the methods below. Most tables get "none", which leaves the files unchanged.
BREAKAGES = ("none",) * 32 + (
    "hive names", "swap", "loose", "high id", "lose", "copy", "foreign", "version", "empty", "cut", "touch", "other file",
    "other length", "restore", "copy of all", "rename of all",
)  # fmt: skip


class Files:
    """Damages the files of a table with the given number of buckets; `pick` makes the random choices."""

    def __init__(self, tables: Tables, pick: random.Random, name: str, buckets: int) -> None:
        self.tables, self.random, self.name, self.buckets = tables, pick, name, buckets

    def damage(self, how: str) -> None:
        """Apply one of BREAKAGES to the table's files, if it has any."""
        files = [self.tables.folder(self.name) / path for path in self.tables.files(self.name)]
        if how == "version":
            version = self.random.choice("123")
            self.tables.sql(f"alter table {self.name} set tblproperties ('bucketing_version' = '{version}')")
        elif files:
            getattr(self, f"_{how.replace(' ', '_')}")(files)
        self.tables.sql(f"refresh table {self.name}")

    def _hive_names(self, files: list[Path]) -> None:
        for number, path in enumerate(files):
            _move(path, path.with_name(f"0{path.name[:5]}_0_copy_{number}"))

    def _swap(self, files: list[Path]) -> None:
        _swap(files[0], files[-1])

    def _loose(self, files: list[Path]) -> None:
        shutil.copy(files[0], files[0].with_name("part-00000-22222222-2222-2222-2222-222222222222-c000"))

    def _high_id(self, files: list[Path]) -> None:
        _move(files[0], files[0].with_name(f"{self.buckets:05d}_0_high"))

    def _lose(self, files: list[Path]) -> None:
        self.random.choice(files).unlink()

    def _copy(self, files: list[Path]) -> None:
        shutil.copy(files[0], files[0].with_name(f"{files[0].name[:5]}_0_copy_9"))

    def _foreign(self, files: list[Path]) -> None:
        shutil.copy(files[0], files[-1].with_name(f"{files[-1].name[:5]}_0_copy_8"))

    def _empty(self, files: list[Path]) -> None:
        files[0].with_name("00000_0_nothing").touch()

    def _cut(self, files: list[Path]) -> None:
        """Rename files as for another number of buckets, with bucket ids that are valid in this table."""
        for path in files:
            _move(path, path.with_name(f"{int(path.name[:5]) // 2:05d}_0_half_{path.name[:5]}"))

    def _touch(self, files: list[Path]) -> None:
        """Change the modification times, as copying the files does."""
        for path in self.random.sample(files, self.random.randint(1, len(files))):
            os.utime(path)

    def _other_file(self, files: list[Path]) -> None:
        """Replace a file's rows, but keep its name and time; only its size may differ."""
        path, other = self.random.choice(files), self.random.choice(files)
        same_length = other.stat().st_size == path.stat().st_size
        put(path, other.read_bytes(), path.stat().st_mtime_ns + 10**6 * same_length)

    def _other_length(self, files: list[Path]) -> None:
        """Replace the rows of two files, but keep their names and times."""
        first, last = files[0], files[-1]
        times = [path.stat().st_mtime_ns for path in (first, last)]
        differ = first.stat().st_size != last.stat().st_size
        data = first.read_bytes()
        put(first, last.read_bytes(), times[0] * differ)
        put(last, data, times[1] * differ)

    def _restore(self, files: list[Path]) -> None:
        """Restore lost files from a backup that preserves times."""
        for path in self.random.sample(files, self.random.randint(1, len(files))):
            backup = path.with_name(f".backup-{path.name}")
            shutil.copy2(path, backup)
            path.unlink()
            backup.rename(path)

    def _copy_of_all(self, files: list[Path]) -> None:
        """Duplicate every row."""
        for number, path in enumerate(files):
            shutil.copy2(path, path.with_name(f"{path.name[:5]}_0_again_{number}"))

    def _rename_of_all(self, files: list[Path]) -> None:
        """Give every file the bucket id of the next bucket."""
        for number, path in enumerate(files):
            _move(path, path.with_name(f"{(int(path.name[:5]) + 1) % self.buckets:05d}_0_next_{number}"))


def _swap(first: Path, second: Path) -> None:
    aside = first.with_name("aside")
    _move(first, aside)
    if second != first:
        _move(second, first)
    _move(aside, second)


def _move(path: Path, target: Path) -> None:
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    path.rename(target)
