"""What may happen to the records of a table's partitions, and to the partitions, behind the extension's back."""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path

from bucketed import Tables
from evolved import put_parameters

# Each is a method below. Most tables have one of them, some have two.
RECORD_BREAKAGES = (
    "other number",
    "other columns",
    "other order",
    "no buckets",
    "no record",
    "broken",
    "lie",
    "lie of all",
    "wiped",
    "stock overwrite",
    "stock append",
    "location",
    "copied location",
    "added",
    "rename",
    "swapped names",
    "not evolved",
    "not clustered",
    "altered again",
)
RECORD = ("spec_version", "num_buckets", "columns", "sort_columns", "hash")
# Values that no record has: another form, no JSON, no number, and what contradicts the rest.
UNREADABLE = (
    {"spec_version": "2"},
    {"hash": "murmur3"},
    {"columns": "k"},
    {"columns": '["k", "k"]'},
    {"sort_columns": '{"k": 1}'},
    {"num_buckets": "-4"},
    {"num_buckets": "many"},
    {"num_buckets": "0"},
)


class Records:
    """Breaks the records of one table, whose files and other metadata are as they were written.

    Args:
        tables: the database.
        pick: makes the choices.
        name: of the table.
        rows: query of rows for a partition.
        keys: columns that rows can be bucketed by.
    """

    def __init__(self, tables: Tables, pick: random.Random, name: str, rows: str, keys: tuple[str, ...]) -> None:
        self.tables, self.random, self.name, self.rows, self.keys = tables, pick, name, rows, keys

    def damage(self, how: str) -> None:
        """Do one of RECORD_BREAKAGES to a partition, if there is one."""
        found = sorted(str(row[0]).partition("=")[2] for row in self.tables.sql(f"show partitions {self.name}"))
        if found:
            getattr(self, f"_{how.replace(' ', '_')}")(self.random.choice(found), found)
            self.tables.sql(f"refresh table {self.name}")

    def _put(self, partition: str, values: dict[str, str | None]) -> None:
        parameters = {f"bucketing.{key}": value for key, value in values.items()}
        put_parameters(self.tables, self.name, f"p={partition}", parameters)

    def _number(self) -> int:
        return self.random.choice((1, 2, 3, 4, 6, 8, 12, 16, 32))

    def _spec(self) -> str:
        key = self.random.choice(self.keys)
        order = self.random.choice(("", f"sorted by ({key})", f"sorted by ({key}, v)", "sorted by (v)"))
        return f"clustered by ({key}) {order} into {self._number()} buckets"

    def _of(self, partition: str) -> str:
        return f"alter table {self.name} partition (p = '{partition}')"

    def _other_number(self, partition: str, _: list[str]) -> None:
        self._put(partition, {"num_buckets": str(self._number())})

    def _other_columns(self, partition: str, _: list[str]) -> None:
        self._put(partition, {"columns": json.dumps([self.random.choice(self.keys)])})

    def _other_order(self, partition: str, _: list[str]) -> None:
        columns: tuple[tuple[str, ...], ...] = ((self.random.choice(self.keys),), ("v",), ("gone",), ())
        self._put(partition, {"sort_columns": json.dumps(self.random.choice(columns))})

    def _no_buckets(self, partition: str, _: list[str]) -> None:
        self._put(partition, {"num_buckets": "0", "columns": "[]", "sort_columns": "[]"})

    def _no_record(self, partition: str, _: list[str]) -> None:
        self._put(partition, dict.fromkeys(RECORD))

    def _broken(self, partition: str, _: list[str]) -> None:
        missing = dict.fromkeys(self.random.sample(RECORD, self.random.choice((1, 1, 3))))
        self._put(partition, self.random.choice((missing, *UNREADABLE)))  # type: ignore[arg-type]

    def _lie(self, partition: str, _: list[str]) -> None:
        self.tables.sql(f"{self._of(partition)} {self._spec()}")

    def _lie_of_all(self, _: str, partitions: list[str]) -> None:
        """All partitions are said to be of one spec, so that nothing but their files speaks against it."""
        spec = self._spec()
        for partition in partitions:
            self.tables.sql(f"{self._of(partition)} {spec}")

    def _wiped(self, partition: str, _: list[str]) -> None:
        self.tables.sql(f"analyze table {self.name} partition (p = '{partition}') compute statistics noscan")

    def _write(self, how: str, partition: str) -> None:
        """By stock Spark: buckets of the table's spec; or none, as after a query in the same session."""
        if self.random.random() < 0.5:
            self.tables.sql(f"refresh table {self.name}")
        else:
            self.tables.stock_rows(f"select count(*) from {self.name}")
        with self.tables.settings({"spark.bucketing.enabled": "false"}):
            self.tables.sql(f"insert {how} table {self.name} partition (p = '{partition}') {self.rows}")

    def _stock_overwrite(self, partition: str, _: list[str]) -> None:
        self._write("overwrite", partition)

    def _stock_append(self, partition: str, _: list[str]) -> None:
        self._write("into", partition)

    def _folder(self, partition: str) -> Path:
        found = self.tables.sql(f"describe formatted {self.name} partition (p = '{partition}')")
        return Path(str(next(row[1] for row in found if row[0] == "Location")).removeprefix("file:"))

    def _location(self, partition: str, partitions: list[str]) -> None:
        other = self._folder(self.random.choice(partitions))
        self.tables.sql(f"{self._of(partition)} set location '{other}'")

    def _copied_location(self, partition: str, partitions: list[str]) -> None:
        other = self._folder(self.random.choice(partitions))
        copy = self.tables.folder(self.name) / f".copy-{self.random.randrange(10**9)}"
        shutil.copytree(other, copy) if other.exists() else copy.mkdir()
        self.tables.sql(f"{self._of(partition)} set location '{copy}'")

    def _added(self, partition: str, _: list[str]) -> None:
        folder = self._folder(partition)
        self.tables.sql(f"alter table {self.name} add if not exists partition (p = 'w') location '{folder}'")

    def _rename(self, partition: str, _: list[str]) -> None:
        self.tables.sql(f"{self._of(partition)} rename to partition (p = 'v{partition}')")

    def _swapped_names(self, partition: str, partitions: list[str]) -> None:
        other = self.random.choice(partitions)
        if other != partition:
            for before, after in ((partition, "aside"), (other, partition), ("aside", other)):
                self.tables.sql(f"{self._of(before)} rename to partition (p = '{after}')")

    def _not_evolved(self, *_: object) -> None:
        self.tables.sql(f"alter table {self.name} unset tblproperties ('bucketing.evolved')")

    def _not_clustered(self, *_: object) -> None:
        self.tables.sql(f"alter table {self.name} not clustered")

    def _altered_again(self, *_: object) -> None:
        self.tables.sql(f"alter table {self.name} {self._spec()}")
