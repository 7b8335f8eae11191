"""Tables of each layout for random statements, compared with joins over plain tables."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from urllib.parse import unquote

import pytest
from bucketed_tables import ERRORS, VERSION_2, Tables, settled
from partition_specs import put_descriptor, put_parameters, seal_of
from pyspark.sql import DataFrame, SparkSession
from random_statements import Generator, Statement, Value, first, plain
from session_settings import setting

Row = tuple[Any, ...]
UNSUPPORTED = r"UNSUPPORTED_FEATURE\.TABLE_OPERATION|is not supported temporarily"


@dataclass
class Expected:
    """The outcome of a statement.

    Args:
        frame: the rows of the table and the inserted rows, each with its number `n`.
        rows: the rows of the table after the statement.
        copies: the most source rows of one row.
        errors: the possible errors.
    """

    frame: DataFrame
    rows: list[Row]
    updated: int
    deleted: int
    inserted: int
    copies: int
    errors: set[str]


class Table:
    """A table `t` in its own database, and a view `r` with the rows that it must have."""

    has_defaults = False
    # The path of a row's file. Spark finds no file metadata in Hive tables with CHAR columns.
    path = "input_file_name()"

    def __init__(self, spark: SparkSession, generator: Generator, folder: Path) -> None:
        self.spark, self.generator, self.random, self.folder = spark, generator, generator.random, folder
        self.partitioned_by: tuple[str, ...] = ()
        # The kinds of reads by other queries.
        self.reads: Counter[str] = Counter()
        formats = ["parquet", "parquet", "orc"] if generator.range_type != "timestamp" else ["parquet"]
        self.create(self.random.choice(formats))
        spark.sql("create view of_t as select * from t")
        rows = generator.rows(f"select id from range(0, {self.random.choice([0, 30, 100])}, 1, 1)")
        self.store(self.stored(rows))
        self.fill()

    def create(self, file_format: str) -> None:
        raise NotImplementedError

    def fill(self) -> None:
        """Write the rows of `r`."""
        raise NotImplementedError

    def files(self) -> Any:
        """Return what a statement must not change if it fails."""

    def check_files(self, before: Any) -> None:
        """Check the files after a statement; `before` is what `files` returned before it."""

    @property
    def columns(self) -> list[str]:
        return list(self.generator.types)

    def store(self, rows: DataFrame) -> None:
        rows.createOrReplaceTempView("r")

    def stored(self, rows: str) -> DataFrame:
        """Return the rows of a query as the table stores them."""
        return self.spark.sql(f"select {', '.join(self.column(name, [], name) for name in self.columns)} from ({rows})")

    def changes(self) -> list[str]:
        """Return the kinds of changes by other statements: the names of methods."""
        return [*(["add_column", "add_column"] if len(self.generator.added) < 3 else []), "change_comment"]

    def change(self) -> str:
        """Change the table with another statement, and return the kind of the change."""
        kind = self.random.choice(self.changes())
        getattr(self, kind)()
        return kind

    def add_column(self) -> None:
        definition = self.generator.add_column()
        self.spark.sql(f"alter table t add columns ({definition})")
        name = self.columns[-1]
        default = self.generator.defaults.get(name, "null")
        self.store(
            self.spark.sql(f"select *, cast({default} as {_plain_type(self.generator.types[name])}) as {name} from r")
        )

    def change_comment(self) -> None:
        column = self.random.choice(["v", "o", "st"])
        self.spark.sql(f"alter table t alter column {column} comment 'changed {self.random.random()}'")

    def new_rows(self) -> str:
        """Return the name of a view with rows to insert, and add them to `r`."""
        added = self.stored(self.generator.rows("select id from range(50, 60, 1, 1)")).localCheckpoint()
        added.createOrReplaceTempView("added")
        self.store(self.spark.sql(f"select {', '.join(self.columns)} from r union all select * from added"))
        return "added"

    def column(self, name: str, changes: list[dict[str, Value]], other: str) -> str:
        """Return the value of a column after the change of each action, as the table stores it."""
        whens = [
            f"when action = {i + 1} then {value}"
            for i, of in enumerate(changes)
            if (value := self._value(name, of, other))
        ]
        value = " ".join(["case", *whens, "else", other, "end"]) if whens else other
        if name in self.partitioned_by and self.generator.types[name] == "string":
            # A partition column stores the empty string as NULL.
            value = f"nullif({value}, '')"
        return f"{value} as {name}"

    def _value(self, name: str, change: dict[str, Value], other: str) -> str | None:
        """Return the new value of a column, or None if the change does not assign it."""
        fields = {key.split(".")[1]: value for key, value in change.items() if key.startswith(f"{name}.")}
        if fields:
            parts = {
                key: fields[key].plain or fields[key].sql if key in fields else f"{other}.{key}" for key in ("a", "b")
            }
            return f"named_struct('a', cast({parts['a']} as int), 'b', cast({parts['b']} as string))"
        if name not in change:
            return None
        value = change[name].plain or change[name].sql
        value = self.generator.defaults.get(name, "null") if value == "DEFAULT" else value
        data_type = self.generator.types[name]
        return (
            f"rpad({value}, 3, ' ')" if data_type.startswith("char") else f"cast({value} as {_plain_type(data_type)})"
        )

    def expected(self, statement: Statement) -> Expected:
        """Compute the outcome of a statement on the view `r` with joins."""
        is_merge = statement.sql.startswith("merge")
        present = "coalesce(s.here, false)" if is_merge else f"coalesce({plain(statement.on)}, false)"
        actions = [(present, clause) for clause in statement.matched]
        actions += [(f"not {present}", clause) for clause in statement.by_source]
        action = first(f"{applies} and coalesce({plain(clause.condition)}, false)" for applies, clause in actions)
        source = f"left join (select *, true as here from s) as s on {plain(statement.on)}" if is_merge else ""
        changed = [clause.values or {} for _, clause in actions]
        query = (
            f"select {', '.join(self.column(name, changed, f't.{name}') for name in self.columns)}, action, t.n, false as is_new from ("
            f"select struct(t.*) as t, {'struct(s.*)' if is_merge else 'struct(false as here)'} as s, {action} as action"
            f" from (select *, monotonically_increasing_id() as n from r) as t {source})"
        )
        inserts = [clause.values or {} for clause in statement.not_matched]
        if inserts:
            defaults = {name: Value("DEFAULT") for name in self.columns}
            values = (self.column(name, [defaults | values for values in inserts], "null") for name in self.columns)
            insert = first(f"coalesce({clause.condition}, false)" for clause in statement.not_matched)
            query += (
                f" union all select {', '.join(values)}, action, -1 - monotonically_increasing_id(), true from (select struct(s.*) as s,"
                f" {insert} as action from s left anti join r as t on {plain(statement.on)}) where action > 0"
            )
        frame = self.spark.sql(query).localCheckpoint(eager=False)
        # Without actions for matched rows, several source rows may match one row of the table.
        found = frame.collect()
        of_row = {row.n: row for row in found}.values()
        deletes = {number for number, (_, clause) in enumerate(actions, 1) if clause.values is None}
        clauses = [[None, *(clause for _, clause in actions)], [None, *statement.not_matched]]
        used = [clauses[is_new][number] for number, is_new in {(row.action, row.is_new) for row in of_row}]
        rows = frame.dropDuplicates(["n"]) if len(found) > len(of_row) else frame
        kept = [row for row in of_row if row.is_new or row.action not in deletes]
        return Expected(
            rows.where(f"is_new or action not in ({', '.join(map(str, [-1, *deletes]))})").select(*self.columns),
            [tuple(row[: len(self.columns)]) for row in kept],
            updated=sum(not row.is_new and row.action > 0 for row in kept),
            deleted=len(of_row) - len(kept),
            inserted=sum(row.is_new for row in kept),
            copies=max(Counter(row.n for row in found).values(), default=0),
            errors={
                value.error for clause in used if clause for value in (clause.values or {}).values() if value.error
            },
        )

    def check(self, statement: Statement) -> str:
        """Run a statement, compare it with the joins, and return its outcome."""
        before, after = self.files(), self.expected(statement)
        is_plain_delete = [(clause.condition, clause.values) for clause in statement.matched] == [("true", None)]
        errors = after.errors
        if after.copies > 1 and statement.matched and not is_plain_delete:
            errors = errors | {"MERGE_CARDINALITY_VIOLATION"}
        if errors:
            error = fails(self.spark, statement.sql, "|".join(errors))
            self.compare([tuple(row) for row in self.spark.sql(f"select {', '.join(self.columns)} from r").collect()])
            assert self.files() == before
            return error
        found = tuple(self.spark.sql(statement.sql).collect()[0])
        numbers = (after.updated, after.deleted, after.inserted)
        assert found == (sum(numbers), *numbers)[: len(found)]
        self.store(after.frame)
        self.compare(after.rows)
        self.check_files(before)
        return statement.sql.split()[0]

    def compare(self, rows: list[Row]) -> list[Any]:
        """Compare the table with rows, with and without the extension, and return what the table has."""
        for enabled in ("true", "false"):
            with setting(self.spark, "spark.bucketing.enabled", enabled):
                self.spark.sql("refresh table t")
                read = self.spark.sql(f"select {', '.join(self.columns)}, {self.path} as path from t").collect()
                assert text(row[:-1] for row in read) == text(rows)
        return read


class OrganizedTable(Table):
    has_defaults = True
    path = "_metadata.file_path"

    def create(self, file_format: str) -> None:
        rows_per_file = self.random.choice(["8", "20", "60"])
        self.layout = {"bucketing.range_by": '["o"]', "bucketing.rows_per_file": rows_per_file}
        if self.random.random() < 0.4:
            self.layout["bucketing.implicit_partition_by"] = '["s"]'
        if self.random.random() < 0.6:
            self.partitioned_by = ("ds",)
        by = f"partitioned by ({', '.join(self.partitioned_by)})" if self.partitioned_by else ""
        columns = ", ".join(map(self.generator.definition, self.columns))
        self.spark.sql(
            f"create table t ({columns}) using {file_format} {by} tblproperties ({_properties(self.layout)})"
        )

    def fill(self) -> None:
        self.spark.sql("merge into t using r as s on false when not matched then insert *").collect()

    def changes(self) -> list[str]:
        return [*super().changes(), "change_size", "change_properties"]

    def change_size(self) -> None:
        rows_per_file = self.random.choice([8, 20, 60])
        self.spark.sql(f"alter table t set tblproperties ('bucketing.rows_per_file'='{rows_per_file}')")

    def change_properties(self) -> None:
        names = ", ".join(f"'{name}'" for name in self.layout if name.endswith("_by"))
        self.spark.sql(f"alter table t unset tblproperties ({names})")
        fails(self.spark, "update t set s = 1", UNSUPPORTED)
        # Files of another writer have no file statistics.
        self.spark.sql(f"insert into t ({', '.join(self.columns)}) select * from {self.new_rows()}").collect()
        self.spark.sql(f"alter table t set tblproperties ({_properties(self.layout)})")

    def compare(self, rows: list[Row]) -> list[Any]:
        """Also compare the file statistics with the files."""
        read = super().compare(rows)
        known = self.spark.sql(
            "select path, rows, nulls, lower.o as lower, upper.o as upper from file_statistics('t')"
        ).collect()
        described = {row.path for row in known if row.rows is not None}
        assert text(row for row in known if row.path in described) == text(statistics(read, described))
        return read


class Spec(NamedTuple):
    buckets: int
    columns: tuple[str, ...]
    sorts: tuple[str, ...]

    @property
    def ddl(self) -> str:
        order = f"sorted by ({', '.join(self.sorts)})" if self.sorts else ""
        return f"clustered by ({', '.join(self.columns)}) {order} into {self.buckets} buckets"


class Part(NamedTuple):
    """The status, the sealed bucket spec and the files of a partition, or of an unpartitioned table."""

    status: str
    spec: Spec | None
    folder: Path
    files: frozenset[str]


# Partition columns, with values of partitions outside the table's location.
OUTSIDE = {"ds": "'a'", "s": "1", "d": "date'2024-01-31'", "c": "'x  '"}
PARTITIONS: list[tuple[str, ...]] = [(), (), ("ds",), ("s",), ("d",), ("c",), ("ds", "d"), ("s", "ds"), ("d", "s")]


class BucketedTable(Table):
    """A table in the Hive layout, some of whose partitions are not sealed, or with another spec."""

    # How the table states each bucket hash, and the function that returns the bucket of a row.
    hashes: ClassVar = {
        "hive": ("stored as {}", "hive_bucket({}, {})"),
        "hive2": (f"stored as {{}} {VERSION_2}", "hive2_bucket({}, {})"),
    }

    def create(self, file_format: str) -> None:
        chosen, types = self.random, self.generator.types
        self.tables = Tables(self.spark, self.spark.catalog.currentDatabase())
        self.partitioned_by, (stored, self.bucket) = (
            chosen.choice(PARTITIONS),
            chosen.choice(list(self.hashes.values())),
        )
        self.spec = self.random_spec()
        # Files that Hive's ORC reader would read are not sealed.
        self.is_sealable = file_format != "orc" or self.spark.conf.get("spark.sql.orc.impl") != "hive"
        spell = str.upper if chosen.random() < 0.3 else str
        columns = {name: spell(f"{name} ") + types[name] for name in types}
        by = ", ".join(columns.pop(name) for name in self.partitioned_by)
        partitioned = f"partitioned by ({by})" if by else ""
        clauses = [partitioned, self.spec.ddl, stored.format(file_format)]
        # The clause USING is the first one.
        clauses.sort(key=lambda clause: not clause.startswith("using"))
        self.spark.sql(f"create table t ({', '.join(columns.values())}) {' '.join(clauses)}")
        if by and chosen.random() < 0.3:
            values = ", ".join(f"{name} = {OUTSIDE[name]}" for name in self.partitioned_by)
            self.spark.sql(f"alter table t add partition ({values}) location '{self.folder / 'outside'}'")

    def random_spec(self) -> Spec:
        chosen, types = self.random, self.generator.types
        stored = [name for name in types if name not in self.partitioned_by and name not in ("c", "w", "st")]
        keys = [name for name in stored if types[name] not in ("double", "timestamp", "varchar(4)")]
        columns = tuple(chosen.sample(keys, chosen.choice([1, 1, 2])))
        sorts = [(), columns, columns, (*columns, chosen.choice([name for name in stored if name not in columns]))]
        most = 8 if len(self.partitioned_by) < 2 else 3
        return Spec(chosen.randint(1, most), columns, chosen.choice(sorts))

    def fill(self) -> None:
        writes = self.random.choice([1, 2])
        for number in range(writes):
            self.insert(f"r where pmod(xxhash64(id, v), {writes}) = {number}", self.random.random() < 0.7)

    def insert(self, rows: str, enabled: bool) -> None:
        columns = [name for name in self.columns if name not in self.partitioned_by]
        with self.settings(enabled):
            self.spark.sql("refresh table t")
            self.spark.sql(f"insert into t select {', '.join([*columns, *self.partitioned_by])} from {rows}").collect()

    def settings(self, enabled: bool) -> AbstractContextManager[None]:
        dynamic = {"hive.exec.dynamic.partition.mode": "nonstrict"}
        return settled(self.spark, dynamic | {"spark.bucketing.enabled": str(enabled).lower()})

    def changes(self) -> list[str]:
        others = ["insert_sealed", "insert_unsealed", "change_buckets", "change_buckets", "unseal", "change_descriptor"]
        return [*super().changes(), *others]

    def insert_sealed(self) -> None:
        self.insert(self.new_rows(), enabled=True)

    def insert_unsealed(self) -> None:
        self.insert(self.new_rows(), enabled=False)

    def change_buckets(self) -> None:
        self.spec = self.random_spec()
        self.spark.sql(f"alter table t {self.spec.ddl}")

    def change_descriptor(self) -> None:
        if partitions := sorted(filter(None, self.files())):
            put_descriptor(self.tables, "t", self.random.choice(partitions), self.random.choice([-1, 3]))

    def unseal(self) -> None:
        """Remove the seal of a partition, and check that its rows match this seal."""
        sealed = {name: part for name, part in self.files().items() if part.status == "sealed"}
        if sealed:
            name = self.random.choice(sorted(sealed))
            put_parameters(self.tables, "t", name, dict.fromkeys(seal_of(self.tables, "t", name)))
            self.spark.sql("refresh table t")
            found = {row.partition: row for row in self.tables.seal("t", "dry run")}[name]
            if sealed[name].spec == self.spec:
                assert found.status == "sealable", found
                assert Spec(found.buckets or 0, tuple(found.columns or ()), tuple(found.sorts or ())) == self.spec

    def files(self) -> dict[str, Part]:
        rows = self.spark.sql(
            "select partition, location, status, num_buckets, bucket_columns, sort_columns from bucket_specs('t')"
        ).collect()
        return {
            row.partition: Part(
                row.status,
                Spec(row.num_buckets, tuple(row.bucket_columns), tuple(row.sort_columns)) if row.num_buckets else None,
                folder,
                frozenset(path.name for path in folder.glob("[!._]*") if path.is_file()),
            )
            for row in rows
            for folder in [Path(row.location.removeprefix("file:"))]
        }

    def check_files(self, before: dict[str, Part]) -> None:
        """Check that touched partitions are sealed, with one file per touched bucket and rows in their buckets."""
        after = self.files()
        for name, part in after.items():
            old = before[name].files if name in before else frozenset()
            if part.files != old:
                assert (part.status in ("sealed", "empty") and part.spec == self.spec) or not self.is_sealable, (
                    name,
                    part,
                )
                assert part.files or not self.partitioned_by, f"{name} is empty"
                files = Counter(map(_bucket, part.files))
                assert {files[_bucket(file)] for file in part.files - old} <= {1}, (name, part.files)
        of_spec = [part for part in after.values() if part.status == "sealed" and part.spec == self.spec]
        self.check_rows({part.folder / name for part in of_spec for name in part.files})
        if self.random.random() < 0.3:
            # Spark's ORC reader and Hive's read the same files, but only Spark's can read them as buckets.
            self.check_join(self.is_sealable and len(of_spec) == len(after))

    def check_rows(self, files: set[Path]) -> None:
        """Check that the rows of these files are in their buckets, and in order."""
        found = self.tables.sql(
            f"stock:select {self.path}, {self.bucket.format(self.spec.buckets, ', '.join(self.spec.columns))},"
            f" struct({', '.join(self.spec.sorts) or '1'}) from t"
        )
        rows: dict[Path, list[Row]] = {path: [] for path in files}
        for url, bucket, order in found:
            path = Path(unquote(str(url).removeprefix("file://")))
            if path in rows:
                assert bucket == _bucket(path.name), path
                rows[path].append(tuple(map(_rank, order)))  # type: ignore[call-overload]
        for path, ordered in rows.items():
            assert all(one <= other for one, other in pairwise(ordered)), f"{path} is not sorted"
        assert all(rows.values()), "Spark has read no rows of some files"

    def check_join(self, is_sealed: bool) -> None:
        """Check that a join by bucket returns the rows of stock Spark, without an exchange if all files have one spec."""
        join = self.random.choice(["join", "full join", "left anti join"])
        on = " and ".join(f"a.{name} = b.{name}" for name in self.spec.columns)
        of_b = ", b.id, b.o" if join != "left anti join" else ""
        query = f"select /*+ merge(b) */ a.id, a.v, a.s{of_b} from t as a {join} t as b on {on}"
        rows, executed = self.tables.run(query)
        assert rows == self.tables.stock_rows(query)
        exchanges = executed.shape.exchanges
        assert exchanges == 0 or not is_sealed, executed
        self.reads[f"join of {'sealed' if is_sealed else 'other'} files, {exchanges} exchanges"] += 1


class SparkLayoutTable(BucketedTable):
    """A table in the Spark layout, all of whose files have the same bucket spec."""

    hashes: ClassVar = {"spark": ("using {}", "pmod(hash({1}), {0})")}

    def changes(self) -> list[str]:
        return [*Table.changes(self), "insert_sealed", "insert_unsealed", "unseal"]


def _bucket(file: str) -> int:
    found = re.match(r"(\d+)_", file) or re.match(r"part-.*_(\d+)[.]", file)
    return int(found[1]) if found else -1


def _properties(properties: dict[str, str]) -> str:
    return ", ".join(f"'{key}'='{value}'" for key, value in properties.items())


def _plain_type(data_type: str) -> str:
    return re.sub(r"(var)?char\(\d+\)", "string", data_type)


def fails(spark: SparkSession, sql: str, error: str) -> str:
    """Run a statement that must fail, and return the part of its error that matches."""
    with pytest.raises(ERRORS, match=f"(?s){error}") as raised:
        spark.sql(sql).collect()
    found = re.search(f"(?s){error}", str(raised.value))
    assert found
    return found[0].split(":")[0][:60]


def text(rows: Iterable[Row]) -> list[str]:
    """Return rows in an order and a form in which equal values of Spark are equal, such as NaN, and -0.0 and 0.0."""
    return sorted(str([value + 0.0 if isinstance(value, float) else value for value in row]) for row in rows)


def statistics(rows: list[Any], paths: set[str]) -> Iterator[Row]:
    """Return the path, the numbers of rows and NULLs, and the least and the greatest value of each of these files."""
    files: dict[str, list[Any]] = {path: [] for path in paths}
    for row in rows:
        if row.path in paths:
            files[row.path].append(row.o)
    for path, values in files.items():
        # Spark sorts NaN last.
        sorted_values = sorted(
            (value for value in values if value is not None), key=lambda value: (value != value, value)
        )
        nulls = len(values) - len(sorted_values)
        yield (path, len(values), nulls, *([sorted_values[0], sorted_values[-1]] if sorted_values else [None, None]))


def _rank(value: object) -> tuple[bool, bool, object]:
    """Return a key that sorts in Spark's order: nulls are first, and NaN is last and equal to itself."""
    is_nan = value != value
    return value is not None, is_nan, None if is_nan else value
