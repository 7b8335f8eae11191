"""Tests of INSERT into organized tables: the same rows as Spark's own INSERT, in files of the configured size, with file statistics."""

from __future__ import annotations

import os
import random
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import pytest
from bucketed_tables import Tables, executions, explain, last_insert, last_stage, stages_after
from local_files import while_held
from statement_cases import run_steps

from conftest import all_long_but

pytestmark = pytest.mark.usefixtures("extension")

SEED = int(os.environ.get("SEED", "1"))
CASES = int(os.environ.get("CASES", "3"))
# Expressions for 1,000 rows, which have 1,000 or fewer different values.
RANGES = {
    "bigint": "id * 7919 % 1000",
    "string": "concat('k', id * 7919 % 1000)",
    "double": "case when id % 50 = 0 then double('NaN') when id % 51 = 0 then -0.0D else id * 7919 % 1000 / 3 end",
    "date": "date_add(date'1500-01-01', cast(id % 400 as int) * 1000)",
    "timestamp": "timestamp_micros(id * 7919 % 1000 * 1001)",
    "decimal(20,5)": "cast(id / 7 as decimal(20,5))",
    "boolean": "id % 2 = 0",
}
PARTITIONS = {
    "string": "elt(id % 4 + 1, 'a/b=c %', '', null, 'x')",
    "int": "id % 3",
    "date": "date_add(date'2024-01-01', cast(nullif(id % 3, 2) as int))",
    "double": "elt(id % 3 + 1, 'NaN', '-0.0', '2.5')",
}
GROUPS = {"int": "nullif(id % 4, 3)", "string": "elt(id % 2 + 1, 'ä', 'b')"}


@dataclass(frozen=True)
class Layout:
    """The columns `r`, `p` and `g` of a table, which are its range, partition and implicit partition column."""

    range: str | None = "bigint"
    partition: str | None = None
    group: str | None = None
    size: str = "'bucketing.rows_per_file'='100'"
    file_format: str = "parquet"

    def create(self, tables: Tables, name: str) -> None:
        by = {"range_by": '["r"]' if self.range else "[]"} | ({"implicit_partition_by": '["g"]'} if self.group else {})
        properties = ", ".join([*(f"'bucketing.{key}'='{value}'" for key, value in by.items()), self.size])
        types = (self.group or "int", self.range or "bigint", self.partition or "string")
        columns = ", ".join(f"{column} {of}" for column, of in zip("grp", types, strict=True))
        partitioned = "partitioned by (p)" if self.partition else ""
        # The partition column is the last one.
        tables.create(
            f"{name} (id bigint, m map<string, bigint>, {columns}) using {self.file_format} {partitioned} tblproperties ({properties})"
        )

    def rows(self, first: int, number: int, tasks: int, nulls: bool = True) -> str:
        of_range = RANGES[self.range or "bigint"]
        values = [
            "id",
            "map('a', id) as m",
            f"cast({GROUPS[self.group or 'int']} as {self.group or 'int'}) as g",
            f"cast({f'if(id % 17 = 0, null, {of_range})' if nulls else of_range} as {self.range or 'bigint'}) as r",
            f"cast({PARTITIONS[self.partition or 'string']} as {self.partition or 'string'}) as p",
        ]
        return f"select {', '.join(values)} from range({first}, {first + number}, 1, {tasks})"


def found(tables: Tables, name: str, how: str = "") -> list[str]:
    return sorted(map(str, tables.sql(f"{how}select * from {name}")))


def files(tables: Tables, name: str) -> dict[str, Any]:
    """Return the file statistics as rows with names, by path."""
    return {row.path: row for row in tables.spark.sql(f"select * from file_statistics('{name}')").collect()}


def check_statistics(tables: Tables, name: str, layout: Layout) -> dict[str, Any]:
    """Compare the statistics with the rows of each file, and return them."""
    bounds = "struct(min(r)), struct(max(r)), count(*) - count(r)" if layout.range else "null, null, null"
    hashed = ", ".join(
        f"cast({column} as string)" if column == "m" else column for column in ("id", "m", "g", "r", "p")
    )
    read: list[Any] = tables.sql(
        f"stock:select _metadata.file_path as path, {bounds}, count(*), sum(cast(xxhash64({hashed}) as decimal(38,0))),"
        f" array_sort(collect_set(to_json(struct({'g' if layout.group else 'null'})))), count(distinct p) from {name} group by 1"
    )
    known = files(tables, name)
    assert {path for path, *_ in read} == set(known)
    for path, lower, upper, nulls, rows, checksum, groups, partitions in read:
        row = known[path]
        assert (row.rows, row.checksum) == (rows, checksum)
        if layout.range:
            assert (str(row.lower), str(row.upper), row.nulls) == (
                str(lower).replace("col1", "r"),
                str(upper).replace("col1", "r"),
                nulls,
            )
            assert nulls in (0, rows), "NULLs have their own file"
        assert len(groups) == 1 and (partitions <= 1 or not layout.partition)
    return known


def check_ranges(new: list[Any], layout: Layout, size: int) -> None:
    """Check the number of files and their ranges in each group."""
    groups: dict[str, list[Any]] = {}
    for row in new:
        partition = row.partition if layout.partition else None
        groups.setdefault(str((partition, row.implicit_partition if layout.group else None)), []).append(row)
    for of in groups.values():
        with_values = [row for row in of if not layout.range or row.lower.r is not None]
        rows = sum(row.rows for row in with_values)
        assert len(of) - len(with_values) <= 1
        assert len(with_values) <= -(-rows // size)
        if not layout.range:
            assert len(with_values) == -(-rows // size)
        elif layout.range in ("bigint", "timestamp", "decimal(20,5)"):
            ordered = sorted(with_values, key=lambda row: row.lower.r)
            assert all(before.upper.r < after.lower.r for before, after in pairwise(ordered))
            if layout.range != "decimal(20,5)":
                assert len(with_values) == -(-rows // size), "different values fill all files"


@pytest.mark.parametrize("number", all_long_but(CASES - 1, range(CASES)))
def test_rows_are_those_of_sparks_own_insert(tables: Tables, number: int) -> None:
    chosen = random.Random(SEED * 1000 + number)
    size = chosen.choice([7, 100, 3000])
    layout = Layout(
        chosen.choice([None, *RANGES]),
        chosen.choice([None, *PARTITIONS]),
        chosen.choice([None, None, *GROUPS]),
        f"'bucketing.rows_per_file'='{size}'",
        chosen.choice(["parquet", "orc"]),
    )
    print(f"\nseed {SEED}, case {number}: {layout}", flush=True)
    for name in ("organized", "stock"):
        layout.create(tables, name)
    known: dict[str, Any] = {}
    for step in range(4):
        overwrite = chosen.random() < 0.4
        rows = layout.rows(step * 300, chosen.choice([0, 1, 400]), chosen.choice([1, 5]))
        mode = chosen.choice(["static", "dynamic"])
        suffix = chosen.choice(["", "", " order by r desc", " distribute by id % 2"])
        # Stock Spark rejects a static overwrite that reads its table.
        reads = chosen.random() < 0.3 and not (overwrite and (mode == "static" or not layout.partition))
        before = set(known)
        with tables.settings({"spark.sql.sources.partitionOverwriteMode": mode}):
            for name in ("organized", "stock"):
                source = (
                    f"{rows} union all select id + 10000, m, g, r, p from {name} where id % 3 = 0" if reads else rows
                )
                with tables.settings({"spark.bucketing.enabled": str(name == "organized").lower()}):
                    tables.sql(f"insert {'overwrite' if overwrite else 'into'} {name} select * from ({source}){suffix}")
        assert found(tables, "organized") == found(tables, "stock") == found(tables, "organized", "stock:")
        known = check_statistics(tables, "organized", layout)
        check_ranges([row for path, row in known.items() if path not in before], layout, size)
    if layout.partition:
        assert sorted(tables.sql("show partitions organized")) == sorted(tables.sql("show partitions stock"))


# A table property, and the numbers of files of the partitions with 400 and with 500 rows.
SIZES = {
    "'bucketing.num_files'='9'": {"0": 4, "1": 5},
    "'bucketing.files_per_partition'='3'": {"0": 3, "1": 3},
    "'bucketing.rows_per_file'='200'": {"0": 2, "1": 3},
    "'bucketing.rows_per_file'='7000'": {"0": 1, "1": 1},
}
CASES_OF_SIZE = list(product(("bigint", None), SIZES))


@pytest.mark.parametrize("case", all_long_but((CASES_OF_SIZE[0], CASES_OF_SIZE[6]), CASES_OF_SIZE))
def test_table_property_determines_the_number_of_files(tables: Tables, case: tuple[str | None, str]) -> None:
    of, size = case
    Layout(of, "string", size=size).create(tables, "t")
    tables.sql("insert into t select id, null, 1, id, if(id < 400, '0', '1') from range(0, 900, 1, 3)")
    counts: dict[str, list[int]] = {}
    for row in files(tables, "t").values():
        counts.setdefault(row.partition.p, []).append(row.rows)
    assert {key: len(rows) for key, rows in counts.items()} == SIZES[size]
    # Quantiles of a sample determine ranges; without ranges, each task distributes its rows evenly.
    assert all(max(rows) - min(rows) <= (0.2 * max(rows) + 1 if of else 3) for rows in counts.values()), counts


def test_file_size_is_that_of_a_sample_or_of_the_files_of_the_table(tables: Tables) -> None:
    size = """'bucketing.range_by'='["id"]', 'bucketing.target_file_size'='100000'"""
    tables.create(f"t (id bigint, v string) using parquet tblproperties ({size})")
    for first in (0, 20000):
        before = set(files(tables, "t"))
        # Different values of about 80 bytes per row, which do not compress well
        tables.sql(f"insert into t select id, concat(uuid(), uuid()) from range({first}, {first + 20000}, 1, 3)")
        new = [row.bytes for path, row in files(tables, "t").items() if path not in before]
        assert len(new) > 5
        assert all(60_000 < size < 140_000 for size in new), new
    assert not list(tables.folder("t").rglob("*_sample*")), "the sample is deleted"


def test_ranges_follow_the_boundaries_of_another_table(tables: Tables) -> None:
    """The other table has other types. A partition that it lacks gets one file, as do NULLs."""
    tables.create(
        "bounds (s int, p int) using parquet partitioned by (p)"
        """ tblproperties ('bucketing.range_by'='["s"]', 'bucketing.rows_per_file'='10')"""
    )
    tables.sql(
        "insert into bounds select cast(id * 10 as int), cast(if(id < 40, '1', '2') as int) from range(0, 80, 1, 3)"
    )
    lowers: dict[str, list[int]] = {}
    for row in files(tables, "bounds").values():
        lowers.setdefault(str(row.partition.p), []).append(row.lower.s)
    assert {key: len(of) for key, of in lowers.items()} == {"1": 4, "2": 4}
    Layout(partition="string", size="'bucketing.range_boundaries_from'='bounds'").create(tables, "t")
    rows = "select id, map('a', id) as m, 1 as g, nullif(id, 13) as r, elt(pmod(id, 3) + 1, '1', '2', '3') as p from range(-100, 900, 1, 2)"
    tables.sql(f"insert into t {rows}")
    assert sorted(map(str, tables.sql(rows))) == found(tables, "t")
    for key in ("1", "2", "3"):
        bounds = sorted(lowers.get(key, []))[1:]
        ranges = sorted(
            (row.lower.r, row.upper.r)
            for row in files(tables, "t").values()
            if row.partition.p == key and row.rows > row.nulls
        )
        places = [[sum(bound <= value for bound in bounds) for value in of] for of in ranges]
        assert all(first == last for first, last in places) and len(places) == len({first for first, _ in places}), (
            key,
            ranges,
        )
        assert len(places) == {"1": 4, "2": 4, "3": 1}[key]
    check_statistics(tables, "t", Layout(partition="string"))


@pytest.mark.parametrize(("name", "message"), [("missing", "does not exist"), ("plain", "a table with a range column")])
def test_table_without_boundaries_is_refused(tables: Tables, name: str, message: str) -> None:
    tables.create("plain (id bigint, p string) using parquet partitioned by (p)")
    Layout(partition="string", size=f"'bucketing.range_boundaries_from'='{name}'").create(tables, "t")
    insert = f"insert into t {Layout(partition='string').rows(0, 10, 1)}"
    run_steps(tables, {insert: f"(?s)Cannot write into .*{message}"}, "t")


def test_skewed_values_and_more_tasks_than_rows_fill_the_files(tables: Tables) -> None:
    Layout(size="'bucketing.rows_per_file'='50'").create(tables, "t")
    # Half of the rows have the same value; each task has only a few rows.
    tables.sql("insert into t select id, null, 1, if(id % 2 = 0, 500, id), '' from range(0, 1000, 1, 64)")
    rows = sorted((row.lower.r, row.upper.r, row.rows) for row in files(tables, "t").values())
    assert max(number for _, _, number in rows) < 650 and len(rows) >= 9, rows
    assert all(before[1] < after[0] for before, after in pairwise(rows)), rows


def test_all_spellings_of_a_null_partition_are_one_partition(tables: Tables) -> None:
    """Stock Spark writes two files with the same name for some of these values."""
    Layout(partition="string").create(tables, "t")
    values = "elt(id % 3 + 1, '', null, '__HIVE_DEFAULT_PARTITION__')"
    tables.sql(f"insert into t select id, null, 1, id, {values} from range(60)")
    assert sorted(tables.sql("select id, p from t")) == [(key, None) for key in range(60)]
    assert [row.rows for row in files(tables, "t").values()] == [60]


def test_other_writes_stay_sparks_own(tables: Tables) -> None:
    Layout().create(tables, "t")
    insert = f"insert into t {Layout().rows(0, 100, 2)}"
    for key in ("spark.bucketing.write.distribute", "spark.bucketing.write.atomic", "spark.bucketing.enabled"):
        tables.sql("truncate table t")
        with tables.settings({key: "false"}):
            tables.sql(insert)
        assert [row.rows for row in files(tables, "t").values()] == [None, None], key
    assert len(found(tables, "t")) == 100


def test_statement_reports_its_files_and_its_plan(tables: Tables) -> None:
    Layout(partition="int").create(tables, "t")
    insert = f"insert into t {Layout(partition='int').rows(0, 1000, 2, nulls=False)}"
    before = tables.files("t")
    assert "Range (0, 1000" in explain(tables, insert) and tables.files("t") == before == []
    tables.sql(insert)
    assert "Range (0, 1000" in last_insert(tables.spark)
    last = next(of for of in executions(tables.spark) if "CommandResult" not in of.physicalPlanDescription())
    store = tables.spark._jsparkSession.sharedState().statusStore()
    shown = store.executionMetrics(last.executionId())
    metrics = {}
    for i in range(last.metrics().size()):
        metric = last.metrics().apply(i)
        if shown.contains(metric.accumulatorId()):
            metrics[metric.name()] = shown.apply(metric.accumulatorId())
    written = tables.files("t")
    names = ("number of written files", "number of output rows", "number of dynamic part")
    assert len(written) == 12 and [metrics.get(name) for name in names] == ["12", "1,000", "3"], metrics


@pytest.mark.parametrize("table", ["bucketed", "organized"])
def test_tasks_report_the_bytes_of_the_new_files(tables: Tables, table: str) -> None:
    Layout().create(tables, "t")
    if table == "bucketed":
        tables.make("t", "id bigint, m map<string, bigint>, g int, r bigint, p string", "id", 4)
    for statement in (
        f"insert into t {Layout().rows(0, 1000, 2)}",
        "update t set r = -1 where id % 2 = 0",
        f"merge into t using ({Layout().rows(500, 1000, 2)}) s on t.id = s.id when not matched then insert *",
        f"insert overwrite t {Layout().rows(0, 100, 2)}",
    ):
        last, old = last_stage(tables.spark), tables.files("t")
        tables.sql(statement)
        new = sum(file.stat().st_size for file in set(tables.files("t")) - set(old))
        assert sum(stage.outputBytes() for stage in stages_after(tables.spark, last)) == new > 0


def test_failed_statement_changes_nothing(tables: Tables) -> None:
    Layout(partition="int").create(tables, "t")
    tables.sql(f"insert into t {Layout(partition='int').rows(0, 100, 2)}")
    rows = "select id, if(id = 99, raise_error('no such row'), null), 1, id, 2 from range(200)"
    run_steps(tables, {f"insert {how} t {rows}": "no such row" for how in ("into", "overwrite")}, "t")
    assert not [*tables.folder("t").glob("_replaced/*/files")]


def test_files_of_failed_tasks_are_ignored(tables: Tables) -> None:
    """A task that fails after its first file leaves it in the directory, and a second attempt writes the rows again."""
    Layout().create(tables, "t")
    tables.sql(f"insert into t {Layout().rows(0, 10, 1)}")
    (file, *_) = tables.files("t")
    insert, writes = f"insert into t {Layout().rows(10, 10, 1)}", ".*/_replaced/[^/]*/files/part-.*"
    with while_held(tables.spark, writes, tables.new_session().sql, insert):
        (folder,) = tables.folder("t").glob("_replaced/*/files")
        shutil.copy(file, folder / file.name.replace("c000", "c007"))
    tables.sql("refresh table t")
    assert sorted(tables.sql("select id from t")) == [(key,) for key in range(20)]


def test_partitions_have_the_time_zone_of_the_table(tables: Tables) -> None:
    columns = "(id bigint, p timestamp) using parquet options ('timeZone'='UTC') partitioned by (p)"
    tables.create(f"""zoned {columns} tblproperties ('bucketing.range_by'='["id"]')""")
    tables.create(f"stock {columns}")
    rows = "select id, timestamp'2024-01-01 00:00:00' + make_dt_interval(0, cast(id % 2 as int)) from range(10)"
    with tables.settings({"spark.sql.session.timeZone": "America/Los_Angeles"}):
        for name in ("zoned", "stock"):
            tables.sql(f"insert into {name} {rows}")
        tables.sql("delete from zoned where id = 3")
        expected = [row for row in tables.sql("select * from stock") if row[0] != 3]
        assert sorted(tables.sql("select * from zoned")) == sorted(expected)
        assert tables.sql("show partitions zoned") == tables.sql("show partitions stock")
        tables.sql("update zoned set p = p + interval '1' day where id = 5")
        assert tables.sql("select day(p) from zoned where id = 5") == [(2,)]


def test_setting_for_old_dates_in_parquet_does_not_apply_to_statistics(tables: Tables) -> None:
    tables.create("""old (id bigint, r date) using orc tblproperties ('bucketing.range_by'='["r"]')""")
    with tables.settings({"spark.sql.parquet.datetimeRebaseModeInWrite": "EXCEPTION"}):
        tables.sql("insert into old select id, date_add(date'1400-01-01', cast(id * 20000 as int)) from range(20)")
    (row,) = files(tables, "old").values()
    assert str(row.lower.r) == "1400-01-01"
    assert tables.sql("select id from old where r = date'1400-01-01'") == [(0,)]


def test_cached_data_of_the_directory_is_invalidated(tables: Tables) -> None:
    Layout().create(tables, "t")
    tables.sql(f"insert into t {Layout().rows(0, 10, 1)}")
    cached = tables.spark.read.parquet(str(tables.folder("t"))).cache()
    try:
        assert cached.count() == 10
        tables.sql(f"insert into t {Layout().rows(10, 10, 1)}")
        assert tables.spark.read.parquet(str(tables.folder("t"))).count() == 20
    finally:
        cached.unpersist()


def test_columns_without_an_order_and_invalid_sizes(tables: Tables) -> None:
    tables.create(
        "t (id bigint, m map<int, int>) using parquet"
        """ tblproperties ('bucketing.range_by'='["id"]', 'bucketing.implicit_partition_by'='["m"]')"""
    )
    run_steps(tables, {"insert into t select id, map(1, 2) from range(10)": None, "select count(*) from t": 10}, "t")
    Layout(size="'bucketing.target_file_size'='256MiB'").create(tables, "t")
    rows = Layout().rows(0, 10, 1)
    merge = f"merge into t using ({rows}) s on t.id = s.id when not matched then insert *"
    message = r"(?s)bucketing.target_file_size' = '256MiB'.*a positive integer"
    run_steps(tables, {f"insert into t {rows}": message, merge: message}, "t")


def test_column_of_another_session_is_refused_once(tables: Tables) -> None:
    tables.create("""t (id bigint) using parquet tblproperties ('bucketing.range_by'='["id"]')""")
    tables.sql("insert into t select id from range(10)")
    session = tables.new_session()
    assert session.table("t").count() == 10
    tables.sql("alter table t add columns (w int)")
    with pytest.raises(Exception, match=r"(?s)the columns id, w, which another session has changed.*run it again"):
        session.sql("insert into t select id from range(10)")
    session.sql("insert into t select id, 1 from range(10)")
    assert tables.sql("select w, count(*) from t group by w order by w") == [(None, 10), (1, 10)]


def test_too_many_files_are_refused(tables: Tables) -> None:
    Layout(size="'bucketing.rows_per_file'='1'").create(tables, "t")
    message = r"(?s)Cannot write into .*t`.*100,001 files for 100,001 rows.*at most 100,000 files"
    run_steps(tables, {"insert into t select id, null, 1, id, '' from range(100001)": message}, "t")


def test_concurrent_inserts_lose_no_rows(tables: Tables) -> None:
    Layout(partition="int").create(tables, "t")

    def insert(number: int) -> None:
        tables.new_session().sql(f"insert into t {Layout(partition='int').rows(number * 100, 100, 2)}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(insert, range(5)))
    assert sorted(tables.sql("select id from t")) == [(key,) for key in range(500)]
    check_statistics(tables, "t", Layout(partition="int"))


def test_files_of_a_dropped_partition_do_not_come_back(tables: Tables, tmp_path: Path) -> None:
    """The files of an external table stay when a partition is dropped. An INSERT must not make them part of the table."""
    tables.create(
        "t (id bigint, p int) using parquet partitioned by (p)"
        f""" location '{tmp_path}/t' tblproperties ('bucketing.range_by'='["id"]')"""
    )
    steps = {
        "insert into t select id, 1 from range(10)": None,
        "alter table t drop partition (p = 1)": None,
        "insert into t select 100, 1": r"(?s)Cannot replace files of .*found: .*p=1, which is not a partition of the table",
        "select count(*) from t": 0,
        "insert overwrite t select 100, 1": None,
        "select * from t": [(100, 1)],
    }
    run_steps(tables, steps, "t")
