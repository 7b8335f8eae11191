"""Random MERGE INTO, UPDATE and DELETE statements on organized tables, compared with joins over plain tables.

`make test` includes a short run. `make fuzz SEED=7 CASES=1000` takes more statements, and reports the seed and the
number of a failure.
"""

from __future__ import annotations

import os
import random
import re
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from random_statements import RANGES, REJECTED, Generator, Statement, Value, first, plain

from spark_bucketing.session import setting

SEED = int(os.environ.get("SEED", "1"))
CASES = int(os.environ.get("CASES", "12"))
STATEMENTS_PER_TABLE = 12
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
    """An organized table `t` in its own database, and a view `r` with the rows that it must have."""

    def __init__(self, spark: SparkSession, generator: Generator) -> None:
        self.spark, self.generator = spark, generator
        chosen = generator.random
        self.layout = {"bucketing.range_by": '["o"]', "bucketing.rows_per_file": chosen.choice(["8", "20", "60"])}
        if chosen.random() < 0.4:
            self.layout["bucketing.implicit_partition_by"] = '["s"]'
        self.is_partitioned = chosen.random() < 0.6
        formats = ["parquet", "parquet", "orc"] if generator.range_type != "timestamp" else ["parquet"]
        columns = ", ".join(
            f"{name} {data_type}{f' default {generator.defaults[name]}' if name in generator.defaults else ''}"
            for name, data_type in generator.types.items()
        )
        by = "partitioned by (ds)" if self.is_partitioned else ""
        spark.sql(
            f"create table t ({columns}) using {chosen.choice(formats)} {by} tblproperties ({_properties(self.layout)})"
        )
        spark.sql("create view of_t as select * from t")
        rows = generator.rows(f"select id from range(0, {chosen.choice([0, 30, 100])}, 1, 1)")
        self.store(spark.sql(f"select {', '.join(self.column(name, [], name) for name in self.columns)} from ({rows})"))
        spark.sql("merge into t using r as s on false when not matched then insert *").collect()

    @property
    def columns(self) -> list[str]:
        return list(self.generator.types)

    def store(self, rows: DataFrame) -> None:
        rows.createOrReplaceTempView("r")

    def change_schema(self) -> str:
        """Change the table with another statement, and return the kind of the change."""
        chosen, spark = self.generator.random, self.spark
        kinds = ["column", "column"] if len(self.generator.added) < 3 else []
        kind = chosen.choice([*kinds, "comment", "size", "properties"])
        if kind == "column":
            definition = self.generator.add_column()
            spark.sql(f"alter table t add columns ({definition})")
            name = self.columns[-1]
            default = self.generator.defaults.get(name, "null")
            self.store(
                spark.sql(f"select *, cast({default} as {_plain_type(self.generator.types[name])}) as {name} from r")
            )
        elif kind == "comment":
            spark.sql(
                f"alter table t alter column {chosen.choice(['v', 'o', 'st'])} comment 'changed {chosen.random()}'"
            )
        elif kind == "size":
            spark.sql(f"alter table t set tblproperties ('bucketing.rows_per_file'='{chosen.choice([8, 20, 60])}')")
        else:
            names = ", ".join(f"'{name}'" for name in self.layout if name.endswith("_by"))
            spark.sql(f"alter table t unset tblproperties ({names})")
            fails(spark, "update t set s = 1", UNSUPPORTED)
            # Files of another writer have no file statistics.
            new = self.generator.rows("select id from range(50, 60, 1, 1)")
            added = spark.sql(
                f"select {', '.join(self.column(name, [], name) for name in self.columns)} from ({new})"
            ).localCheckpoint()
            added.createOrReplaceTempView("added")
            spark.sql(f"insert into t ({', '.join(self.columns)}) select * from added").collect()
            self.store(spark.sql(f"select {', '.join(self.columns)} from r union all select * from added"))
            spark.sql(f"alter table t set tblproperties ({_properties(self.layout)})")
        return kind

    def column(self, name: str, changes: list[dict[str, Value]], other: str) -> str:
        """Return the value of a column after the change of each action, as the table stores it."""
        whens = [
            f"when action = {i + 1} then {value}"
            for i, of in enumerate(changes)
            if (value := self._value(name, of, other))
        ]
        value = " ".join(["case", *whens, "else", other, "end"]) if whens else other
        if name == "ds" and self.is_partitioned:
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
        after = self.expected(statement)
        is_plain_delete = [(clause.condition, clause.values) for clause in statement.matched] == [("true", None)]
        errors = after.errors
        if after.copies > 1 and statement.matched and not is_plain_delete:
            errors = errors | {"MERGE_CARDINALITY_VIOLATION"}
        if errors:
            error = fails(self.spark, statement.sql, "|".join(errors))
            self.compare([tuple(row) for row in self.spark.table("r").collect()])
            return error
        found = tuple(self.spark.sql(statement.sql).collect()[0])
        numbers = (after.updated, after.deleted, after.inserted)
        assert found == (sum(numbers), *numbers)[: len(found)]
        self.store(after.frame)
        self.compare(after.rows)
        return statement.sql.split()[0]

    def compare(self, rows: list[Row]) -> None:
        """Compare the table with rows, with and without the extension, and its file statistics with its files."""
        for enabled in ("true", "false"):
            with setting(self.spark, "spark.bucketing.enabled", enabled):
                self.spark.sql("refresh table t")
                read = self.spark.sql(f"select {', '.join(self.columns)}, _metadata.file_path as path from t").collect()
                assert text(row[:-1] for row in read) == text(rows)
        known = self.spark.sql(
            "select path, rows, nulls, lower.o as lower, upper.o as upper from file_statistics('t')"
        ).collect()
        described = {row.path for row in known if row.rows is not None}
        assert text(row for row in known if row.path in described) == text(statistics(read, described))


def _properties(properties: dict[str, str]) -> str:
    return ", ".join(f"'{key}'='{value}'" for key, value in properties.items())


def _plain_type(data_type: str) -> str:
    return re.sub(r"(var)?char\(\d+\)", "string", data_type)


def fails(spark: SparkSession, sql: str, error: str) -> str:
    """Run a statement that must fail, and return the part of its error that matches."""
    # Before version 4, PySpark does not convert the errors of tasks.
    with pytest.raises((PySparkException, Py4JJavaError), match=f"(?s){error}") as raised:
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


@pytest.fixture
def functions(spark: SparkSession) -> list[str]:
    """Register Python, Java and SQL functions, and return conditions that call them with a number."""
    spark.udf.register("py_same", lambda number: number, "bigint")
    spark.udf.register("py_text", lambda value: value, "string")
    spark.udf.registerJavaFunction("add_one", "org.apache.spark.sql.bucketing.support.AddOne", "bigint")
    if not spark.version.startswith("3."):
        spark.sql("create or replace temporary function twice(number bigint) returns bigint return 2 * number")
    return ["py_same({}) % 2 = 1", "add_one({}) % 3 = 0"]


def reject_names_that_differ_only_in_case(spark: SparkSession) -> None:
    with setting(spark, "spark.sql.caseSensitive", "true"):
        properties = _properties({"bucketing.range_by": '["id"]'})
        spark.sql(f"create table cased (id int, o int, O int) using parquet tblproperties ({properties})")
        for statement in ("update cased set id = 1", "delete from cased where o = 1"):
            fails(spark, statement, r"Cannot change rows of .*cased`\.\n  found:    the columns o and O")


@contextmanager
def allowing_no_codegen(spark: SparkSession) -> Iterator[None]:
    """Set the property with which Spark allows NO_CODEGEN, and checks which methods the rules of its analyzer call."""
    system = spark.sparkContext._jvm.System  # type: ignore[union-attr]
    system.setProperty("spark.testing", "true")
    try:
        yield
    finally:
        system.clearProperty("spark.testing")


@contextmanager
def database(spark: SparkSession, name: str) -> Iterator[None]:
    spark.sql(f"create database {name}")
    current = spark.catalog.currentDatabase()
    spark.catalog.setCurrentDatabase(name)
    try:
        yield
    finally:
        spark.catalog.setCurrentDatabase(current)
        spark.sql(f"drop database {name} cascade")


@pytest.mark.usefixtures("extension")
def test_random_statements_equal_joins(spark: SparkSession, functions: list[str]) -> None:
    outcomes: Counter[str] = Counter()
    changes: Counter[str] = Counter()
    began = time.monotonic()
    for number in range(-(-CASES // STATEMENTS_PER_TABLE)):
        chosen = random.Random(SEED * 100_000 + number)
        ansi = chosen.random() < 0.7
        generator = Generator(chosen, chosen.choice(list(RANGES)), ansi, functions)
        settings = {
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.ansi.enabled": str(ansi).lower(),
            # Most statements run without generated code, whose compilation takes longer than these queries.
            "spark.sql.codegen.wholeStage": str(number % 8 == 7).lower(),
            "spark.sql.codegen.factoryMode": "FALLBACK" if number % 8 == 7 else "NO_CODEGEN",
            "spark.sql.adaptive.enabled": str(number % 4 == 3).lower(),
        }
        with ExitStack() as stack:
            stack.enter_context(allowing_no_codegen(spark))
            for key, value in settings.items():
                stack.enter_context(setting(spark, key, value))
            stack.enter_context(database(spark, f"statements_{number}"))
            if number % 8 == 0:
                reject_names_that_differ_only_in_case(spark)
            table = Table(spark, generator)
            for step in range(min(STATEMENTS_PER_TABLE, CASES - number * STATEMENTS_PER_TABLE)):
                if chosen.random() < 0.2:
                    changes[table.change_schema()] += 1
                spark.sql(generator.source()).localCheckpoint(eager=False).createOrReplaceTempView("s")
                if chosen.random() < 0.2:
                    changes[fails(spark, *chosen.choice(list(REJECTED.items())))] += 1
                statement = generator.statement()
                try:
                    outcomes[table.check(statement)] += 1
                except BaseException:
                    print(f"\nseed {SEED}, table {number}, statement {step}: {statement.sql}", flush=True)
                    raise
        print(
            f"\n{outcomes.total()} statements of seed {SEED} in {time.monotonic() - began:.0f} s: {dict(outcomes)}, {dict(changes)}",
            flush=True,
        )
    assert outcomes.total() == CASES
