"""Create an organized table without dbt, merge rows into it, simulate crashes, and restore backups."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from pyspark.sql import SparkSession
from session_settings import setting

from conftest import data_files

Row = tuple[Any, ...]
COLUMNS = "id bigint, o int, v int, ds string"
# The content of a damaged record; None keeps the first half.
DAMAGES = {
    "empty": b"",
    "cut": None,
    "object": b"{}",
    "array": b"[]",
    "numbers": b'{"added": [1], "removed": [], "created": [], "dropped": []}',
    "garbage": bytes(range(256)),
}
# Steps of a file replacement; from `committed` on, the table has the new rows.
STEPS = ("started", "half-moved", "moved", "committed", "half-deleted", "deleted", "done")


class Backup(NamedTuple):
    folder: Path
    pending: Path | None


class Staged(NamedTuple):
    """The new files with their staged paths, and the old files; all names are relative to the table's folder."""

    coming: dict[str, Path]
    going: list[str]


class OrganizedTable:
    """The table `m` in a database; `rows_of` has the rows of every file that ever existed, by unique name."""

    def __init__(
        self, spark: SparkSession, database: str, backups: Path, partitioned: bool, location: Path | None = None
    ) -> None:
        self.spark, self.database, self.backups, self.partitioned = spark, database, backups, partitioned
        self.pending: Path | None = None
        self.rows_of: dict[str, list[Row]] = {}
        self._numbers = count(1)
        spark.sql(f"create database if not exists {database}")
        spark.sql(f"drop table if exists {database}.m")
        by = "partitioned by (ds)" if partitioned else ""
        by += f" location '{location}'" if location else ""
        properties = """tblproperties ('bucketing.range_by'='["o"]')"""
        spark.sql(f"create table {database}.m ({COLUMNS}) using parquet {by} {properties}")
        found = spark.sql(f"describe extended {database}.m").where("col_name = 'Location'").collect()
        self.location, self.staged = Path(found[0].data_type.removeprefix("file:")), backups / "staged"

    def sql(self, text: str) -> list[Any]:
        return self.spark.sql(text.replace("{db}", self.database)).collect()

    # The state of the files, and the rows that a read must return.

    def files(self) -> list[str]:
        return sorted(str(path.relative_to(self.location)) for path in data_files(self.location))

    def lists(self) -> dict[str, list[str]]:
        """Return the added and removed files of the pending replacement."""
        return json.loads((self.pending / "lists").read_text()) if self.pending else {"added": [], "removed": []}

    def is_committed(self) -> bool:
        outcome = self.pending / "outcome" if self.pending else None
        return outcome is not None and outcome.exists() and outcome.read_text().startswith("committed")

    def hidden(self) -> set[str]:
        return set(self.lists()["removed" if self.is_committed() else "added"])

    def is_ambiguous(self) -> bool:
        """Return whether a committed but unfinished replacement lacks new files in a folder with old files."""
        found, lists = set(self.files()), self.lists()
        folders = {Path(name).parent for name in lists["removed"] if name in found}
        lacking = {Path(name).parent for name in lists["added"] if name not in found}
        return self.is_committed() and not folders.isdisjoint(lacking)

    def expected(self) -> list[Row]:
        return sorted(row for name in self.files() if name not in self.hidden() for row in self.rows_of[name])

    def learn(self) -> list[Row]:
        """Read the rows of all files with stock Spark, and store them."""
        with setting(self.spark, "spark.bucketing.enabled", "false"):
            self.sql("refresh table {db}.m")
            found = self.sql("select _metadata.file_path as path, id, o, v, ds from {db}.m")
        of: dict[str, list[Row]] = {}
        for path, *row in found:
            of.setdefault(path.split(f"{self.location}/")[-1], []).append(tuple(row))
        # Spark writes an empty file for an empty result.
        self.rows_of |= {name: [] for name in self.files() if name not in self.rows_of} | of
        return sorted(row for rows in of.values() for row in rows)

    def read(self, session: SparkSession | None = None, condition: str = "true") -> list[Row]:
        found = (session or self.spark).sql(f"select id, o, v, ds from {self.database}.m where {condition}")
        return sorted(map(tuple, found.collect()))

    # Operations that write with Spark.

    def insert(self, rows: Iterable[Row], mapped: bool = True, overwrite: str = "into") -> None:
        """Insert rows; `overwrite` is the keyword after INSERT."""
        before = set(self.files())
        # Like another writer, this writes files without statistics.
        with setting(self.spark, "spark.bucketing.write.distribute", "false"):
            self.sql(f"insert {overwrite} {{db}}.m {_by_range(_values(rows))}")
        if self.pending and not self.pending.exists():
            self.pending = None
        if mapped:
            self.write_file_statistics(set(self.files()) - before)
        self.learn()

    def write_file_statistics(self, files: set[str] | None = None) -> None:
        """Write a part of the file statistics for these files, or for all files."""
        depth = -2 if self.partitioned else -1
        names = {Path(name).name for name in files or ()}
        chosen = "" if files is None else f" where _metadata.file_name in ({_texts(names)})"
        self.sql(
            f"insert overwrite directory '{self.location}/_file_statistics/{next(self._numbers):06}' using parquet"
            f" select /*+ coalesce(1) */ substring_index(_metadata.file_path, '/', {depth}) as file, max(_metadata.file_size) as bytes,"
            " max(_metadata.file_modification_time) as modified, struct(min(o) as o) as lower, struct(max(o) as o) as upper,"
            " count(*) - count(o) as nulls, count(*) as rows, sum(cast(xxhash64(id, o, v, ds) as decimal(38, 0))) as checksum"
            f" from {{db}}.m{chosen} group by _metadata.file_path"
        )

    def stage(self, upserts: list[Row], deleted: list[int]) -> Staged:
        """Write the new files of a merge into another folder, and list the old files."""
        keys = ", ".join(map(str, [-1, *deleted, *(row[0] for row in upserts)]))
        listed = self.sql(
            f"select distinct substring_index(_metadata.file_path, '/m/', -1) as name from {{db}}.m where id in ({keys})"
        )
        files = _texts({row.name for row in listed})
        kept = f"select id, o, v, ds from {self.database}.m where substring_index(_metadata.file_path, '/m/', -1) in ({files}) and id not in ({keys})"
        new = self.spark.sql(_by_range(kept + (f" union all {_values(upserts)}" if upserts else "")))
        new.write.parquet(str(self.staged), mode="overwrite", partitionBy=["ds"] if self.partitioned else None)
        coming = {str(path.relative_to(self.staged)): path for path in data_files(self.staged)}
        return Staged(coming, [row.name for row in listed])

    def merge(
        self, upserts: list[Row], deleted: list[int], hint: str = "", on: str = "m.id = new.id"
    ) -> tuple[int, ...]:
        """Return the numbers of changed, updated, deleted and inserted rows."""
        rows = [*((*row, False) for row in upserts), *((key, None, None, None, True) for key in [-1, *deleted])]
        new = self.spark.createDataFrame(rows, f"{COLUMNS}, gone boolean")
        new.createOrReplaceTempView("new_rows")
        (counts,) = self.sql(
            f"merge into {{db}}.m as m using (select {hint} * from new_rows) as new on {on}"
            " when matched and gone then delete when matched then update set * when not matched and not gone then insert *"
        )
        self.pending = None
        self.learn()
        return tuple(counts)

    def recover(self) -> str:
        (row,) = self.sql("alter table {db}.m recover files")
        self.pending = None
        return str(row.recovered)

    def crash(self, staged: Staged, last: str, damage: str | None = None) -> None:
        """Perform the steps of a replacement up to `last`, and optionally damage its record before any session reads it."""
        others = [path.name.split("-")[0] for path in (self.location / "_replaced").glob("*")]
        name = f"{int(max([*others, '20260101000000000000'])) + 1}-{uuid4().hex[:8]}"
        there = {path.name for path in self.location.iterdir()}
        new = {Path(name).parent.name for name in staged.coming if self.partitioned} - there
        created = [{"ds": name.removeprefix("ds=")} for name in sorted(new)]
        record = begin(self.location, name, added=list(staged.coming), removed=staged.going, created=created)
        shutil.copy(record / "started", record / "lists")
        self.pending = record
        for name in new:
            self.sql(f"alter table {{db}}.m add if not exists partition (ds='{name.removeprefix('ds=')}')")
        half, rest = list(staged.coming.items())[::2], list(staged.coming.items())[1::2]
        for step in STEPS[1 : STEPS.index(last) + 1]:
            if step in ("half-moved", "moved"):
                for name, path in half if step == "half-moved" else rest:
                    (self.location / name).parent.mkdir(exist_ok=True)
                    path.rename(self.location / name)
            elif step == "committed":
                write_outcome(record, "committed")
            elif step == "done":
                (record / "done").write_text("")
            else:
                for name in staged.going[::2] if step == "half-deleted" else staged.going[1::2]:
                    (self.location / name).unlink()
        if damage:
            self.damage(record / "started", damage)
        if last == "done":
            self.pending = None
        self.learn()

    # Changes to files without Spark.

    @staticmethod
    def damage(file: Path, how: str) -> None:
        text = file.read_bytes()
        if how == "folder":
            file.unlink()
            file.mkdir()
        else:
            left = DAMAGES[how]
            file.write_bytes(text[: len(text) // 2] if left is None else left)

    def mend(self) -> None:
        """Restore the damaged file of a record, as if from a backup."""
        assert self.pending
        file = self.pending / "started"
        shutil.rmtree(file) if file.is_dir() else file.unlink()
        file.write_text((self.pending / "lists").read_text())

    def backup(self) -> Backup:
        folder = self.backups / str(next(self._numbers))
        shutil.copytree(self.location, folder)
        return Backup(folder, self.pending)

    def restore_table(self, backup: Backup) -> None:
        shutil.rmtree(self.location)
        shutil.copytree(backup.folder, self.location)
        self.pending = backup.pending
        self.refresh()

    def restore_partition(self, backup: Backup, partition: str) -> None:
        """Restore the files of a partition folder; an empty name selects an unpartitioned table."""
        for path in (self.location / partition).glob("[!_.]*.parquet"):
            path.unlink()
        for path in (backup.folder / partition).glob("[!_.]*.parquet"):
            self.restore_file(backup, str(path.relative_to(backup.folder)))
        self.refresh()

    def restore_file(self, backup: Backup, name: str) -> None:
        (self.location / name).parent.mkdir(exist_ok=True)
        shutil.copy2(backup.folder / name, self.location / name)

    def refresh(self, *sessions: SparkSession) -> None:
        if self.partitioned:
            self.sql("msck repair table {db}.m sync partitions")
        for session in (self.spark, *sessions):
            session.sql(f"refresh table {self.database}.m")

    def folders(self) -> list[str]:
        return sorted({str(Path(name).parent) for name in self.rows_of}) if self.partitioned else [""]


@contextmanager
def organized(
    spark: SparkSession, database: str, backups: Path, partitioned: bool, rows: list[Row]
) -> Iterator[OrganizedTable]:
    """Create a table with these rows, and drop it at the end of the block."""
    table = OrganizedTable(spark, database, backups, partitioned)
    try:
        table.insert(rows)
        yield table
    finally:
        spark.sql(f"drop database {database} cascade")
        shutil.rmtree(backups, ignore_errors=True)


def begin(location: Path, name: str, **lists: list[Any]) -> Path:
    """Record the start of a replacement with lists of `added` and `removed` files, relative to the table's directory."""
    record = location / "_replaced" / name
    record.mkdir(parents=True)
    (record / "started").write_text(
        json.dumps({"added": [], "removed": [], "created": [], "dropped": [], "exclusive": True} | lists)
    )
    return record


def write_outcome(record: Path, decision: str) -> None:
    """Decide a replacement, as a statement does."""
    (record / "outcome").write_text(f"{decision} {uuid4()}\n")


def merged(before: list[Row], upserts: list[Row], deleted: list[int]) -> list[Row]:
    keys = {*deleted, *(row[0] for row in upserts)}
    return sorted([row for row in before if row[0] not in keys] + upserts)


def random_rows(chosen: random.Random, keys: Iterable[int]) -> list[Row]:
    return [(key, chosen.randrange(1000), chosen.randrange(10**6), chosen.choice("aab")) for key in keys]


def _values(rows: Iterable[Row]) -> str:
    listed = ", ".join(f"({key}L, {o}, {v}, '{ds}')" for key, o, v, ds in rows)
    return f"select * from values {listed} as (id, o, v, ds)"


def _by_range(rows: str) -> str:
    return f"select /*+ repartition_by_range(3, o) */ id, o, v, ds from ({rows})"


def _texts(values: Iterable[str]) -> str:
    return ", ".join(f"'{value}'" for value in sorted(values)) or "''"
