"""Generate random tables, valid or damaged, and random queries; the same seed gives the same tables and queries."""

from __future__ import annotations

import os
import random
from collections import Counter
from dataclasses import dataclass

from broken_files import BREAKAGES, Files
from broken_seals import PARTITION_BREAKAGES, SEAL_BREAKAGES, Seals
from bucketed_tables import VERSION_2, Tables
from partition_specs import put_field_ids
from pyspark.errors import AnalysisException

# The share of tables with mixed bucket specs; most of these tables are damaged.
EVOLVED = float(os.environ.get("EVOLVED", "0.3"))
# The share of tables with few sorted buckets, which the planner divides into ranges; none of them is damaged.
DIVIDED = float(os.environ.get("DIVIDED", "0.2"))
# The starts of the layouts to generate: `hive2` for only tables in bucketing version 2; all layouts by default.
LAYOUT = tuple(os.environ.get("LAYOUT", "").split(","))
COLUMNS = {
    "k": ("int", "if(id % 23 = 0, null, cast(pmod(id * {a} + {b}, {m}) - 20 as int))"),
    "t": ("string", "if(id % 19 = 0, null, concat(if(id % 4 = 0, ' ', ''), 'é', pmod(id * {b} + {a}, {m})))"),
    "l": ("bigint", "pmod(id * {a}, {m}) * 3000000000 - 40000000000"),
    "d": ("date", "date_add(date'1969-12-01', cast(pmod(id + {b}, {m}) as int))"),
    "n": ("decimal(9,2)", "cast(pmod(id * {b}, {m}) / 4 as decimal(9,2))"),
    "v": ("double", "if(id % 31 = 0, null, id / 8)"),
}
# How to write rows: with the extension, which seals them, or with stock Spark in this many tasks, sealed afterwards or
# not.
FILLS = ("extension",) * 4 + ("stock sealed",) * 3 + ("1 sealed", "3 sealed", "stock")
# Statements to run after all damage.
CURES = ("",) * 4 + ("seal", "append", "overwrite")
KEYS = ("k", "k", "k", "t", "l", "d", "n")
# Layouts and formats; hive2 is the Hive layout in bucketing version 2. Other formats are not sealed. Only tables in
# EVOLVABLE change their specs or get damaged.
SEALED = ("parquet", "orc")
EVOLVABLE = ("hive parquet",) * 3 + ("hive orc", "hive orc") + ("hive2 parquet",) * 3 + ("hive2 orc", "hive2 orc")
LAYOUTS = (*EVOLVABLE, "hive textfile", "spark parquet", "spark parquet", "spark orc", "spark json", "spark csv")
# Stock Spark assigns buckets before CSV trims strings, so bucket pruning would miss trimmed rows.
OPTIONS = {
    "spark csv": " options (ignoreLeadingWhiteSpace 'false', ignoreTrailingWhiteSpace 'false')",
    "hive2 parquet": f" {VERSION_2}",
    "hive2 orc": f" {VERSION_2}",
}
SCHEMA = ", ".join(f"{name} {sql_type}" for name, (sql_type, _) in COLUMNS.items())
# With these settings and eight cores, a query divides buckets wherever it can.
DIVIDES = {
    f"spark.bucketing.read.{name}": value
    for name, value in (("rangeBytes", "1"), ("mergeFiles", "64"), ("partitionBytes", "0"))
}
DIVIDES["spark.sql.autoBroadcastJoinThreshold"] = "-1"
CONDITIONS = ("",) * 3 + (
    " where k > 5", " where t is not null", " where (k = 7 or k is null)", " where l <> 0 and v > 2", " where k in (1, 2, 33)",
)  # fmt: skip
AGGREGATES = ("count(*), min(v), max(t)", "count(distinct v)", "count(distinct t), sum(cast(v as decimal(20,4)))")
LITERALS = {
    "k": ("7", "-3", "null"),
    "t": ("'é3'", "''", "'é40'"),
    "l": ("0", "-40000000000", "5"),
    "d": ("date'1969-12-03'", "date'1970-02-01'", "null"),
    "n": ("1.25", "0", "2"),
}


@dataclass(frozen=True)
class Table:
    """A generated table, and its damage."""

    name: str
    keys: tuple[str, ...]
    buckets: int
    sorted_by: str
    layout: str
    fills: tuple[str, ...]
    partitioned: bool
    numbered: str
    evolved: tuple[tuple[str, int], ...]
    breakage: str
    seals: tuple[str, ...]
    cure: str

    @property
    def is_broken(self) -> bool:
        return self.breakage != "none" or bool(self.seals)

    @property
    def is_sealable(self) -> bool:
        return self.layout.endswith(SEALED)


@dataclass(frozen=True)
class Query:
    """A query, and the number of rows in its LIMIT, if any."""

    rows: str
    limit: int | None = None

    @property
    def text(self) -> str:
        return self.rows if self.limit is None else f"{self.rows} limit {self.limit}"

    def is_answered(self, found: list[str], all_rows: list[str]) -> bool:
        """Return whether rows are a correct result, given all rows without the LIMIT."""
        if self.limit is None:
            return found == all_rows
        return len(found) == min(self.limit, len(all_rows)) and not Counter(found) - Counter(all_rows)


class Generator:
    """Generates tables and queries from a seed."""

    def __init__(self, tables: Tables, seed: int) -> None:
        self.tables, self.random = tables, random.Random(seed)
        # If all tables are divided, they have the same key, so that most queries divide buckets.
        self.key = self.random.choice(KEYS) if DIVIDED == 1 else None

    def table(self, name: str, others: list[str]) -> Table:
        """Create a table, fill it, and possibly damage it."""
        pick = self.random
        if pick.random() < DIVIDED:
            return self._divided(name)
        keys = tuple(dict.fromkeys(pick.choice(KEYS) for _ in range(pick.choice((1, 1, 1, 2)))))
        evolves = pick.random() < EVOLVED
        layouts = [layout for layout in (EVOLVABLE if evolves else LAYOUTS) if layout.startswith(LAYOUT)]
        layout, partitioned = pick.choice(layouts), evolves or pick.random() < 0.3
        hive = layout in EVOLVABLE
        breakage = pick.choice(BREAKAGES) if hive else "none"
        breakages = SEAL_BREAKAGES[:9] if not hive else SEAL_BREAKAGES + PARTITION_BREAKAGES * partitioned
        # A table with another bucketing version cannot be altered.
        breakable = breakage != "version" and pick.random() < 0.25 and layout.endswith(SEALED)
        sorted_by_text = ", ".join(dict.fromkeys((*keys, "t")))
        made = Table(
            name=name,
            keys=keys,
            buckets=pick.choice((1, 2, 4, 4, 4, 8, 8, 6, 12)),
            sorted_by=pick.choice((", ".join(keys), ", ".join(keys), ", ".join((*keys, "v")), sorted_by_text, "v", "")),
            layout=layout,
            fills=tuple(pick.choice(FILLS) for _ in range(3 if evolves else pick.choice((1, 1, 2, 2, 3)))),
            partitioned=partitioned,
            # In the Spark layout, stock Spark relies on buckets even if it reads the bucket columns as NULL.
            numbered=pick.choice(("", "", "", "", "first", "last") if layout.startswith("hive") else ("",)),
            evolved=self._evolution(keys) if evolves else (),
            breakage=breakage,
            seals=tuple(pick.sample(breakages, pick.choice((1, 1, 2)))) if breakable else (),
            cure=pick.choice(CURES) if hive else "",
        )
        self._make(made)
        if made.breakage != "none":
            Files(self.tables, pick, name, made.buckets).damage(made.breakage)
        for how in made.seals:
            broken_keys = tuple(dict.fromkeys((*keys, *KEYS)))
            Seals(self.tables, pick, name, self._rows(), broken_keys, others).damage(how)
        self._cure(made)
        return made

    def _divided(self, name: str) -> Table:
        pick = self.random
        key = self.key or pick.choice(KEYS)
        layouts = [layout for layout in (*EVOLVABLE, "spark parquet") if layout.startswith(LAYOUT)]
        made = Table(
            name, (key,), pick.choice((1, 2, 2, 4)), key, pick.choice(layouts), ("extension",) * pick.choice((1, 1, 2)),
            pick.random() < 0.2, "", (), "none", (), "",
        )  # fmt: skip
        self._make(made)
        return made

    def _cure(self, table: Table) -> None:
        """Run a statement that may repair or further damage the table; Spark may refuse it because of the damage."""
        into = " partition (p = 'x')" if table.partitioned else ""
        statement = {
            "seal": f"alter table {table.name} seal buckets",
            "append": f"insert into {table.name}{into} {self._rows()}",
            "overwrite": f"insert overwrite {table.name}{into} {self._rows()}",
        }.get(table.cure)
        try:
            if statement:
                self.tables.sql(statement)
        except AnalysisException:
            if not (table.breakage == "version" or set(table.seals) & {"not clustered", "reordered"}):
                raise

    def _evolution(self, keys: tuple[str, ...]) -> tuple[tuple[str, int], ...]:
        """Choose specs for the second and third partition: mostly other bucket counts, sometimes other columns."""
        pick = self.random
        return tuple(
            (", ".join(keys) if pick.random() < 0.8 else pick.choice(KEYS), pick.choice((2, 4, 8, 12)))
            for _ in range(2)
        )

    def _make(self, table: Table) -> None:
        kind, file_format = table.layout.split()
        # If `sorted_by` is empty, the table has no sort columns.
        self.tables.make(
            table.name,
            SCHEMA,
            ", ".join(table.keys),
            table.buckets,
            sorted_by=table.sorted_by,
            stored=f"{'using' if kind == 'spark' else 'stored as'} {file_format}{OPTIONS.get(table.layout, '')}",
            rest="partitioned by (p string)" if table.partitioned else "",
        )
        by, buckets = ", ".join(table.keys), table.buckets
        if table.numbered == "first":
            put_field_ids(self.tables, table.name)
        for number, fill in enumerate(table.fills):
            if number and table.evolved:
                by, buckets = table.evolved[number - 1]
                self.tables.sql(f"alter table {table.name} clustered by ({by}) sorted by ({by}) into {buckets} buckets")
            self._fill(table, fill, number, by, buckets)
        if table.numbered == "last":
            put_field_ids(self.tables, table.name, self.random.choice((1, 2)))

    def _fill(self, table: Table, fill: str, number: int, by: str, buckets: int) -> None:
        rows = self._rows()
        if table.partitioned:
            partition = number if table.evolved else self.random.randrange(number + 1)
            rows = f"select *, '{'xyz'[partition]}' as p from ({rows})"
        how, _, sealed = fill.partition(" ")
        seal = bool(sealed) and table.is_sealable
        if how == "extension":
            self.tables.sql(f"insert into {table.name} {rows}")
        elif how == "stock" and not table.layout.startswith("hive "):
            # In the Spark layout, stock Spark distributes rows over tasks and over buckets with the same hash. It writes
            # buckets in version 1 into tables that state version 2.
            tasks = f"{buckets}, {by}" if table.layout.startswith("spark") else "1"
            self.tables.sql(f"stock:insert into {table.name} select /*+ REPARTITION({tasks}) */ * from ({rows})")
            if seal:
                self.tables.seal(table.name)
        else:
            files = 1 if how == "stock" else int(how)
            self.tables.fill(table.name, rows, files=files, sealed=seal)

    def _rows(self) -> str:
        pick = self.random
        numbers = {"a": pick.choice((1, 3, 7)), "b": pick.randrange(9), "m": pick.choice((1, 5, 60, 300))}
        columns = ", ".join(f"{sql.format(**numbers)} as {name}" for name, (_, sql) in COLUMNS.items())
        return f"select {columns} from range({pick.choice((150, 600) if self.key else (0, 3, 60, 150, 600))})"

    def settings(self) -> dict[str, str]:
        """Choose settings of Spark and of the extension for one query."""
        pick = self.random.choice
        return {
            "spark.sql.adaptive.enabled": pick(("true", "true", "false")),
            "spark.sql.autoBroadcastJoinThreshold": pick(("-1", "-1", "-1", "10485760")),
            # With little data, interpreting a plan is faster than compiling code for it.
            "spark.sql.codegen.wholeStage": pick(("true", "false", "false", "false")),
            "spark.sql.codegen.factoryMode": pick(("FALLBACK", "NO_CODEGEN", "NO_CODEGEN", "NO_CODEGEN")),
            "spark.sql.join.preferSortMergeJoin": pick(("true", "false")),
            "spark.sql.parquet.enableVectorizedReader": pick(("true", "true", "false")),
            "spark.sql.parquet.columnarReaderBatchSize": pick(("1", "3", "4096")),
            "spark.sql.orc.enableVectorizedReader": pick(("true", "true", "false")),
            "spark.sql.orc.columnarReaderBatchSize": pick(("1", "3", "4096")),
            "spark.sql.columnVector.offheap.enabled": pick(("true", "false")),
            "spark.sql.requireAllClusterKeysForCoPartition": pick(("true", "false")),
            "spark.sql.shuffle.partitions": pick(("1", "2", "4")),
            "spark.bucketing.join.alignment": pick(("auto", "coalesce", "split", "off")),
            "spark.bucketing.read.mergeFiles": pick(("0", "3", "64")),
            "spark.bucketing.union.enabled": pick(("true", "true", "false")),
            "spark.bucketing.read.partitionBytes": pick(("0", "1k", "64m")),
            "spark.bucketing.read.maxBucketBytes": pick(("1g", "400")),
            "spark.bucketing.read.rangeBytes": pick(("32m", "1", "1", "200")),
            "spark.bucketing.read.sparkLayout": pick(("true", "true", "true", "false")),
            **(DIVIDES if self.key else {}),
        }

    def cores(self) -> int:
        """Choose how many cores the planner assumes. With many, it divides buckets."""
        return 8 if self.key else self.random.choice((2, 8, 8))

    def reader(self) -> dict[str, str]:
        """Choose settings that change what Spark reads, for the query both with the extension and on stock Spark."""
        if self.key:
            return {}
        pick = self.random.choice
        return {
            "spark.sql.orc.impl": pick(("native", "native", "hive")),
            "spark.sql.parquet.fieldId.read.enabled": pick(("true", "false", "false", "false")),
        }

    def query(self, pool: list[Table]) -> Query:
        others = (self._counts, self._group, self._window, self._union, self._semi, self._three, self._filter)
        shapes = (self._join,) * 3 + others
        rows = self.random.choice(shapes)(pool)
        return Query(rows, self.random.choice((None,) * 8 + (1, 20)))

    def _source(self, pool: list[Table]) -> tuple[str, Table]:
        table = self.random.choice(pool)
        where = self.random.choice(CONDITIONS)
        if table.partitioned and self.random.random() < 0.5:
            # Spark knows the values in the last condition only at run time.
            values = self.random.choice(("'x'", "'y'", "'x', 'z'", "'y', 'x'", f"(select max(p) from {table.name})"))
            where += f"{' and' if where else ' where'} p in ({values})"
        if self.random.random() < 0.2:
            other = self.random.choice(pool)
            union = (
                f"select k, t, l, d, n, v from {table.name}{where} union all select k, t, l, d, n, v from {other.name}"
            )
            return f"(select * from ({union}))", table
        return f"(select k, t, l, d, n, v from {table.name}{where})", table

    def _on(self, table: Table) -> str:
        extra = tuple(self.random.choice(KEYS) for _ in range(self.random.choice((0, 0, 1))))
        keys = list(dict.fromkeys((*table.keys, *extra)))
        self.random.shuffle(keys)
        keys = keys if self.random.random() < 0.9 else keys[:1]
        return " and ".join(f"a.{key} = b.{key}" for key in keys)

    def _join(self, pool: list[Table]) -> str:
        (left, table), (right, _) = self._source(pool), self._source(pool)
        how = self.random.choice(("join", "left join", "right join", "full join"))
        hint = self.random.choice(("", "", "/*+ shuffle_hash(b) */ ", "/*+ merge(b) */ "))
        return f"select count(*) as c, sum(hash(*)) as h from (select {hint}a.*, b.k as bk, b.t as bt, b.v as bv from {left} a {how} {right} b on {self._on(table)})"

    def _three(self, pool: list[Table]) -> str:
        (one, table), (two, _), (three, _) = (self._source(pool) for _ in range(3))
        key = self.random.choice(table.keys)
        how = self.random.choice(("join", "left join", "full join"))
        return (
            f"select a.{key}, count(*) as c, sum(hash(b.v)) as s from {one} a {how} {two} b on a.{key} = b.{key} "
            f"join (select {key}, max(v) as v from {three} group by {key}) c on a.{key} = c.{key} group by a.{key}"
        )

    def _counts(self, pool: list[Table]) -> str:
        """Join several tables by the same column, whatever their numbers of buckets."""
        sources = [self._source(pool) for _ in range(self.random.choice((2, 3, 4)))]
        key = self.random.choice(sources[0][1].keys)
        joins = "".join(
            f" {self.random.choice(('join', 'left join', 'left semi join', 'left anti join'))} "
            f"(select distinct {key} from {source}) s{number} on s0.{key} = s{number}.{key}"
            for number, (source, _) in enumerate(sources[1:], 1)
        )
        return f"select s0.{key}, s0.v from {sources[0][0]} s0{joins}"

    def _semi(self, pool: list[Table]) -> str:
        (left, table), (right, _) = self._source(pool), self._source(pool)
        how = self.random.choice(("exists", "not exists"))
        rest = self.random.choice(("", " or a.v < 9"))
        return f"select a.* from {left} a where {how} (select 1 from {right} b where {self._on(table)}){rest}"

    def _group(self, pool: list[Table]) -> str:
        source, table = self._source(pool)
        keys = ", ".join(dict.fromkeys((*table.keys, *self.random.choice(((), ("k",), ("t", "d"))))))
        return f"select {keys}, {self.random.choice(AGGREGATES)} from {source} group by {keys}"

    def _window(self, pool: list[Table]) -> str:
        source, table = self._source(pool)
        keys, by = ", ".join(table.keys), self.random.choice("tv")
        return f"select {keys}, v, rank() over (partition by {keys} order by {by}), count(*) over (partition by {keys}) from {source}"

    def _union(self, pool: list[Table]) -> str:
        sources = [self._source(pool) for _ in range(self.random.choice((2, 3)))]
        key = sources[0][1].keys[0]
        union = " union all ".join(f"select {key}, v from {source}" for source, _ in sources)
        other, _ = self._source(pool)
        grouped = f"select {key}, count(*), max(v) from ({union}) group by {key}"
        joined = f"select u.{key}, u.v, b.t from ({union}) u join {other} b on u.{key} = b.{key}"
        return self.random.choice((grouped, joined, f"select distinct {key} from ({union})"))

    def _filter(self, pool: list[Table]) -> str:
        table = self.random.choice(pool)
        key = self.random.choice(table.keys)
        value = f"(select max({key}) from {self.random.choice(pool).name})"
        literal = self.random.choice(LITERALS[key])
        test = self.random.choice(
            ("{k} = {literal}", "{k} <=> {literal}", "{k} in ({literal}, {value})", "{k} is null or {k} = {literal}")
        )
        return f"select * from {table.name} where {test.format(k=key, literal=literal, value=value)}"
