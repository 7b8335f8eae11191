"""Tests that range_by and implicit_partition_by write files with disjoint ranges, and that queries skip files."""

from __future__ import annotations

import random
from collections import defaultdict
from itertools import pairwise
from typing import Any

import pytest
from commands import command
from pyspark.sql import SparkSession
from session_settings import setting
from test_organized_table import SKEWED, TABLE, assert_same_rows

from conftest import Failed, Project

pytestmark = pytest.mark.usefixtures("extension_for_module")
ORGANIZED = {**TABLE, "range_by": "o", "rows_per_file": 40}
# NULLs, a value that a third of the rows share, and types that sort differently from their text.
ROWS = """
    select id, if(id % 5 = 0, null, if(id % 3 = 0, 7, (id * 37) % 1000 - 300)) as o, id % 3 as s,
        if(id < 500, 'a b', nullif('c%d', if(id > 900, 'c%d', ''))) as ds
    from range(0, 1000, 1, 5)
"""


def files_of(project: Project, table: str, order: str = "o", groups: str = "''") -> dict[Any, list[Any]]:
    """Return the range and the row counts of each file by implicit partition, in order of the ranges, NULLs last."""
    found = defaultdict(list)
    query = f"""
        select {groups} as g, count(distinct {groups}, 1) as several, min({order}) as lower, max({order}) as upper,
            count({order}) as valued, count(*) as n
        from {project.table(table)} group by {groups}, input_file_name()
    """
    for row in project.rows(query):
        found[row.g].append(row)
    return {key: sorted(rows, key=lambda row: (row.lower is None, row.lower)) for key, rows in found.items()}


def data_files(project: Project, table: str) -> list[Any]:
    return [path for path in project.files(table) if not path.parts[0].startswith("_")]


@pytest.mark.parametrize(
    ("config", "groups"),
    [
        ({}, "''"),
        pytest.param({"implicit_partition_by": "s"}, "s", marks=pytest.mark.long),
        pytest.param({"partition_by": ["ds"]}, "ds", marks=pytest.mark.long),
        ({"partition_by": ["ds"], "implicit_partition_by": ["s"]}, "struct(ds, s)"),
    ],
)
@pytest.mark.some(1)
def test_file_ranges_do_not_overlap(project: Project, config: dict[str, Any], groups: str) -> None:
    project.build(ROWS, **ORGANIZED, **config)
    found = files_of(project, "m", groups=groups)
    for files in found.values():
        assert [row.valued for row in files if row.lower is None] in ([], [0]), (
            "rows with NULL must have a separate file"
        )
        valued = [row for row in files if row.lower is not None]
        assert all(row.valued == row.n for row in valued)
        assert all(one.upper < other.lower for one, other in pairwise(valued)), files
        # The sample contains all rows. Only the file of the value that many rows share may exceed the planned size.
        assert all(row.n <= 45 or row.lower <= 7 <= row.upper for row in valued), files
    assert sum(map(len, found.values())) == len(data_files(project, "m"))
    assert_same_rows(project, ROWS)


@pytest.mark.long
def test_each_file_has_one_value_of_the_implicit_partition_columns(project: Project) -> None:
    project.build(SKEWED, **TABLE, partition_by=["ds"], implicit_partition_by=["n", "region"], rows_per_file=100)
    query = "select count(distinct struct(n, region)) as several from {} group by input_file_name()"
    assert {row.several for row in project.rows(query.format(project.table("m")))} == {1}
    assert_same_rows(project, SKEWED)


TYPES = {
    "int": "cast(id * 37 % 1000 as int)",
    "text": "concat('k', id * 37 % 1000)",
    "double": "if(id % 50 = 0, double('NaN'), if(id % 50 = 1, -0.0D, cast(id * 37 % 1000 - 500 as double) / 8))",
    "decimal": "cast(id * 37 % 1000 - 500 as decimal(12, 3)) / 7",
    "date": "date_add(date'1990-01-01', cast(id * 37 % 1000 as int))",
    "timestamp": "timestamp_seconds(id * 37 % 1000 * 100000 + 0.25)",
    "boolean": "id % 7 = 0",
}


@pytest.mark.long
def test_values_of_every_type_have_ranges(project: Project) -> None:
    for kind, value in TYPES.items():
        project.model(f"m_{kind}", f"select id, {value} as o from range(0, 1000, 1, 3)", **ORGANIZED)
    project.dbt("--warn-error", "run")
    for kind, value in TYPES.items():
        (files,) = files_of(project, f"m_{kind}").values()
        assert len(files) == len(data_files(project, f"m_{kind}")) == (2 if kind == "boolean" else 25), kind
        assert_same_rows(project, f"select id, {value} as o from range(0, 1000, 1, 3)", f"m_{kind}")


def read_files(frame: Any) -> int:
    """Return the number of files that a query's scans opened."""
    leaves = frame._jdf.queryExecution().executedPlan().collectLeaves()
    return sum(leaves.apply(i).metrics().apply("numFiles").value() for i in range(leaves.size()))


FILTERS = (
    "o = {a}", "o > {a}", "o <= {a}", "o between {a} and {b}", "o in ({a}, {b})", "o is null", "o is not null", "o <=> {a}",
    "o = {a} or s = 1", "s = 2", "s in (0, 1) and o < {a}", "not (o = {a})", "o + 1 = {a}", "o > {a} and ds = 'a b'",
    "coalesce(o, 0) = {a}", "o <=> null", "o = {a} and o is null", "ds is null and o >= {b}", "cast(o as string) = '{a}'",
    "o != {a}", "o = {a} and id > {b}", "o < {a} or id = 7", "id = 7", "(o = {a} and s = 0) or (o > {b} and id > 3)", "o = (select max(id) - 700 from range({b}, 1000))",
    # Spark turns long lists into sets.
    "o in ({a}, {b}, 7, null, 9, 11, 13, 15, 17, 19, 21, 23)", "o not in ({a}, {b}, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25)",
)  # fmt: skip


def ids_found(spark: SparkSession, table: str, conditions: list[str]) -> dict[str, list[int]]:
    """Return the ids of the rows that meet each condition, from one query of stock Spark that reads all files."""
    columns = ", ".join(f"({condition}) as c{number}" for number, condition in enumerate(conditions))
    with setting(spark, "spark.bucketing.enabled", "false"):
        rows = spark.sql(f"select id, {columns} from {table}").collect()
    return {
        condition: sorted(row.id for row in rows if row[f"c{number}"]) for number, condition in enumerate(conditions)
    }


def test_filters_skip_files_but_no_rows(project: Project, extension: None, spark: SparkSession) -> None:
    project.build(ROWS, **ORGANIZED, partition_by=["ds"], implicit_partition_by=["s"])
    choose, table, fewer = random.Random(1), project.table("m"), 0
    bounds = [sorted(choose.sample(range(-300, 700), 2)) for _ in FILTERS]
    filters = [text.format(a=a, b=b) for text, (a, b) in zip(FILTERS, bounds, strict=True)]
    with setting(spark, "spark.sql.adaptive.enabled", "false"):
        for condition, expected in ids_found(spark, table, filters).items():
            frame = spark.sql(f"select * from {table} where {condition}")
            assert sorted(row.id for row in frame.collect()) == expected, condition
            fewer += "ds" not in condition and read_files(frame) < len(data_files(project, "m"))
    assert fewer >= 12


def test_file_without_valid_statistics_is_read(project: Project, extension: None, spark: SparkSession) -> None:
    """Cover rows of other writers, a file replaced by one with the same name, and damaged or deleted file statistics."""
    project.build("select id as o from range(0, 400, 1, 2)", **ORGANIZED)
    table, folder = project.table("m"), project.location("m")

    def found(low: int) -> list[int]:
        spark.catalog.refreshTable(table)
        return sorted(row.o for row in spark.sql(f"select o from {table} where o >= {low}").collect())

    assert found(395) == [395, 396, 397, 398, 399]
    with setting(spark, "spark.bucketing.write.distribute", "false"):
        spark.sql(f"insert into {table} values (1000)")
    assert found(398) == [398, 399, 1000]
    first, last = (
        project.rows(f"select input_file_name() as f from {table} where o = {o}")[0].f.split("/")[-1] for o in (0, 1000)
    )
    (folder / f".{first}.crc").unlink()
    (folder / last).rename(folder / first)
    assert found(398) == [398, 399, 1000] and found(0)[0] == 40
    (part,) = (folder / "_file_statistics").glob("*/part-*")
    part.with_name(f".{part.name}.crc").unlink()
    part.write_bytes(b"PAR1 is not all")
    assert found(398) == [398, 399, 1000]
    part.unlink()
    assert found(398) == [398, 399, 1000]


@pytest.mark.long
def test_statistics_may_have_timestamps_in_milliseconds(project: Project, extension: None, spark: SparkSession) -> None:
    """The session that writes the statistics uses milliseconds, but the files have microseconds."""
    project.build("select timestamp_micros(id * 1001) as o from range(0, 200, 1, 2)", **ORGANIZED)
    with setting(spark, "spark.sql.parquet.outputTimestampType", "TIMESTAMP_MILLIS"):
        assert command(project, "table", "stats", project.table("m"), "--repair").exit_code == 0
    for number in (39, 79, 119, 159, 199, 3):
        found = spark.sql(f"select * from {project.table('m')} where o = timestamp_micros({number} * 1001)").collect()
        assert len(found) == 1, number


LINES = "select id div 3 * 7 as order_id, id as line, if(id % 2 = 0, 'a', 'b') as ds from range(900) where id not between 300 and 400"


@pytest.mark.parametrize("groups", [{}, {"partition_by": ["ds"]}, {"implicit_partition_by": ["ds"]}])
@pytest.mark.long
def test_ranges_follow_the_boundaries_of_another_table(project: Project, groups: dict[str, Any]) -> None:
    """Each file has a range from the other table; a partition that the other table lacks gets one file."""
    orders = "select id * 7 as o, if(id % 2 = 0, 'a', 'b') as ds from range(0, 280, 1, 3)"
    project.model("orders", orders, **ORGANIZED, **groups)
    config = {**TABLE, "range_by": "order_id", "range_boundaries_from": "ref('orders')", **groups}
    lines = f"{LINES} union all select -5, -1, 'c' union all select null, -2, 'a'"
    project.model("lines", f"-- depends_on: {{{{ ref('orders') }}}}\n{lines}", **config)
    project.dbt("--warn-error", "run")
    by = "ds" if groups else "''"
    begins = {key: [row.lower for row in rows] for key, rows in files_of(project, "orders", groups=by).items()}
    for key, files in files_of(project, "lines", order="order_id", groups=by).items():
        known = begins.get(key, [])
        places = [sum(lower <= row.lower for lower in known) for row in files if row.lower is not None]
        ends = [sum(lower <= row.upper for lower in known) for row in files if row.lower is not None]
        assert places == sorted(set(places)) or (places[0] == 0 and key != "c")
        assert all(one == other or one == 0 for one, other in zip(places, ends, strict=True)), (key, places, ends)
    assert_same_rows(project, lines, "lines")


@pytest.mark.long
@pytest.mark.usefixtures("extension")
def test_increments_follow_the_boundaries_of_another_table(project: Project) -> None:
    rows = "select id as o, if(id % 2 = 0, 'a', 'b') as ds from range({})"
    config = {**ORGANIZED, "partition_by": ["ds"]}
    project.model("orders", rows.format(280), **config)
    shared = {**config, "materialized": "organized_incremental", "rows_per_file": None}
    for strategy in ("append", "insert_overwrite"):
        sql = f"-- depends_on: {{{{ ref('orders') }}}}\n{rows.format(1900)}"
        project.model(strategy, sql, **shared, incremental_strategy=strategy, range_boundaries_from="ref('orders')")
    for run in (1, 2):
        project.dbt("run")
        bounds = {key: [row.lower for row in of][1:] for key, of in files_of(project, "orders", groups="ds").items()}
        for name, times in (("append", run), ("insert_overwrite", 1)):
            for key, files in files_of(project, name, groups="ds").items():
                assert sum(row.n for row in files) == 950 * times and len(files) == times * (len(bounds[key]) + 1)
                places = [[sum(bound <= value for bound in bounds[key]) for value in (f.lower, f.upper)] for f in files]
                assert all(first == last for first, last in places), (name, key, places)
    assert project.tables() == {"orders", "append", "insert_overwrite"}


@pytest.mark.long
def test_boundaries_require_a_table_with_ranges(project: Project) -> None:
    project.model("plain", "select 1 as o", materialized="table")
    project.model("parted", "select id as o, 'a' as ds from range(9)", **ORGANIZED, partition_by=["ds"])
    project.dbt("run")
    for bounds, message in (
        ("ref('plain')", "an existing table of a model with `range_by`"),
        ("parted", "the `partition_by` of this model"),
    ):
        project.model(
            "m",
            "-- depends_on: {{ ref('plain') }} {{ ref('parted') }}\nselect 1 as o",
            **ORGANIZED,
            range_boundaries_from=bounds,
        )
        with pytest.raises(Failed, match=rf"(?s)`range_boundaries_from`.*{message}"):
            project.dbt("run", "--select", "m")


@pytest.mark.parametrize(
    ("nulls", "files"),
    [(500, 6), pytest.param(950, 2, marks=pytest.mark.long), pytest.param(998, 2, marks=pytest.mark.long), (1000, 1)],
)
@pytest.mark.some(1)
def test_nulls_are_ignored_when_files_are_planned(project: Project, nulls: int, files: int) -> None:
    sql = f"select if(id < {nulls}, null, id) as o, id as k from range(0, 1000, 1, 3)"
    project.model("m", sql, **{**ORGANIZED, "rows_per_file": 100})
    project.dbt("--warn-error", "run")
    found = files_of(project, "m")[""]
    assert len(found) == files
    assert [row.n for row in found if row.lower is None] == [nulls]
    assert all(row.n == 100 or files == 2 for row in found if row.lower is not None)


@pytest.mark.long
def test_timestamps_in_orc_are_not_used_as_ranges(project: Project, extension: None, spark: SparkSession) -> None:
    config = {**TABLE, "range_by": "ts", "rows_per_file": 40, "file_format": "orc"}
    times = "select timestamp'2024-01-01' + make_interval(0, 0, 0, 0, cast(id as int)) as ts from range(400)"
    project.model("m", times, **config)
    with pytest.raises(Failed, match=r"(?s)`range_by`.*ts timestamp, in ORC.*cast\(ts as timestamp_ntz\)"):
        project.dbt("run")
    table = project.table("m")
    spark.sql(
        f"create table {table} using orc tblproperties ('bucketing.range_by' = '[\"ts\"]') as {times} order by ts"
    )
    spark.sql(f"insert into {table} select timestamp'2025-01-01'")
    assert command(project, "table", "stats", table, "--repair").exit_code == 0
    frame = spark.sql(f"select * from {table} where ts > timestamp'2024-12-31'")
    assert len(frame.collect()) == 1 and read_files(frame) == len(data_files(project, "m")) > 1


# For each type, values and literals to compare, including equal values in different notation and special sort orders.
COMPARED = {
    "text": (
        "case id % 7 when 0 then '' when 1 then concat('x', repeat(' ', cast(id % 3 as int))) else concat(char(cast(65 + id % 60 as int)), id) end",
        ["''", "'x '", "'M12'"],
    ),
    "double": (
        "cast(case id % 10 when 0 then 'NaN' when 1 then '-0.0' when 2 then '0.0' when 3 then '-Infinity' else id * 0.1 end as double)",
        ["-0.0D", "double('NaN')", "0.5"],
    ),
    "date": ("date'1581-12-25' + cast(id * 37 as int)", ["date'1600-01-01'", "timestamp'1601-01-01 12:00:00'"]),
    "decimal": ("cast(id * 1.37 - 100 as decimal(10, 2))", ["27.254", "double(10)"]),
}
COMPARISONS = (
    "{o} = {v}", "{o} < {v}", "{o} >= {v}", "not ({o} <=> {v})", "{o} not in ({v})", "{o} = {v} or {o} is null", "not ({o} > {v})",
    "{o} in (select {o} from {t} where id in (1, 7, 22))",
)  # fmt: skip


@pytest.mark.parametrize(("file_format", "step"), [("orc", 3), ("orc", 1), ("parquet", 1)])
@pytest.mark.long
def test_filters_of_every_type_find_the_same_rows(
    project: Project, extension: None, spark: SparkSession, file_format: str, step: int
) -> None:
    """The quick test uses every third filter."""
    for name, (value, _) in COMPARED.items():
        rows = f"select id, if(id % 13 = 5, null, {value}) as o from range(400)"
        project.model(name, rows, **ORGANIZED, file_format=file_format)
    project.dbt("run")
    for name, (_, literals) in COMPARED.items():
        table = project.table(name)
        filters = [text.format(o="o", v=value, t=table) for text in COMPARISONS for value in literals]
        if name == "text":
            filters += ["o like 'M%'", "o like ''", "startswith(o, 'x')", "o like 'M1_'", "o like 'é%'"]
        for condition, expected in ids_found(spark, table, filters[::step]).items():
            found = sorted(row.id for row in spark.sql(f"select id from {table} where {condition}").collect())
            assert found == expected, (name, condition)


def test_comparison_with_null_finds_rows_that_the_optimizer_leaves_alone(spark: SparkSession, extension: None) -> None:
    spark.sql(
        "create table with_nulls (id bigint, o int) using parquet"
        """ tblproperties ('bucketing.range_by'='["o"]', 'bucketing.rows_per_file'='10')"""
    )
    rows = "select id, if(id < 20, cast(id as int), null) as o from range(27)"
    spark.sql(f"merge into with_nulls t using ({rows}) s on false when not matched then insert *")
    rule = "org.apache.spark.sql.catalyst.optimizer.NullPropagation"
    with setting(spark, "spark.sql.optimizer.excludedRules", rule):
        assert spark.sql("select count(*) from with_nulls where o <=> null").collect() == [(7,)]
    spark.sql("drop table with_nulls")
