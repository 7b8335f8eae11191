"""Random tests of SEAL BUCKETS over partitions whose few rows may be in the right buckets of both versions."""

from __future__ import annotations

import os
import random

import pytest
from bucketed_tables import Tables
from partition_specs import add_files

pytestmark = pytest.mark.usefixtures("extension", "no_broadcast")

SEED, STEPS = int(os.environ.get("SEED", "1")), int(os.environ.get("STEPS", "25"))
HASHES = {"1": "hive", "2": "hive2"}
NAMES = ("a", "b", "c")
GROUP = "select k, count(*), sum(v) from t group by k"
FITS = "select count(*) from t where ds = '{}' and {}_bucket(2, k) <> " + (
    r"cast(regexp_extract(input_file_name(), '/(\\d+)_0_[^/]*$', 1) as int)"
)


class Sealing:
    """A table of three partitions, to which other engines add files in either version."""

    def __init__(self, tables: Tables, pick: random.Random) -> None:
        self.tables, self.pick = tables, pick
        tables.make("t", "k int, v bigint", "k", 2, rest="partitioned by (ds string)")
        for name in NAMES:
            tables.sql(f"alter table t add partition (ds = '{name}')")

    def add(self, to: str | None = None) -> None:
        """Add the files of a few rows, or of many rows, to a partition."""
        version, name = self.pick.choice("12"), to or self.pick.choice(NAMES)
        start, rows = self.pick.randrange(1000), self.pick.choice((1, 1, 1, 2, 40))
        query = f"select cast(id as int), id from range({start}, {start + rows})"
        add_files(self.tables, 2, version, query, f"ds={name}")

    def replace(self) -> None:
        """Replace the files of a partition, as another engine does that overwrites it."""
        name = self.pick.choice(NAMES)
        for file in (self.tables.folder("t") / f"ds={name}").iterdir():
            file.unlink()
        self.add(name)

    def write(self) -> None:
        """Replace or extend a partition with the extension, in the stated version."""
        how, name = self.pick.choice(("overwrite table", "into")), self.pick.choice(NAMES)
        rows = f"select cast(id as int), id from range({self.pick.choice((1, 30))})"
        self.tables.sql(f"insert {how} t partition (ds = '{name}') {rows}")

    def state(self) -> None:
        self.tables.sql(f"alter table t set tblproperties ('bucketing_version' = '{self.pick.choice('12')}')")

    def seal(self) -> None:
        self.tables.seal("t", self.pick.choice(("", f"where ds = '{self.pick.choice(NAMES)}'")))

    def fitting(self, name: str) -> set[str]:
        """Return the hashes whose buckets contain all rows of a partition; it may have no rows."""
        wrong = {of: self.tables.sql("stock:" + FITS.format(name, of))[0][0] for of in HASHES.values()}
        return {of for of, number in wrong.items() if not number}

    def check(self) -> None:
        """Seal all partitions, and compare the seals with the rows."""
        outcomes = self.tables.seal("t")
        fits = {f"ds={name}": self.fitting(name) for name in NAMES}
        for one in outcomes:
            assert (one.status == "refused") == (not fits[one.partition]), (one, fits)
            assert one.hash is None or one.hash in fits[one.partition], (one, fits)
        sealed = {one.partition: one.hash for one in outcomes if one.hash}
        common = set.intersection(*(fits[name] for name in sealed)) if sealed else set()
        assert not common or len(set(sealed.values())) == 1, (sealed, fits)
        again = self.tables.seal("t")
        assert [(one.partition, one.hash) for one in again] == [(one.partition, one.hash) for one in outcomes]
        assert all(one.status in ("unchanged", "empty", "refused") for one in again), again
        plan = self.tables.read(GROUP, empty=not self.tables.sql("stock:select 1 from t limit 1"))
        if sealed and len(set(sealed.values())) == 1 and all(one.status != "refused" for one in outcomes):
            assert all(not one.files_read for one in again) and "Bucketed: true (2 " in plan, (again, plan)


@pytest.mark.long
def test_partitions_share_a_version_if_their_rows_allow_it(tables: Tables) -> None:
    pick = random.Random(SEED)
    sealing = Sealing(tables, pick)
    for step in range(STEPS):
        getattr(sealing, pick.choice(("add", "add", "add", "replace", "write", "state", "seal", "seal")))()
        tables.read(
            "select ds, k, count(*) from t group by ds, k", empty=not tables.sql("stock:select 1 from t limit 1")
        )
        if step % 3 == 2:
            sealing.check()
    sealing.check()
