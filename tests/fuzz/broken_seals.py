"""Damage the seals, partitions and columns of a table without using the extension."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from functools import partialmethod
from itertools import takewhile
from pathlib import Path

from bucketed_tables import Tables
from partition_specs import put_parameters, put_schema, seal_of
from pyspark.errors import AnalysisException

# Keys of VALUES or STATEMENTS, or names of methods below. Damage to partitions does not affect unpartitioned tables.
SEAL_BREAKAGES = (
    "other number", "other columns", "other order", "other schema", "other hash", "other counts", "other digest", "no seal",
    "broken", "of another", "described otherwise", "stock overwrite", "stock append", "retyped", "reordered",
    "not clustered", "altered again", "emptied",
)  # fmt: skip
PARTITION_BREAKAGES = ("wiped", "location", "copied location", "added", "rename", "swapped names", "added again")
KEYS = ("spec_version", "num_buckets", "columns", "sort_columns", "hash", "schema", "files", "bytes", "digest")
# Invalid seals: another version, text that is not JSON or not a number, and contradictory fields.
UNREADABLE: tuple[dict[str, str | None], ...] = (
    {"spec_version": "1"}, {"hash": "murmur3"}, {"columns": "k"}, {"columns": '["k", "k"]'}, {"sort_columns": '{"k": 1}'},
    {"schema": "[]"}, {"schema": '[{"name": "k"}]'}, {"num_buckets": "-4"}, {"num_buckets": "many"}, {"num_buckets": "0"},
    {"files": "none"}, {"bytes": "-1"}, {"digest": "abc"},
)  # fmt: skip


class Seals:
    """Damages the seals of a table with these bucket columns; `pick` chooses, and `others` provides seals to copy."""

    def __init__(
        self, tables: Tables, pick: random.Random, name: str, rows: str, keys: tuple[str, ...], others: list[str]
    ) -> None:
        self.tables, self.random, self.name, self.rows, self.keys, self.others = tables, pick, name, rows, keys, others
        self.partitions = self._partitions(name)

    def damage(self, how: str) -> None:
        """Damage the seal of a random partition, or of an unpartitioned table."""
        if self.partitions:
            partition = self.random.choice(self.partitions)
            if how in VALUES:
                self._put(partition, VALUES[how](self))
            elif how in STATEMENTS:
                self.tables.sql(STATEMENTS[how](self, self._of(partition)))
            else:
                getattr(self, f"_{how.replace(' ', '_')}")(partition)
            self.tables.sql(f"refresh table {self.name}")

    def _partitions(self, name: str) -> list[str]:
        """Return the partition names, or a single empty name for an unpartitioned table."""
        described = self.tables.sql(f"describe extended {name}")
        if not any(row[0] == "# Partition Information" for row in described):
            return [""]
        return sorted(str(row[0]).partition("=")[2] for row in self.tables.sql(f"show partitions {name}"))

    def _put(self, partition: str, values: dict[str, str | None]) -> None:
        parameters = {f"bucketing.{key}": value for key, value in values.items()}
        put_parameters(self.tables, self.name, f"p={partition}" if partition else "", parameters)

    def number(self) -> int:
        return self.random.choice((1, 2, 3, 4, 6, 8, 12, 16, 32))

    def spec(self) -> str:
        key = self.random.choice(self.keys)
        order = self.random.choice(("", f"sorted by ({key})", f"sorted by ({key}, v)", "sorted by (v)"))
        return f"clustered by ({key}) {order} into {self.number()} buckets"

    def _of(self, partition: str) -> str:
        return f"alter table {self.name} partition (p = '{partition}')" if partition else f"alter table {self.name}"

    def _other_columns(self, partition: str) -> None:
        key = self.random.choice(self.keys)
        schema = json.dumps([{"name": key, "position": "ktldnv".index(key), "type": "int"}])
        self._put(partition, {"columns": json.dumps([key]), "sort_columns": "[]", "schema": schema})

    def _other_order(self, partition: str) -> None:
        columns = self.random.choice(((self.random.choice(self.keys),), ("v",), ("gone",), ()))
        self._put(partition, {"sort_columns": json.dumps(columns)})

    def _other_schema(self, partition: str) -> None:
        schema = seal_of(self.tables, self.name, partition and f"p={partition}").get("bucketing.schema", "[]")
        self._put(partition, {"schema": schema.replace('"int"', '"bigint"').replace('"position":0', '"position":1')})

    def _broken(self, partition: str) -> None:
        missing: dict[str, str | None] = dict.fromkeys(self.random.sample(KEYS, self.random.choice((1, 1, 3))))
        self._put(partition, self.random.choice((missing, *UNREADABLE)))

    def _of_another(self, partition: str) -> None:
        """Copy the seal of another table or another partition."""
        name = self.random.choice([*self.others, self.name])
        other = self.random.choice(self._partitions(name) or [""])
        seal = seal_of(self.tables, name, other and f"p={other}")
        self._put(partition, {key: seal.get(f"bucketing.{key}") for key in KEYS})

    def _write(self, how: str, partition: str) -> None:
        """Write with stock Spark, with the table's buckets or without buckets, as after a query in the same session."""
        if self.random.random() < 0.5:
            self.tables.sql(f"refresh table {self.name}")
        else:
            self.tables.stock_rows(f"select count(*) from {self.name}")
        into = f"partition (p = '{partition}')" if partition else ""
        self.tables.sql(f"stock:insert {how} table {self.name} {into} {self.rows}")

    _stock_overwrite = partialmethod(_write, "overwrite")
    _stock_append = partialmethod(_write, "into")

    def _columns(self) -> list[str]:
        described = takewhile(
            lambda row: not str(row[0]).startswith("#"), self.tables.sql(f"describe table {self.name}")
        )
        return [f"{name} {kind}" for name, kind, _ in described if name != "p"]

    def _retyped(self, _: str) -> None:
        """Widen a key's type, because negative numbers then hash differently."""
        put_schema(self.tables, self.name, ", ".join(self._columns()).replace("k int", "k bigint"))

    def _reordered(self, _: str) -> None:
        columns = self._columns()
        self.random.shuffle(columns)
        # The metastore does not allow every type change.
        with suppress(AnalysisException):
            put_schema(self.tables, self.name, ", ".join(columns))

    def _folder(self, partition: str) -> Path:
        found = self.tables.sql(f"describe formatted {self.name} partition (p = '{partition}')")
        return Path(str(next(row[1] for row in found if row[0] == "Location")).removeprefix("file:"))

    def _location(self, partition: str) -> None:
        other = self._folder(self.random.choice(self.partitions))
        self.tables.sql(f"{self._of(partition)} set location '{other}'")

    def _copied_location(self, partition: str) -> None:
        """Point to a copy of another partition's files with preserved times; they still differ from the sealed files."""
        other = self._folder(self.random.choice(self.partitions))
        copy = self.tables.folder(self.name) / f".copy-{self.random.randrange(10**9)}"
        keeps = self.random.choice((shutil.copy, shutil.copy2))
        shutil.copytree(other, copy, copy_function=keeps) if other.exists() else copy.mkdir()
        self.tables.sql(f"{self._of(partition)} set location '{copy}'")

    def _added(self, partition: str) -> None:
        folder = self._folder(partition)
        self.tables.sql(f"alter table {self.name} add if not exists partition (p = 'w') location '{folder}'")

    def _added_again(self, partition: str) -> None:
        """Drop the partition but keep its files, and add it again."""
        folder, aside = self._folder(partition), self.tables.folder(self.name) / ".aside"
        if folder.exists():
            folder.rename(aside)
            self.tables.sql(f"{self._of(partition)}".replace(" partition", " drop partition"))
            aside.rename(folder)
            self.tables.sql(f"msck repair table {self.name}")

    def _rename(self, partition: str) -> None:
        self.tables.sql(f"{self._of(partition)} rename to partition (p = 'v{partition}')")

    def _swapped_names(self, partition: str) -> None:
        other = self.random.choice(self.partitions)
        if other != partition:
            for before, after in ((partition, "aside"), (other, partition), ("aside", other)):
                self.tables.sql(f"{self._of(before)} rename to partition (p = '{after}')")


# Changes to the fields of a seal.
VALUES: dict[str, Callable[[Seals], dict[str, str | None]]] = {
    # The digest covers the spec, so a change of only the number of buckets invalidates the seal.
    "other number": lambda seals: {"num_buckets": str(seals.number())},
    "other hash": lambda seals: {"hash": seals.random.choice(("hive", "hive2", "spark"))},
    "other counts": lambda seals: {seals.random.choice(("files", "bytes")): str(seals.number())},
    "other digest": lambda seals: {"digest": f"{seals.random.getrandbits(128):032x}"},
    "no seal": lambda _: dict.fromkeys(KEYS),
}
# Statements on the table or a partition; `of` is the prefix ALTER TABLE with its name.
STATEMENTS: dict[str, Callable[[Seals, str], str]] = {
    # Spark removes the seal of a partition that becomes inconsistent.
    "described otherwise": lambda seals, of: f"{of} {seals.spec()}",
    "wiped": lambda _, of: f"{of.replace('alter', 'analyze')} compute statistics noscan",
    "not clustered": lambda seals, _: f"alter table {seals.name} not clustered",
    "altered again": lambda seals, _: f"alter table {seals.name} {seals.spec()}",
    "emptied": lambda _, of: of.replace("alter", "truncate"),
}
