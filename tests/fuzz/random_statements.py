"""Random MERGE INTO, UPDATE and DELETE statements on the table `t`, with the source `s`."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

# The type of the range column, and its value for a number n.
RANGES = {
    "int": "cast({n} as int)",
    "string": "concat(char(cast(65 + {n} % 26 as int)), {n})",
    "date": "date_add(date'1950-01-01', cast({n} * 37 as int))",
    "double": "case when {n} % 17 = 0 then double('NaN') when {n} % 13 = 0 then -0.0D when {n} % 11 = 0 then 0.0D else {n} / 7D - 40 end",
    "decimal(20,3)": "cast({n} * 1.125 - 300 as decimal(20,3))",
    "timestamp": "timestamp_micros({n} * 1000001)",
}
TYPES = {"id": "bigint", "o": "", "s": "int", "v": "string", "c": "char(3)", "w": "varchar(4)"}
TYPES |= {"st": "struct<a:int,b:string>", "ds": "string", "d": "date"}
# Columns to add: the type, the default, and a value of the source.
ADDED = [
    ("int", "5", "cast({n} % 9 as int)"),
    ("string", "'new'", "if({n} % 5 = 0, null, 'x')"),
    ("decimal(10,2)", "1.5", "cast({n} % 4 as decimal(10,2))"),
    ("date", None, "date_add(date'2000-01-01', cast({n} as int))"),
    ("varchar(4)", None, "if({n} % 5 = 0, null, 'wxyz')"),
]
LIST = "(select collect_list(id) from s as s2 where {0})"
# Conditions that stock Spark accepts only in filters or compares in another way, and the same conditions of plain tables.
PLAIN = {
    "t.id in (select id from s as s2 where s2.s = 2)": f"array_contains({LIST}, t.id)".format("s2.s = 2"),
    "exists (select 1 from s as s2 where s2.id = t.id and s2.s = 1)": f"coalesce(array_contains({LIST}, t.id), false)".format(
        "s2.s = 1"
    ),
    "t.id not in (select id from s as s2 where s2.s = 0 and id is not null)": (
        f"if(size({LIST}) = 0, true, not array_contains({LIST}, t.id))".format("s2.s = 0")
    ),
    "t.c = 'x'": "t.c = 'x  '",
}
# Spark finds no file metadata in Hive tables with CHAR columns.
METADATA = r"Cannot change rows of .*\.\n  found:    a column of _metadata|UNRESOLVED_COLUMN.*_metadata"
# The errors of statements that Spark or the extension rejects before they run.
REJECTED = {
    "update t set s = v": "CANNOT_SAFELY_CAST",
    "update t set s = 'x'": "CANNOT_SAFELY_CAST",
    "update t set s = 1, s = 2": "INVALID_ROW_LEVEL_OPERATION_ASSIGNMENTS|ASSIGNMENTS",
    "update t set missing = 1": "UNRESOLVED_COLUMN",
    "update t set s = cast(10 * rand() as int)": "INVALID_NON_DETERMINISTIC_EXPRESSIONS",
    "update t set s = 1 where _metadata.file_size > 0": METADATA,
    "delete from t where _metadata.file_name = 'x'": METADATA,
    "update t set s = int(twice(id))": "UNSUPPORTED_SQL_UDF_USAGE|UNRESOLVED_ROUTINE",
    "delete from t where twice(id) > 1": "UNSUPPORTED_SQL_UDF_USAGE|UNRESOLVED_ROUTINE",
    "merge into t using s on t.id = s.id when matched and twice(t.id) > 1 then delete": (
        "UNSUPPORTED_SQL_UDF_USAGE|UNRESOLVED_ROUTINE"
    ),
    "merge into t using s on t.id = s.id and py_same(t.id + s.s) = 1 when matched then delete": "PYTHON_UDF_IN_ON_CLAUSE",
    "delete from of_t where id = 1": r"Cannot change rows of .*of_t`\.\n  found:    a view",
    "merge into t using s on t.id = s.id when matched then update set s = s.v": "CANNOT_SAFELY_CAST",
    "merge into t using s on t.id = s.id when matched and missing = 1 then delete": "UNRESOLVED_COLUMN",
    "merge into of_t as t using s on t.id = s.id when matched then delete": r"Cannot change rows of .*of_t`\.\n  found:    a view",
    "merge with schema evolution into t using s on t.id = s.id when not matched then insert *": (
        "found:    WITH SCHEMA EVOLUTION|PARSE_SYNTAX_ERROR"
    ),
}


@dataclass(frozen=True)
class Value:
    """An assigned value.

    Args:
        plain: the value that a plain table gets, if it differs; it has the type of the column.
        error: the error if a row gets the value.
    """

    sql: str
    plain: str = ""
    error: str = ""


@dataclass
class Clause:
    """A WHEN clause; `values` is None for DELETE, or the new value of each column or field that it assigns."""

    condition: str
    values: dict[str, Value] | None
    star: bool = False


@dataclass
class Statement:
    sql: str
    on: str
    matched: list[Clause]
    not_matched: list[Clause] = field(default_factory=list)
    by_source: list[Clause] = field(default_factory=list)


class Generator:
    """Random statements on a table. `types` and `defaults` describe its columns."""

    def __init__(
        self, chosen: random.Random, range_type: str, ansi: bool, functions: list[str], has_defaults: bool = True
    ) -> None:
        self.random, self.range_type, self.ansi, self.functions = chosen, range_type, ansi, functions
        self.types = TYPES | {"o": range_type}
        self.has_defaults = has_defaults
        self.defaults = {"s": "7"} if has_defaults else {}
        self.added: dict[str, str] = {}

    def value(self, number: str) -> str:
        return RANGES[self.range_type].format(n=number)

    def add_column(self) -> str:
        """Add a column, and return its definition."""
        name, (data_type, default, value) = f"x{len(self.added)}", self.random.choice(ADDED)
        self.types[name], self.added[name] = data_type, value
        if default and self.has_defaults:
            self.defaults[name] = default
        return self.definition(name)

    def definition(self, name: str) -> str:
        """Return the definition of a column in the DDL."""
        return f"{name} {self.types[name]}{f' default {self.defaults[name]}' if name in self.defaults else ''}"

    def rows(self, keys: str) -> str:
        """Return a query with one row for each id of a query, with NULLs and equal values."""
        seed = self.random.randrange(10**6)
        n = f"pmod(xxhash64(id, {seed}), 1000)"
        values = {
            "id": f"if(pmod(xxhash64(id, {seed}, 5), 40) = 0, null, id)",
            "o": f"if(n % 19 = 0, null, {self.value('if(n < 300, 7, n)')})",
            "s": "cast(n % 3 as int)",
            "v": "if(n % 7 = 0, null, concat('v', n % 50))",
            "c": "rpad(if(n % 8 = 0, null, element_at(array('x', 'yy', 'zzz'), cast(1 + n % 3 as int))), 3, ' ')",
            "w": "if(n % 9 = 0, null, concat('w', n % 100))",
            "st": "if(n % 10 = 0, null, named_struct('a', cast(n % 4 as int), 'b', concat('b', n % 3)))",
            "ds": f"element_at(array('a', 'b', 'c d', '', null), cast(1 + pmod(xxhash64(id, {seed}, 9), 5) as int))",
            "d": "if(n % 11 = 0, null, date_add(date'2024-01-30', cast(n % 3 as int)))",
            **{name: value.format(n="n") for name, value in self.added.items()},
        }
        columns = ", ".join(f"{value} as {name}" for name, value in values.items())
        return f"select {columns} from (select id, {n} as n from ({keys}))"

    def source(self) -> str:
        low, number = self.random.randrange(100), self.random.choice([1, 5, 20, 50])
        keys = f"select id from range({low}, {low + 2 * number}, 1, 1) where pmod(xxhash64(id, {low}), 2) = 0"
        if self.random.random() < 0.2:
            keys = f"select explode(array({low + 1}L, {low + 1}L, {low + 3}L)) as id"
        return f"select *, element_at(array('U', 'U', 'D'), cast(1 + pmod(xxhash64(id, {low}), 3) as int)) as op from ({self.rows(keys)})"

    def condition(self, sides: str) -> str:
        of_target = [
            *("t.s = 1", "t.v is null", "t.ds = 'a'", "T.ID % 3 = 0", "t.o is null", "t.c = 'x'", "t.w like 'w1%'"),
            *(
                "t.d = date'2024-01-31'",
                "t.d is null",
                "t.id in (3, 11, 40)",
                "t.v = 'v7' and t.s = 1",
                "t.id <=> null",
            ),
            *("t.st.a > 1", "t.st is null", "int(t.s) = 1", "upper(t.v) > 'V3'", f"t.o > {self.value('500')}"),
            *(call.format("t.id") for call in self.functions),
            "py_text(t.ds) = 'a'",
        ]
        of_source = [
            *("s.op = 'D'", "s.s = 1", "s.v is not null", f"s.o < {self.value('400')}", "s.st.b = 'b1'", "s.d is null"),
            *(call.format("s.id") for call in self.functions),
        ]
        subquery = [*list(PLAIN)[:3], "t.id > (select avg(id) from s)"]
        both = ["t.v = s.v", "t.st = s.st", *(call.format("t.id + s.s") for call in self.functions)]
        choices = (of_target if "t" in sides else []) + (of_source if "s" in sides else [])
        # Each group has the same weight.
        groups = [["true"], choices, choices, {"t": subquery, "ts": both}.get(sides, choices)]
        return self.random.choice(self.random.choice(groups))

    def assigned(self, of_source: bool) -> dict[str, Value]:
        side = "s" if of_source else "t"
        values: dict[str, list[Value]] = {
            "id": [Value("s.id")] if of_source else [Value("t.id + 1")],
            "o": [Value("s.o")] if of_source else [Value(self.value("cast(t.id as int) % 900")), Value("null")],
            "v": [Value(f"{side}.v"), Value("concat('x', t.v)"), Value("t.id"), Value("12")],
            "ds": [Value("s.ds")] if of_source else [Value("'new'"), Value("t.v")],
            "d": [Value(f"{side}.d"), Value("date'2024-02-02'"), Value("date_add(t.d, 1)"), Value("null")],
            "s": [Value("t.s + 1"), Value("DEFAULT"), *self._numbers(side)],
            "c": [Value("'ab'"), Value(f"{side}.c"), Value(f"rpad({side}.c, 9, ' ')", f"{side}.c"), _too_long(side)],
            "w": [Value("'abcd'"), Value("'ab     '", "'ab  '"), Value("12"), _too_long(side)],
            "st": [
                Value(f"{side}.st"),
                Value(f"named_struct('b', {side}.v, 'a', t.s)", f"named_struct('a', t.s, 'b', {side}.v)"),
                Value("null"),
            ],
            "st.a": [Value(f"{side}.s"), Value("int('3')"), Value(f"smallint({side}.s)")],
            "st.b": [Value(f"{side}.v"), Value(f"{side}.st.a")],
            **{name: [Value("DEFAULT"), *([Value(f"s.{name}")] if of_source else [])] for name in self.added},
        }
        names = self.random.sample(list(values), self.random.randint(1, 3))
        if "st" in names:
            names = [name for name in names if "." not in name]
        return {name: self._one(values[name]) for name in names}

    def _one(self, values: list[Value]) -> Value:
        """Choose a value; most statements have no error."""
        value = self.random.choice(values)
        return value if not value.error or self.random.random() < 0.4 else values[0]

    def _numbers(self, side: str) -> list[Value]:
        """Return values of the column `s`, with casts by name, by CAST and by store assignment."""
        text = f"concat('x', coalesce({side}.v, ''))"
        fails = "" if not self.ansi else "CAST_INVALID_INPUT"
        return [
            Value(f"int(substr({side}.v, 2))", "", "") if not self.ansi else Value(f"int({side}.s)"),
            Value("int('4')"),
            Value(f"cast({side}.id % 7 as int)"),
            Value(f"{side}.id % 7"),
            Value(f"bigint({side}.s)"),
            Value(f"{side}.s + 0.6D", f"cast({side}.s + 0.6D as int)"),
            Value(f"3000000000 + coalesce({side}.s, 1)", "null", "CAST_OVERFLOW_IN_TABLE_INSERT"),
            Value(f"int({text})", "null", fails),
            Value(f"cast({text} as int)", "null", fails),
            Value(
                f"1 div (coalesce({side}.s, 1) - coalesce({side}.s, 1))",
                "null",
                "DIVIDE_BY_ZERO|CAST_OVERFLOW_IN_TABLE_INSERT" if self.ansi else "",
            ),
        ]

    def updates(self, condition: str, of_source: bool) -> Clause:
        if of_source and self.random.random() < 0.4:
            return Clause(condition, {name: Value(f"s.{name}") for name in self.types}, star=self.random.random() < 0.5)
        return Clause(condition, self.assigned(of_source))

    def inserts(self, condition: str) -> Clause:
        if self.random.random() < 0.6:
            return Clause(condition, {name: Value(f"s.{name}") for name in self.types}, star=self.random.random() < 0.5)
        values = {"id": Value("s.id"), "o": Value("s.o")}
        others = [
            {"s": Value("DEFAULT")},
            {"ds": Value("'ins'"), "c": Value("s.c"), "d": Value("s.d")},
            {"s": self._one(self._numbers("s"))},
        ]
        others += [
            {
                "st": Value("named_struct('b', s.v, 'a', s.s)", "named_struct('a', s.s, 'b', s.v)"),
                "w": self._one([Value("'w'"), _too_long("s")]),
            }
        ]
        return Clause(condition, values | self.random.choice(others))

    def statement(self) -> Statement:
        kind = self.random.choices(["merge", "update", "delete"], [8, 2, 2])[0]
        if kind == "merge":
            return self._merge()
        where = self.condition("t")
        clause = self.updates("true", of_source=False) if kind == "update" else Clause("true", None)
        change = f"update t set {_assignments(clause)}" if clause.values else "delete from t"
        return Statement(f"{change} where {where}", where, [clause])

    def _merge(self) -> Statement:
        others = ["t.ds = s.ds", "t.o = s.o", "t.s <=> s.s", "t.c = s.c", "t.st.a = s.st.a", "t.d = s.d", "t.v = s.v"]
        keys = [
            self.random.choices(
                ["t.id = s.id", "t.id <=> s.id", "t.id between s.id and s.id + 1", "t.id = py_same(s.id)"],
                [14, 2, 2, 1],
            )[0],
            *self.random.sample(others, self.random.choice([0, 0, 1, 2])),
        ]
        if self.random.random() < 0.2:
            others = ["t.s = 1", f"t.o > {self.value('500')}", "t.ds = 'a'", "t.c = 'x'", "py_text(t.ds) = 'a'"]
            keys.append(self.random.choice(others))
        matched = [self._or_delete("ts", of_source=True) for _ in range(self.random.randint(0, 3))]
        not_matched = [self.inserts(self.condition("s")) for _ in range(self.random.randint(0, 2))]
        by_source = [self._or_delete("t", of_source=False) for _ in range(self.random.choice([0, 0, 0, 1, 2]))]
        if not matched + not_matched + by_source:
            not_matched = [self.inserts("true")]
        for clauses in (matched, not_matched, by_source):
            # Spark accepts a clause without a condition only as the last one of its kind.
            clauses[:-1] = [replace(one, condition="1 = 1") if one.condition == "true" else one for one in clauses[:-1]]
        whens = [
            *(_when("matched", clause, _change(clause)) for clause in matched),
            *(_when("not matched", clause, _insert(clause)) for clause in not_matched),
            *(_when("not matched by source", clause, _change(clause)) for clause in by_source),
        ]
        on = " and ".join(keys)
        return Statement(f"merge into t using s on {on} {' '.join(whens)}", on, matched, not_matched, by_source)

    def _or_delete(self, sides: str, of_source: bool) -> Clause:
        condition = self.condition(sides)
        return Clause(condition, None) if self.random.random() < 0.5 else self.updates(condition, of_source)


def _too_long(side: str) -> Value:
    return Value(f"concat('longer', coalesce({side}.v, ''))", "null", "EXCEED_LIMIT_LENGTH")


def _assignments(clause: Clause) -> str:
    return ", ".join(f"{name} = {value.sql}" for name, value in (clause.values or {}).items())


def _change(clause: Clause) -> str:
    if clause.values is None:
        return "delete"
    return "update set *" if clause.star else f"update set {_assignments(clause)}"


def _insert(clause: Clause) -> str:
    values = clause.values or {}
    return (
        "insert *"
        if clause.star
        else f"insert ({', '.join(values)}) values ({', '.join(one.sql for one in values.values())})"
    )


def _when(kind: str, clause: Clause, action: str) -> str:
    return f"when {kind}{'' if clause.condition == 'true' else f' and {clause.condition}'} then {action}"


def plain(condition: str) -> str:
    """Return a condition of plain tables that is equal to a condition of a statement."""
    for text, other in PLAIN.items():
        condition = condition.replace(text, other)
    return condition


def first(conditions: Iterable[str]) -> str:
    """Return the number of the first condition that is true, from 1, or 0."""
    whens = [f"when {condition} then {i + 1}" for i, condition in enumerate(conditions)]
    return f"case {' '.join(whens)} else 0 end" if whens else "0"
