"""Random MERGE INTO, UPDATE and DELETE statements on organized tables, compared with joins over plain tables.

`make test` includes a short run. `make fuzz SEED=7 CASES=1000` takes more statements, and reports the seed and the
number of a failure.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from spark_bucketing.session import setting

SEED = int(os.environ.get("SEED", "1"))
CASES = int(os.environ.get("CASES", "12"))
STATEMENTS_PER_TABLE = 8
Row = tuple[Any, ...]
COLUMNS = ["id", "o", "s", "v", "ds"]
# The type of the range column, and its value for a number n.
RANGES = {
    "int": "cast({n} as int)",
    "string": "concat(char(cast(65 + {n} % 26 as int)), {n})",
    "date": "date_add(date'1950-01-01', cast({n} * 37 as int))",
    "double": "case when {n} % 17 = 0 then double('NaN') when {n} % 13 = 0 then -0.0D when {n} % 11 = 0 then 0.0D else {n} / 7D - 40 end",
    "decimal(20,3)": "cast({n} * 1.125 - 300 as decimal(20,3))",
    "timestamp": "timestamp_micros({n} * 1000001)",
}
IN = "t.id in (select id from s as s2 where s2.s = 2)"


@dataclass
class Clause:
    """A WHEN clause; `values` is None for DELETE, or the new value of each column that it assigns."""

    condition: str
    values: dict[str, str] | None


@dataclass
class Statement:
    sql: str
    on: str
    matched: list[Clause]
    not_matched: list[Clause]
    by_source: list[Clause]


class Generator:
    """Random statements on the table `t`, with the source `s`."""

    def __init__(self, chosen: random.Random, range_type: str) -> None:
        self.random, self.range_type = chosen, range_type

    def value(self, number: str) -> str:
        return RANGES[self.range_type].format(n=number)

    def rows(self, keys: str) -> str:
        """Return a query with one row for each id of a query, with NULLs and equal values."""
        seed = self.random.randrange(10**6)
        n = f"pmod(xxhash64(id, {seed}), 1000)"
        return (
            f"select if(pmod(xxhash64(id, {seed}, 5), 40) = 0, null, id) as id,"
            f" if({n} % 19 = 0, null, {self.value(f'if({n} < 300, 7, {n})')}) as o, cast({n} % 3 as int) as s,"
            f" if({n} % 7 = 0, null, concat('v', {n} % 50)) as v,"
            f" element_at(array('a', 'b', 'c d', '', null), cast(1 + pmod(xxhash64(id, {seed}, 9), 5) as int)) as ds from ({keys})"
        )

    def source(self) -> str:
        low, number = self.random.randrange(150), self.random.choice([1, 5, 20, 70])
        keys = f"select id from range({low}, {low + 2 * number}) where pmod(xxhash64(id, {low}), 2) = 0"
        if self.random.random() < 0.2:
            keys += f" union all select {low + 1}L union all select {low + 1}L"
        return f"select *, element_at(array('U', 'U', 'D'), cast(1 + pmod(xxhash64(id, {low}), 3) as int)) as op from ({self.rows(keys)})"

    def condition(self, sides: str) -> str:
        of_target = [
            "t.s = 1",
            "t.v is null",
            f"t.o > {self.value('500')}",
            "t.ds = 'a'",
            "t.id % 3 = 0",
            "t.o is null",
        ]
        of_source = ["s.op = 'D'", "s.s = 1", "s.v is not null", f"s.o < {self.value('400')}"]
        subquery = [IN, "t.id > (select avg(id) from s)"]
        choices = (of_target if "t" in sides else []) + (of_source if "s" in sides else [])
        choices += subquery if sides == "t" else []
        return self.random.choice(["true", *choices])

    def assigned(self, of_source: bool) -> dict[str, str]:
        if of_source and self.random.random() < 0.4:
            return {name: f"s.{name}" for name in COLUMNS}
        values = {
            "o": ["s.o"] if of_source else [self.value("cast(t.id as int) % 900"), "null"],
            "v": ["s.v", "concat('x', t.v)"] if of_source else ["'set'", "t.ds"],
            "ds": ["s.ds"] if of_source else ["'new'", "t.v"],
            "s": ["t.s + 1", "DEFAULT"],
        }
        names = self.random.sample(list(values), self.random.randint(1, 3))
        return {name: self.random.choice(values[name]) for name in names}

    def inserted(self) -> dict[str, str]:
        if self.random.random() < 0.6:
            return {name: f"s.{name}" for name in COLUMNS}
        return {"id": "s.id", "o": "s.o"} | ({"s": "DEFAULT"} if self.random.random() < 0.5 else {"ds": "'ins'"})

    def statement(self) -> Statement:
        kind = self.random.choices(["merge", "update", "delete"], [8, 2, 2])[0]
        if kind != "merge":
            where = self.condition("t")
            values = self.assigned(of_source=False) if kind == "update" else None
            change = f"update t set {_assignments(values)}" if values else "delete from t"
            return Statement(f"{change} where {where}", where, [Clause("true", values)], [], [])
        keys = [
            "t.id = s.id",
            *self.random.sample(["t.ds = s.ds", "t.o = s.o", "t.s <=> s.s"], self.random.choice([0, 0, 1, 2])),
        ]
        if self.random.random() < 0.2:
            keys.append(self.random.choice(["t.s = 1", f"t.o > {self.value('500')}", "t.ds = 'a'"]))
        if self.random.random() < 0.1:
            keys[0] = "t.id between s.id and s.id + 1"
        matched = [
            Clause(self.condition("ts"), self.random.choice([None, self.assigned(True)]))
            for _ in range(self.random.randint(0, 3))
        ]
        not_matched = [Clause(self.condition("s"), self.inserted()) for _ in range(self.random.randint(0, 2))]
        by_source = [
            Clause(self.condition("t"), self.random.choice([None, self.assigned(False)]))
            for _ in range(self.random.choice([0, 0, 0, 1, 2]))
        ]
        if not matched + not_matched + by_source:
            not_matched = [Clause("true", self.inserted())]
        for clauses in (matched, not_matched, by_source):
            # Spark accepts a clause without a condition only as the last one of its kind.
            for clause in clauses[:-1]:
                clause.condition = "1 = 1" if clause.condition == "true" else clause.condition
        whens = [
            *(
                _when(
                    "matched",
                    clause,
                    "delete" if clause.values is None else f"update set {_assignments(clause.values)}",
                )
                for clause in matched
            ),
            *(
                _when(
                    "not matched",
                    clause,
                    f"insert ({', '.join(clause.values or {})}) values ({', '.join((clause.values or {}).values())})",
                )
                for clause in not_matched
            ),
            *(
                _when(
                    "not matched by source",
                    clause,
                    "delete" if clause.values is None else f"update set {_assignments(clause.values)}",
                )
                for clause in by_source
            ),
        ]
        on = " and ".join(keys)
        return Statement(f"merge into t using s on {on} {' '.join(whens)}", on, matched, not_matched, by_source)


def _assignments(values: dict[str, str]) -> str:
    return ", ".join(f"{name} = {value}" for name, value in values.items())


def _when(kind: str, clause: Clause, action: str) -> str:
    return f"when {kind}{'' if clause.condition == 'true' else f' and {clause.condition}'} then {action}"


@dataclass
class Expected:
    """The rows of the table after a statement, the numbers of changed rows, and the most source rows of one row."""

    rows: list[Row]
    updated: int
    deleted: int
    inserted: int
    copies: int


def expected(spark: SparkSession, statement: Statement) -> Expected:
    """Compute the outcome of a statement on the view `r` with joins."""
    is_merge = statement.sql.startswith("merge")
    present = "coalesce(s.here, false)" if is_merge else f"coalesce({_stock(statement.on)}, false)"
    actions = [(present, clause) for clause in statement.matched]
    actions += [(f"not {present}", clause) for clause in statement.by_source]
    action = _first(f"{applies} and coalesce({_stock(clause.condition)}, false)" for applies, clause in actions)
    source = f"left join (select *, true as here from s) as s on {_stock(statement.on)}" if is_merge else ""
    changed = [clause.values or {} for _, clause in actions]
    joined = spark.sql(
        f"select {', '.join(_column(name, changed, f't.{name}') for name in COLUMNS)}, action, t.n from ("
        f"select struct(t.*) as t, {'struct(s.*)' if is_merge else 'struct(false as here)'} as s, {action} as action"
        f" from (select *, monotonically_increasing_id() as n from r) as t {source})"
    ).collect()
    inserts = [clause.values or {} for clause in statement.not_matched]
    insert = _first(f"coalesce({clause.condition}, false)" for clause in statement.not_matched)
    values = (_column(name, [{name: "DEFAULT"} | values for values in inserts], "null") for name in COLUMNS)
    added = (
        f"select {', '.join(values)}"
        f" from (select struct(s.*) as s, {insert} as action from s left anti join r as t on {_stock(statement.on)}) where action > 0"
    )
    new = spark.sql(added).collect() if inserts else []
    deletes = {number for number, (_, clause) in enumerate(actions, 1) if clause.values is None}
    # Without actions for matched rows, several source rows may match one row of the table.
    of_row = {row.n: row for row in joined}.values()
    kept = [row for row in of_row if row.action not in deletes]
    return Expected(
        [tuple(row[: len(COLUMNS)]) for row in [*kept, *new]],
        updated=sum(row.action > 0 for row in kept),
        deleted=len(of_row) - len(kept),
        inserted=len(new),
        copies=max(Counter(row.n for row in joined).values(), default=0),
    )


def _column(name: str, changes: list[dict[str, str]], other: str) -> str:
    whens = [
        f"when action = {i + 1} then {_default(name, values[name])}"
        for i, values in enumerate(changes)
        if name in values
    ]
    value = " ".join(["case", *whens, "else", other, "end"]) if whens else other
    return f"{value} as {name}"


def _first(conditions: Iterable[str]) -> str:
    whens = [f"when {condition} then {i + 1}" for i, condition in enumerate(conditions)]
    return f"case {' '.join(whens)} else 0 end" if whens else "0"


def _default(name: str, value: str) -> str:
    return ("7" if name == "s" else "null") if value == "DEFAULT" else value


def _stock(condition: str) -> str:
    """Replace an IN subquery, which stock Spark accepts only in filters."""
    return condition.replace(IN, "array_contains((select collect_list(id) from s as s2 where s2.s = 2), t.id)")


@contextmanager
def tables(spark: SparkSession, generator: Generator, database: str) -> Iterator[str]:
    """Create an organized table `t` and a view `r` with the same rows, and return the partitioning of `t`."""
    chosen = generator.random
    layout = {"'bucketing.range_by'": "'[\"o\"]'", "'bucketing.rows_per_file'": f"'{chosen.choice([5, 12, 50])}'"}
    if chosen.random() < 0.4:
        layout["'bucketing.implicit_partition_by'"] = "'[\"s\"]'"
    by = "partitioned by (ds)" if chosen.random() < 0.6 else ""
    formats = ["parquet", "parquet", "orc"] if generator.range_type != "timestamp" else ["parquet"]
    file_format = chosen.choice(formats)
    properties = ", ".join(f"{key}={value}" for key, value in layout.items())
    columns = f"id bigint, o {generator.range_type}, s int default 7, v string, ds string"
    spark.sql(f"create database {database}")
    current = spark.catalog.currentDatabase()
    spark.catalog.setCurrentDatabase(database)
    try:
        spark.sql(f"create table t ({columns}) using {file_format} {by} tblproperties ({properties})")
        store(
            spark,
            [
                tuple(row)
                for row in spark.sql(generator.rows(f"select id from range({chosen.choice([0, 30, 150])})")).collect()
            ],
            by,
        )
        spark.sql("merge into t using (select id, o, s, v, ds from r) as s on false when not matched then insert *")
        yield by
    finally:
        spark.catalog.setCurrentDatabase(current)
        spark.sql(f"drop database {database} cascade")


def store(spark: SparkSession, rows: list[Row], by: str) -> list[Row]:
    """Create the view `r` of rows as `t` stores them. A partition column stores the empty string as NULL."""
    stored = [(*row[:-1], row[-1] or None) if by else row for row in rows]
    spark.createDataFrame(stored, spark.table("t").schema).coalesce(1).createOrReplaceTempView("r")
    return stored


def text(rows: Iterable[Row]) -> list[str]:
    """Return rows in an order and a form in which equal values of Spark are equal, such as NaN, and -0.0 and 0.0."""
    return sorted(str([value + 0.0 if isinstance(value, float) else value for value in row]) for row in rows)


def check(spark: SparkSession, statement: Statement, by: str) -> str:
    """Run a statement, compare it with the joins, and return its outcome."""
    after = expected(spark, statement)
    is_plain_delete = [(clause.condition, clause.values) for clause in statement.matched] == [("true", None)]
    if after.copies > 1 and statement.matched and not is_plain_delete:
        with pytest.raises(PySparkException, match="MERGE_CARDINALITY_VIOLATION"):
            spark.sql(statement.sql).collect()
        rows, outcome = [tuple(row) for row in spark.table("r").collect()], "cardinality error"
    else:
        rows, outcome = store(spark, after.rows, by), statement.sql.split()[0]
        found = tuple(spark.sql(statement.sql).collect()[0])
        numbers = (after.updated, after.deleted, after.inserted)
        assert found == (sum(numbers), *numbers)[: len(found)]
    for enabled in ("true", "false"):
        with setting(spark, "spark.bucketing.enabled", enabled):
            spark.sql("refresh table t")
            read = spark.sql(f"select {', '.join(COLUMNS)}, _metadata.file_path as path from t").collect()
            assert text(row[:-1] for row in read) == text(rows)
    known = spark.sql(
        "select path, rows, nulls, lower.o as lower, upper.o as upper from file_statistics('t')"
    ).collect()
    assert text(known) == text(statistics(read)), "the file statistics differ from the files"
    return outcome


def statistics(rows: Iterable[Any]) -> Iterator[Row]:
    """Return the path, the row count, the NULL count, the minimum and the maximum of each file."""
    files: dict[str, list[Any]] = {}
    for row in rows:
        files.setdefault(row.path, []).append(row.o)
    for path, values in files.items():
        # Spark sorts NaN last.
        sorted_values = sorted(
            (value for value in values if value is not None), key=lambda value: (value != value, value)
        )
        nulls = len(values) - len(sorted_values)
        yield (path, len(values), nulls, *([sorted_values[0], sorted_values[-1]] if sorted_values else [None, None]))


@pytest.mark.usefixtures("extension")
def test_random_statements_equal_joins(spark: SparkSession) -> None:
    outcomes: Counter[str] = Counter()
    for number in range(-(-CASES // STATEMENTS_PER_TABLE)):
        chosen = random.Random(SEED * 100_000 + number)
        generator = Generator(chosen, chosen.choice(list(RANGES)))
        with (
            setting(spark, "spark.sql.shuffle.partitions", "2"),
            # Most statements run without generated code, whose compilation takes longer than these queries.
            setting(spark, "spark.sql.codegen.wholeStage", str(number % 8 == 7).lower()),
            setting(spark, "spark.sql.adaptive.enabled", str(number % 4 == 3).lower()),
            tables(spark, generator, f"statements_{number}") as by,
        ):
            for step in range(min(STATEMENTS_PER_TABLE, CASES - number * STATEMENTS_PER_TABLE)):
                spark.sql(generator.source()).localCheckpoint().createOrReplaceTempView("s")
                statement = generator.statement()
                try:
                    outcomes[check(spark, statement, by)] += 1
                except BaseException:
                    print(f"\nseed {SEED}, table {number}, statement {step}: {statement.sql}", flush=True)
                    raise
        print(f"\n{outcomes.total()} statements of seed {SEED}: {dict(outcomes)}", flush=True)
    assert outcomes.total() == CASES
