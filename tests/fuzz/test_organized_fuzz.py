"""Tests that organized tables return the right rows, or a clear error, after random merges, crashes and damage.

`make test-long` includes a short run. `make fuzz SEED=7 CASES=2000` takes more steps, and reports the seed and the step of a
failure.
"""

from __future__ import annotations

import os
import random
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest
from bucketed_tables import ERRORS
from organized import DAMAGES, STEPS, Backup, OrganizedTable, Row, merged, organized, random_rows
from pyspark.sql import SparkSession
from session_settings import setting

SEED = int(os.environ.get("SEED", "1"))
CASES = int(os.environ.get("CASES", "40"))
STEPS_PER_TABLE = 40
REFUSED = re.compile(
    r"Cannot determine the current files of the table, because .*expected: .*instead:  restore ", re.DOTALL
)


class Walk:
    """A sequence of random steps on one table; a check of the rows follows each step."""

    def __init__(self, table: OrganizedTable, other: SparkSession, chosen: random.Random) -> None:
        self.table, self.other, self.random = table, other, chosen
        self.backups = [table.backup()]
        self.key = 10_000
        self.is_damaged = False

    def step(self) -> str:
        """Perform one random step, and return its name."""
        kinds = {"merge": 5, "crash": 4, "restore_table": 2, "restore_partition": 3, "restore_file": 2, "backup": 3}
        kinds |= {"append": 2, "overwrite": 1, "damage_done": 1, "damage_map": 1, "map_again": 1}
        if self.table.pending:
            kinds |= {"recover": 6}
        kind = self.random.choices(list(kinds), list(kinds.values()))[0]
        getattr(self, f"_{kind}")()
        self._look()
        return kind

    def _look(self) -> None:
        table = self.table
        if table.is_ambiguous() or self.is_damaged:
            for act in (table.read, lambda: table.read(self.other), table.recover, lambda: table.merge([], [1])):
                message = refused(act)
                assert REFUSED.search(message) and "Exception:" not in message.split("instead:")[0], message
            if self.is_damaged:
                table.mend()
                self.is_damaged = False
            else:
                self._restore_table()
            self._look()
            return
        expected = table.expected()
        low = self.random.randrange(1000)
        for session in (table.spark, self.other):
            assert table.read(session) == expected
        found = table.read(condition=f"o between {low} and {low + 50}")
        assert found == [row for row in expected if low <= row[1] <= low + 50]
        if not table.pending:
            assert table.learn() == expected

    def _rows(self, number: int) -> list[Row]:
        self.key += number
        return random_rows(self.random, range(self.key - number, self.key))

    def _delta(self) -> tuple[list[Row], list[int]]:
        """Choose rows in a range of values; replace some, delete some, and insert others."""
        low = self.random.randrange(900)
        there = [row for row in self.table.expected() if low <= row[1] < low + 100]
        keys = sorted({row[0] for row in there if self.random.random() < 0.5})
        deleted = [key for key in keys if self.random.random() < 0.4]
        updated = random_rows(self.random, [key for key in keys if key not in deleted])
        return updated + self._rows(self.random.randrange(4)), deleted

    def _merge(self) -> None:
        upserts, deleted = self._delta()
        expected = merged(self.table.expected(), upserts, deleted)
        self.table.merge(upserts, deleted)
        assert self.table.expected() == expected

    def _crash(self) -> None:
        if self.table.pending:
            self.table.recover()
        before = self.table.expected()
        upserts, deleted = self._delta()
        last = self.random.choice(STEPS)
        damage = self.random.choice([None, None, None, *DAMAGES, *([] if last == "done" else ["folder"])])
        self.table.crash(self.table.stage(upserts, deleted), last, damage)
        # The content of a finished record has no effect.
        self.is_damaged = damage is not None and last != "done"
        is_new = STEPS.index(last) >= STEPS.index("committed")
        assert self.table.expected() == (merged(before, upserts, deleted) if is_new else before)

    def _recover(self) -> None:
        expected, committed = self.table.expected(), self.table.is_committed()
        assert self.table.recover() == ("completed" if committed else "undone")
        assert self.table.expected() == expected

    def _append(self) -> None:
        self.table.insert(self._rows(5), mapped=self.random.random() < 0.7)
        self.table.refresh(self.other)

    def _overwrite(self) -> None:
        rows = self._rows(20)
        mode = "dynamic" if self.table.partitioned else "static"
        with setting(self.table.spark, "spark.sql.sources.partitionOverwriteMode", mode):
            self.table.insert(rows, overwrite="overwrite")
        self.table.refresh(self.other)

    def _backup(self) -> None:
        self.backups = [*self.backups[-3:], self.table.backup()]

    def _restore_table(self) -> None:
        self.table.restore_table(self.random.choice(self.backups))
        self.table.refresh(self.other)

    def _plain_backup(self) -> Backup | None:
        return next((one for one in reversed(self.backups) if not one.pending), None)

    def _restore_partition(self) -> None:
        if backup := self._plain_backup():
            self.table.restore_partition(backup, self.random.choice(self.table.folders()))
            self.table.refresh(self.other)

    def _restore_file(self) -> None:
        if backup := self._plain_backup():
            names = [str(path.relative_to(backup.folder)) for path in backup.folder.rglob("[!._]*.parquet")]
            names = [name for name in names if not name.startswith("_") and name not in self.table.files()]
            if names:
                self.table.restore_file(backup, self.random.choice(names))
                self.table.refresh(self.other)

    def _damage_done(self) -> None:
        """Damage the last record under a new name, so that no session has it in its cache."""
        records = sorted((self.table.location / "_replaced").glob("*/done"))
        if records and not self.table.pending and "committed" in (records[-1].parent / "outcome").read_text():
            record = records[-1].parent
            record = record.rename(record.with_name(f"{record.name}x"))
            self.table.damage(record / "started", self.random.choice(list(DAMAGES)))

    def _damage_map(self) -> None:
        """Damage a part of the file statistics, renamed so that no session has it in its cache."""
        parts = sorted((self.table.location / "_file_statistics").rglob("part-*.parquet"))
        if parts:
            part = self.random.choice(parts)
            part = part.rename(part.with_name(f"{part.stem}x.parquet"))
            self.table.damage(part, self.random.choice([*DAMAGES, "folder"]))

    def _map_again(self) -> None:
        if not self.table.pending:
            shutil.rmtree(self.table.location / "_file_statistics", ignore_errors=True)
            self.table.write_file_statistics()


def refused(act: object) -> str:
    try:
        act()  # type: ignore[operator]
    except ERRORS as error:
        return str(error)
    return "no error"


def walk(spark: SparkSession, folder: Path, number: int, steps: int) -> Counter[str]:
    chosen = random.Random(SEED * 100_000 + number)
    other = spark.newSession()
    other.conf.set("spark.bucketing.enabled", "true")
    taken: list[str] = []
    rows = random_rows(chosen, range(60))
    with organized(spark, f"organized_fuzz_{number}", folder / str(number), number % 2 == 0, rows) as table:
        steps_of = Walk(table, other, chosen)
        try:
            while len(taken) < steps:
                taken.append(steps_of.step())
        finally:
            print(f"\nseed {SEED}, table {number}: {taken}", flush=True)
    return Counter(taken)


@pytest.mark.usefixtures("extension")
@pytest.mark.long
def test_table_has_the_expected_rows_after_random_steps(spark: SparkSession, tmp_path: Path) -> None:
    taken: Counter[str] = Counter()
    with setting(spark, "spark.sql.shuffle.partitions", "2"):
        for number in range(-(-CASES // STEPS_PER_TABLE)):
            taken += walk(spark, tmp_path, number, min(STEPS_PER_TABLE, CASES - number * STEPS_PER_TABLE))
            print(f"\n{taken.total()} steps of seed {SEED}: {dict(taken)}", flush=True)
    assert taken.total() == CASES
