"""Describe the tables and statements that tests run on Spark and compare with its peers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import NamedTuple

# An expression of each type that both versions of the Hive layout support, with values of both signs.
KEYS = {
    "boolean": "id % 2 = 0",
    "tinyint": "cast(id % 100 as tinyint)",
    "smallint": "cast(id * 137 as smallint)",
    "int": "cast(id * 1000003 as int)",
    "bigint": "id * 10000000019",
    "string": "if(id = 0, '', concat('é', id, repeat('x', cast(abs(id) % 9 as int))))",
    "date": "date_add(date'1970-01-01', cast(id * 97 as int))",
    "decimal(10,2)": "cast(id / 4 as decimal(10,2))",
    "decimal(38,18)": "cast(id * 1000000007 as decimal(38,18)) / 8",
}
# The types of several bucket columns, in the order of the columns.
SEVERAL = "int, string, date"
BUCKETS = 8


class Layout(NamedTuple):
    """The bucketing version, file format and partitioning of a table in the Hive layout."""

    version: int
    stored: str
    partitioned: bool

    def __str__(self) -> str:
        return f"version-{self.version}-{self.stored}{'-partitioned' if self.partitioned else ''}"

    def bucket(self, keys: str, buckets: int = BUCKETS) -> str:
        """Return Spark's expression for a row's bucket."""
        return f"hive{'2' if self.version == 2 else ''}_bucket({buckets}, {keys})"

    def ddl(self, name: str, columns: str, keys: str) -> str:
        """Return DDL for these columns and the column p."""
        columns, by = (columns, "partitioned by (p int)") if self.partitioned else (f"{columns}, p int", "")
        return (
            f"{name} ({columns}) {by} clustered by ({keys}) sorted by ({keys}) into {BUCKETS} buckets "
            f"stored as {self.stored} tblproperties ('bucketing_version' = '{self.version}')"
        )


LAYOUTS = [Layout(*of) for of in product((1, 2), ("parquet", "orc"), (False, True))]


class KeyTable(NamedTuple):
    """A table with bucket columns of some types, and the columns v and p."""

    types: str
    layout: Layout

    def __str__(self) -> str:
        return f"{self.types}-{self.layout}"

    @property
    def keys(self) -> str:
        return ", ".join(f"k{place}" for place, _ in enumerate(self._types))

    @property
    def _types(self) -> list[str]:
        return self.types.split(", ") if self.types == SEVERAL else [self.types]

    def ddl(self, name: str) -> str:
        columns = [f"k{place} {of}" for place, of in enumerate(self._types)]
        return self.layout.ddl(name, ", ".join([*columns, "v bigint"]), self.keys)

    @property
    def rows(self) -> str:
        """A query for the rows; the keys of some rows are NULL."""
        keys = [f"if(id % 17 = {place}, null, {KEYS[of]}) as k{place}" for place, of in enumerate(self._types)]
        return f"select {', '.join(keys)}, id as v, cast(id % 2 as int) as p from range(-90, 150)"

    def lookup(self, texts: Sequence[object], string: str = "string") -> str:
        """Return a condition for the rows whose keys have these values, with one literal per key."""
        types = (string if of == "string" else of for of in self._types)
        keys = zip(self.keys.split(", "), types, texts, strict=True)
        return " and ".join(
            f"{key} is null" if text is None else f"{key} = cast('{text}' as {of})" for key, of, text in keys
        )

    def texts(self, string: str = "string") -> str:
        """Return expressions for the values of all columns, with the keys as texts."""
        return f"v, p, {', '.join(f'cast({key} as {string})' for key in self.keys.split(', '))}"


def key_tables() -> list[KeyTable]:
    """Return a table of each key type in each version, with changing formats and partitioning."""
    return [
        KeyTable(of, Layout(version, ("parquet", "orc")[(place + version) % 2], place % 4 > 1))
        for version, (place, of) in product((1, 2), enumerate([*KEYS, SEVERAL]))
    ]


Rows = dict[int, tuple[str, int]]


class Statement(NamedTuple):
    """A statement on the table t (k bigint, v string, p int), and its effect on the rows by their keys."""

    sql: str
    effect: Callable[[Rows], Rows]


def changed(of: Callable[[int], bool], value: str) -> Callable[[Rows], Rows]:
    return lambda rows: {k: (value if of(k) else v, p) for k, (v, p) in rows.items()}


def added(first: int, end: int, value: str) -> Callable[[Rows], Rows]:
    return lambda rows: rows | {k: (value, k % 3) for k in range(first, end)}


def new(first: int, end: int, value: str) -> str:
    return f"select id as k, '{value}' as v, cast(id % 3 as int) as p from range({first}, {end})"


def merge(first: int, end: int) -> Statement:
    return Statement(
        f"merge into t using ({new(first, end, 'm')}) s on t.k = s.k and t.p = s.p "
        "when matched then update set v = s.v when not matched then insert *",
        added(first, end, "m"),
    )


CHANGES = [
    Statement(f"insert into t {new(0, 300, 'a')}", added(0, 300, "a")),
    Statement(f"insert into t {new(300, 330, 'b')}", added(300, 330, "b")),
    merge(320, 340),
    Statement("update t set v = 'u' where k < 5", changed(lambda k: k < 5, "u")),
    Statement(
        "delete from t where k between 5 and 9", lambda rows: {k: row for k, row in rows.items() if not 5 <= k <= 9}
    ),
]
OVERWRITTEN = dict.fromkeys(range(1000, 1010), ("o", 1))
PARTITIONED = [
    *CHANGES,
    Statement(
        "insert overwrite t partition (p = 1) select 1000 + id, 'o' from range(10)",
        lambda rows: {k: row for k, row in rows.items() if row[1] != 1} | OVERWRITTEN,
    ),
]
WHOLE = [*CHANGES, Statement("insert overwrite t select 1000 + id, 'o', 1 from range(10)", lambda _: OVERWRITTEN)]


def evolution(buckets: int, partitioned: bool) -> list[Statement]:
    """Return statements that change the number of buckets; a partitioned table then has partitions of both numbers."""
    first = 10000 * buckets
    written = dict.fromkeys(range(first, first + 50), ("e", 2))
    into, columns = ("t partition (p = 2)", "") if partitioned else ("t", ", 2")
    return [
        Statement(f"alter table t clustered by (k) sorted by (k) into {buckets} buckets", lambda rows: rows),
        Statement(
            f"insert overwrite {into} select {first} + id, 'e'{columns} from range(50)",
            lambda rows: {k: row for k, row in rows.items() if partitioned and row[1] != 2} | written,
        ),
        Statement("delete from t where k % 20 = 0", lambda rows: {k: row for k, row in rows.items() if k % 20}),
    ]
