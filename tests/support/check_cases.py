"""Create the tables of check cases, and run `check` on queries over them, before and after each fix.

Tables are empty unless a case writes rows: the planner reads only metadata, file names and statistics.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from bucketed_tables import Tables, settled
from pyspark.sql import SparkSession
from session_settings import setting

from spark_bucketing.checks.checked_query import REASON_OF_CODE, Facts, Query, Setting, Settings
from spark_bucketing.checks.results import Finding, Fix, OperatorResult
from spark_bucketing.checks.verdicts import HypotheticalQuery, with_fixes
from spark_bucketing.plan.document import PlanCounts, TableFacts
from spark_bucketing.plan.planner import Planner
from spark_bucketing.session import SessionStatements, rows_of
from spark_bucketing.spec import BucketSpec
from spark_bucketing.tables.metadata import read_table
from spark_bucketing.tables.rewrite import plan_rewrite, rewrite_batch, select_partitions
from spark_bucketing.tables.warehouse import Warehouse

PLANNING = {"spark.sql.autoBroadcastJoinThreshold": "-1"}


@dataclass(frozen=True)
class CaseTable:
    """A table of a case."""

    columns: Mapping[str, str]  # names and types
    spec: BucketSpec | None = None
    partitioned: Sequence[str] = ()  # partition columns, which come last in columns
    size: int | None = None  # size in bytes, which the table's statistics state
    rows: Sequence[str] = ()  # queries whose rows to insert one after another
    files: int = 0  # number of tasks that write each query; 0 writes one file per bucket
    rename: Sequence[str] | None = None  # a pattern in file names and its replacement, to violate the bucket spec
    # Partitions to write before the table gets its spec: the number of buckets by the value of ds, or 0 for a partition
    # without buckets.
    earlier: Mapping[str, int] = field(default_factory=dict)


def made(text: Mapping[str, Any]) -> CaseTable:
    """Parse a table from YAML."""
    columns = dict(part.strip().split(" ", 1) for part in str(text["columns"]).split(";"))
    spec = None
    if "by" in text:
        by = tuple(text["by"])
        spec = BucketSpec(text["buckets"], by, tuple(text.get("sorted", by)), text.get("hash", "spark"))
    others = text.keys() - {"columns", "by", "buckets", "sorted", "hash"}
    return CaseTable(columns, spec, **{name: text[name] for name in others})


@dataclass
class Checked:
    spark: SparkSession
    database: str
    tables: Mapping[str, CaseTable]
    query: Query | None = None

    @property
    def planner(self) -> Planner:
        return Planner("", partial(rows_of, self.spark))

    def create(self) -> None:
        self.forget()
        self.spark.sql(f"create database if not exists {self.database}")
        for name, table in self.tables.items():
            self.make(name, table)

    def forget(self) -> None:
        """Discard cached facts about tables, which may have changed."""
        self.facts = Facts(self.planner)

    def make(self, name: str, table: CaseTable) -> None:
        spark, full = self.spark, f"{self.database}.{name}"
        spark.sql(f"drop table if exists {full}")
        spark.sql(_ddl(full, table))
        self._make_earlier(full, table)
        distribute = {"spark.bucketing.write.distribute": str(table.files == 0).lower()}
        with settled(spark, {"spark.bucketing.enabled": "true"} | distribute):
            for query in table.rows:
                hint = f"/*+ repartition({table.files}) */" if table.files else ""
                spark.sql(f"insert into {full} select {hint} * from ({query})")
        if table.rename:
            self._rename(full, *table.rename)

    def _make_earlier(self, full: str, table: CaseTable) -> None:
        with setting(self.spark, "spark.bucketing.enabled", "true"):
            for value, buckets in table.earlier.items():
                self.spark.sql(f"alter table {full} {_clustered(table, buckets)}")
                rows = "select cast(id as int) as k, id as v from range(40)"
                self.spark.sql(f"insert into {full} partition (ds = '{value}') {rows}")
            if table.earlier and table.spec:
                self.spark.sql(f"alter table {full} {_clustered(table, table.spec.num_buckets)}")

    def _rename(self, full: str, pattern: str, name: str) -> None:
        tables, table = Tables(self.spark, self.database), full.split(".")[1]
        before = tables.files(table)
        tables.rename(table, name, pattern)
        assert tables.files(table) != before, f"no file of {full} matches {pattern}"

    def judge(self, sql: str, settings: Mapping[str, str]) -> tuple[OperatorResult, ...]:
        """Check a query, test its fixes, and return the results."""
        with self.planned(sql, settings) as query:
            self.query = query
            return tuple(with_fixes(HypotheticalQuery(self.planner, query)))

    def counts(self, sql: str, settings: Mapping[str, str]) -> tuple[PlanCounts, PlanCounts]:
        """Return the exchanges and sorts of a query over its tables, and over identical hypothetical tables."""
        with self.planned(sql, settings) as query:
            hypothetical = [_hypothetical(facts, query) for facts in query.tables.values()]
            scans = [scan for node in query.plan.walk() if (scan := query.bucketed(node))]
            stock = {Setting.SPARK_LAYOUT: "false"} if any(scan.left_to_stock for scan in scans) else {}
            return query.plan.counts, self.planner.plan(sql, hypothetical, stock).counts

    @contextmanager
    def planned(self, sql: str, settings: Mapping[str, str]) -> Iterator[Query]:
        """Plan a query with some settings, which apply inside the block."""
        with settled(self.spark, {**PLANNING, **settings}):
            self.spark.sql(f"use {self.database}")
            known = Settings(self.planner.require_extension().settings)
            plan = self.planner.plan(sql)
            yield Query(plan, self.facts.of(plan), known, sql)

    def _rewrite(self, full: str, where: str) -> None:
        """Rewrite partitions as `spark-bucketing table rewrite --where` does."""
        self.forget()
        with Warehouse(SessionStatements(self.spark).rows).with_needed_settings() as warehouse:
            table = read_table(warehouse, full)
            chosen, _ = select_partitions(warehouse, table, where)
            for batch in plan_rewrite(table, chosen).batches():
                rewrite_batch(warehouse, table, batch, print)

    @contextmanager
    def fixed(self, fix: Fix) -> Iterator[dict[str, str]]:
        """Apply a fix and its additional changes; yield the settings."""
        before = dict(self.tables)
        after: dict[str, CaseTable] = {}
        rewritten: set[str] = set()
        for part in (fix, *fix.also):
            name = (part.table or "").split(".")[-1]
            if part.where and part.table:
                rewritten.add(name)
                self._rewrite(part.table, part.where)
            elif name in before:
                table = after.get(name, before[name])
                changed: dict[str, Any] = {
                    "spec": part.spec or table.spec,
                    "columns": {**table.columns, **part.column_types},
                }
                after[name] = replace(table, files=0, rename=None, earlier={}, **changed)
        try:
            for name, table in after.items():
                self.make(name, table)
            self.forget()
            # A session loads the jar only when it starts. The tests' session has loaded it.
            settings = {key: value for part in (fix, *fix.also) for key, value in part.settings.items()}
            yield {key: value for key, value in settings.items() if key != "spark.sql.extensions"}
        finally:
            for name in rewritten | after.keys():
                self.make(name, before[name])
            self.forget()


def _hypothetical(facts: TableFacts, query: Query) -> TableFacts:
    """Return a hypothetical table that Spark reads like a real one."""
    scans = [scan for node in query.plan.walk() if node.table == facts.name and (scan := query.bucketed(node))]
    specs = [
        # Stock Spark would read a hypothetical table with as many buckets as it coalesces these to as sorted.
        replace(scan.spec, num_buckets=scan.scan.buckets) if scan.scan.by_extension and scan.scan.buckets else scan.spec
        for scan in sorted(scans, key=lambda scan: bool(scan.scan.bucketed))
    ]
    spec = None if any(scan.scan.code in REASON_OF_CODE for scan in scans) or not specs else specs[-1]
    size = query.plan.table_bytes(facts.name) if facts.partition_columns else facts.size_bytes
    known = not facts.partition_columns or size is not None
    files = max((scan.files for scan in scans), default=1)
    size = facts.size_bytes if size is None else size
    return replace(facts, spec=spec, files_per_bucket=files, size_bytes=size, knows_size=known, partitions=None)


def _clustered(table: CaseTable, buckets: int) -> str:
    if not buckets or table.spec is None:
        return "not clustered"
    order = f"sorted by ({', '.join(table.spec.sort_columns)})" if table.spec.sort_columns else ""
    return f"clustered by ({', '.join(table.spec.bucket_columns)}) {order} into {buckets} buckets"


@dataclass(frozen=True)
class Applied:
    """A fix, and the operator's verdict after the fix."""

    query: str
    operator: str
    reason: str
    fix: Fix
    verdict: str

    @property
    def kept(self) -> bool:
        return self.verdict == self.fix.verdict.value


def apply_fixes(
    checked: Checked, name: str, sql: str, settings: Mapping[str, str], rewritten: str | None = None
) -> Iterator[Applied]:
    """Apply each fix of a query separately, and check the query again."""
    judged = checked.judge(sql, settings)
    for place, item in enumerate(judged):
        # Several findings may suggest the same fix.
        fixes: dict[str, tuple[Finding, Fix]] = {}
        for finding in item.findings:
            for fix in finding.fixes:
                fixes.setdefault(fix.sentences, (finding, fix))
        for finding, fix in fixes.values():
            query = (rewritten or sql) if fix.kind == "sql" else sql
            with checked.fixed(fix) as more:
                again = checked.judge(query, {**settings, **more})
            yield Applied(name, item.description, finding.reason, fix, _same(judged, again, place))


def _same(before: tuple[OperatorResult, ...], after: tuple[OperatorResult, ...], place: int) -> str:
    """Return the verdict of the corresponding operator, identified by its position among operators of its kind."""
    kind = before[place].kind
    index = sum(item.kind == kind for item in before[:place])
    alike = [item for item in after if item.kind == kind]
    if len(alike) != sum(item.kind == kind for item in before):
        return "another plan"
    return alike[index].verdict.value


def _ddl(full: str, table: CaseTable) -> str:
    own = {name: kind for name, kind in table.columns.items() if name not in table.partitioned}
    hive = table.spec is not None and table.spec.in_hive_layout
    columns = own if hive else table.columns
    text = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    by = ", ".join(f"{name} {table.columns[name]}" if hive else name for name in table.partitioned)
    partitioned = f"partitioned by ({by})" if by else ""
    # Spark uses Hive's statistics if Spark's statistics are missing; the table itself is empty.
    given = {"totalSize": table.size, "numRows": table.size // 100} if table.size else {}
    version = {"bucketing_version": 2} if table.spec and table.spec.bucket_hash == "hive2" else {}
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in (given | version).items())
    size = f"tblproperties ({listed})" if listed else ""
    buckets = _clustered(table, table.spec.num_buckets) if table.spec else ""
    using, stored = ("", "stored as parquet") if hive else ("using parquet", "")
    return f"create table {full} ({text}) {using} {partitioned} {buckets} {stored} {size}"
