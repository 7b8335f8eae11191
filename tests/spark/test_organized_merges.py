"""Tests that merges into organized tables rewrite only affected files, and that their rows equal a recomputation."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import pytest
from commands import command
from crashes import executing
from pyspark.sql import SparkSession
from session_settings import setting
from test_dbt_spark_parity import warnings
from test_organized_ranges import data_files, files_of, read_files

from conftest import Failed, Project

pytestmark = pytest.mark.usefixtures("extension_for_module")
MODEL: dict[str, Any] = {
    "materialized": "organized_incremental",
    "incremental_strategy": "merge",
    "unique_key": ["id"],
    "range_by": "o",
    "rows_per_file": 40,
}
COLUMNS = "id bigint, o int, s int, v string, ds string"
Row = tuple[Any, ...]


def row(chosen: random.Random, key: int) -> Row:
    """Return a random row with the columns COLUMNS; values include NULLs, frequent values and outliers."""
    value = chosen.choice(
        [None, 7, *[chosen.randrange(1000)] * 8, chosen.randrange(5000, 9000) if chosen.random() < 0.1 else 3]
    )
    return (key, value, key % 3, chosen.choice(["x", "y", None]), chosen.choice(["a b", "c%d", None, "=e/f"]))


def write(spark: SparkSession, table: str, rows: list[Row], columns: str = COLUMNS) -> None:
    spark.createDataFrame(rows, columns).write.mode("overwrite").saveAsTable(table)


def expected_rows(before: list[Row], delta: list[Row], keys: list[int], updates: list[int] | None = None) -> list[Row]:
    """Return the rows after a merge, sorted by key; the last element of a delta row is its operation."""
    rows: dict[Any, Row] = {}

    def of(row: Row) -> Row:
        return tuple(row[key] for key in keys)

    extra = [row for row in before if None in of(row)]
    rows = {of(row): row for row in before if None not in of(row)}
    for *new, operation in delta:
        key = of(tuple(new))
        if operation == "D":
            rows.pop(key, None)
        elif None in key:
            extra.append(tuple(new))
        elif key in rows and updates is not None:
            rows[key] = tuple(new[i] if i in updates else old for i, old in enumerate(rows[key]))
        else:
            rows[key] = tuple(new)
    return sorted([*rows.values(), *extra], key=str)


def rows_of(project: Project) -> list[Row]:
    project.spark.sql(f"refresh table {project.table('m')}")
    return sorted((tuple(found) for found in project.rows("select id, o, s, v, ds from {schema}.m")), key=str)


def model(project: Project, **config: Any) -> None:
    """Write a model that reads `base` first, and then `delta`, whose column `op` is not in the table."""
    sql = (
        "{% if is_incremental() %}select * from {{ target.schema }}.delta"
        "{% else %}select * from {{ target.schema }}.base{% endif %}"
    )
    project.model("m", sql, **{**MODEL, "delete_when": "op = 'D'", "merge_checks": False, **config})


def start(project: Project, rows: list[Row], **config: Any) -> None:
    """Write the model, and create its table with SQL, which is quicker than a run of the model."""
    write(project.spark, project.table("base"), rows)
    model(project, **config)
    partitioned = f"partitioned by ({', '.join(config['partition_by'])})" if config.get("partition_by") else ""
    properties = """'bucketing.range_by'='["o"]', 'bucketing.rows_per_file'='40'"""
    if "implicit_partition_by" in config:
        properties += f", 'bucketing.implicit_partition_by'='{json.dumps(config['implicit_partition_by'])}'"
    create = f"create table {project.table('m')} ({COLUMNS}) using parquet {partitioned}"
    project.spark.sql(f"{create} tblproperties ({properties})")
    project.spark.sql(f"insert into {project.table('m')} select * from {project.table('base')}")


# The hint of a model with merge_checks.
CHECKED = "/*+ merge_checks('files', 'once') */"


def merge(project: Project, delta: list[Row], hint: str = "") -> None:
    """Merge a delta with SQL."""
    write(project.spark, project.table("delta"), delta, f"{COLUMNS}, op string")
    project.spark.sql(
        f"merge into {project.table('m')} as m using (select {hint} * from {project.table('delta')}) as new on m.id = new.id"
        " when matched and op = 'D' then delete when matched then update set *"
        " when not matched and op <> 'D' then insert *"
    )


def changes(operation: str, ids: Iterable[int], o: int | None = None, v: str = "y", ds: str = "a") -> list[Row]:
    """Return rows of a delta with these ids, whose values of `o` are the ids by default."""
    return [(key, key if o is None else o, 0, v, ds, operation) for key in ids]


def files(project: Project) -> set[Any]:
    """Return the data files of the table with their times."""
    return {(path, (project.location("m") / path).stat().st_mtime_ns) for path in data_files(project, "m")}


def replaced(project: Project, delta: list[Row]) -> tuple[int, int]:
    """Merge a delta with SQL, and return the numbers of old files that are gone and of new files."""
    before = files(project)
    merge(project, delta, CHECKED)
    after = files(project)
    return len(before - after), len(after - before)


def run(project: Project, delta: list[Row]) -> None:
    """Merge a delta with a run of the model."""
    write(project.spark, project.table("delta"), delta, f"{COLUMNS}, op string")
    project.dbt("run")


def assert_file_statistics_are_exact(project: Project) -> None:
    """Check that the statistics contain every file, with disjoint ranges and correct values."""
    partition = "partition" if "ds=" in str(data_files(project, "m")) else "1"
    found = project.rows(
        f"select *, {partition} as g from file_statistics('{project.table('m')}') order by g, lower nulls last"
    )
    truth = {
        one.file: one
        for one in project.rows(
            "select element_at(split(_metadata.file_path, '/'), -1) as file, count(*) as rows, min(o) as lower, max(o) as upper, count(o) as valued"
            " from {schema}.m group by all"
        )
    }
    assert len(found) == len(truth)
    for of in found:
        real = truth[of.file.split("/")[-1]]
        assert (of.rows, of.lower.o, of.upper.o, of.rows - of.nulls) == (real.rows, real.lower, real.upper, real.valued)
    for one, other in pairwise(found):
        if one.g == other.g and None not in (one.lower.o, other.lower.o):
            assert one.upper.o < other.lower.o or getattr(one, "implicit_partition", 0) != getattr(
                other, "implicit_partition", 0
            )


CONFIGS: list[dict[str, Any]] = [
    {},
    {"partition_by": ["ds"]},
    {"partition_by": ["ds"], "implicit_partition_by": ["s"], "file_format": "orc"},
    {"partition_by": ["ds"], "unique_key": ["id", "ds"]},
    {"unique_key": ["id", "o"], "implicit_partition_by": ["s"]},
    {"partition_by": ["ds"], "unique_key": ["id", "o", "ds"]},
    {"merge_update_columns": ["v", "o"], "partition_by": ["ds"]},
]


@pytest.mark.long
@pytest.mark.parametrize("number", range(len(CONFIGS)))
def test_merges_give_the_same_rows_as_a_recomputation(project: Project, extension: None, number: int) -> None:
    """Merge random deltas with dbt: updates, deletes and inserts, rows that move to other partitions and files, and empty deltas."""
    chosen, config = random.Random(number), CONFIGS[number]
    names = ["id", "o", "s", "v", "ds"]
    keys = [names.index(name) for name in config.get("unique_key", ["id"])]
    updates = (
        [names.index(name) for name in config["merge_update_columns"]] if "merge_update_columns" in config else None
    )
    expected = [row(chosen, key) for key in range(900)]
    write(project.spark, project.table("base"), expected)
    model(project, **config)
    project.dbt("run")
    for share in (0.01, 0.2, 0, 1):
        present = [one for one in expected if chosen.random() < share]
        delta: list[Row] = []
        for one in present:
            other = (one[0], *row(chosen, one[0])[1:])
            kept = tuple(
                old if i in keys or chosen.random() < 0.5 else new
                for i, (old, new) in enumerate(zip(one, other, strict=True))
            )
            delta.append((*kept, chosen.choice("UUD") if share < 1 else "D" if one[0] % 5 else "U"))
        delta += [(*row(chosen, 1000 + round(1000 * share) * 2 + i), "I") for i in range(round(60 * share))]
        unique = {tuple(one[key] for key in keys): one for one in delta}
        delta = list(unique.values())
        run(project, delta)
        expected = expected_rows(expected, delta, keys, updates)
        assert rows_of(project) == expected, share
        assert_file_statistics_are_exact(project)
        assert project.tables() == {"m", "base", "delta"}


# An expression for the range column of each type, computed from a number n below 1000.
TYPES = {
    "double": "case when n % 7 = 0 then double('NaN') when n % 11 = 0 then -0.0D when n % 13 = 0 then 0.0D when n % 17 = 0 then double('-Infinity')"
    " when n % 19 = 0 then double('Infinity') when n % 23 = 0 then null else n / 7D - 50 end",
    "float": "case when n % 7 = 0 then float('NaN') when n % 11 = 0 then -0.0F else cast(n / 7D - 50 as float) end",
    "decimal": "cast(n * 1.00001 - 300 as decimal(38, 5))",
    "date": "date_add(date'1890-01-01', cast(n * 100 as int))",
    "timestamp": "timestamp_micros(n * 1000001 - 300000000)",
    "timestamp_ntz": "cast(timestamp_micros(n * 7) as timestamp_ntz)",
    "string": "case when n % 7 = 0 then '' when n % 11 = 0 then repeat('ab', 900) || n when n % 13 = 0 then '\U0001f600' || n else char(n % 500) || n end",
    "boolean": "n % 2 = 0",
    "tinyint": "cast(n % 256 - 128 as tinyint)",
}


@pytest.mark.long
@pytest.mark.parametrize("kind", TYPES)
def test_merges_work_for_range_columns_of_each_type(project: Project, extension: None, kind: str) -> None:
    value = TYPES[kind]
    project.spark.sql(
        f"create table {project.table('base')} using parquet as"
        f" select id, {value} as o, 'x' as v from (select id, pmod(xxhash64(id, 1), 1000) as n from range(900))"
    )
    project.spark.sql(
        f"create table {project.table('delta')} using parquet as"
        f" select id, {value} as o, 'y' as v, if(id < 900 and id % 3 = 0, 'D', 'U') as op from ("
        "select id, pmod(xxhash64(id, 1 + id % 2), 1000) as n from range(1000) where id >= 900 or xxhash64(id, 3) % 10 = 0)"
    )
    for number, keys in enumerate((["id"], ["o", "id"])):
        name = f"m{number}"
        sql = "select * from {{ target.schema }}.{{ 'delta' if is_incremental() else 'base' }}"
        project.model(name, sql, **MODEL | {"unique_key": keys, "delete_when": "op = 'D'"}, merge_checks=keys == ["id"])
        for _ in range(2):
            project.dbt("run", "--select", name)
        base, delta = project.table("base"), project.table("delta")
        expected = (
            f"select id, o, v from {base} left anti join {delta} using ({', '.join(keys)})"
            f" union all select id, o, v from {delta} where op <> 'D'"
        )
        found = project.spark.sql(f"select id, o, v from {project.table(name)}")
        expected_frame = project.spark.sql(f"select id, o, v from ({expected})")
        assert found.exceptAll(expected_frame).count() == expected_frame.exceptAll(found).count() == 0
        (overlaps,) = project.rows(
            "select count(*) as n from (select lower.o <= max(upper.o) over (order by lower.o, file rows between unbounded preceding and 1 preceding) as overlap"
            f" from file_statistics('{project.table(name)}') where lower.o is not null) where overlap"
        )
        assert overlaps.n == 0


def ranges(project: Project) -> list[tuple[int, int]]:
    query = f"select lower.o as lower, upper.o as upper from file_statistics('{project.table('m')}') order by 1"
    return [tuple(found) for found in project.rows(query)]


@pytest.mark.long
def test_only_affected_files_are_written(project: Project, extension: None) -> None:
    """Other files stay unchanged, rows beyond all ranges get new files, and a file that grows is split."""
    start(project, [(i, i, 0, "x", "a") for i in range(1000)], partition_by=["ds"])
    before = files(project)
    assert len(before) == 25 and replaced(project, changes("U", range(105, 110))) == (1, 1)
    # A scan that selects a file by name opens no other file, even right after a replacement.
    ((path, _),) = files(project) - before
    named = project.spark.sql(f"select id from {project.table('m')} where _metadata.file_name = '{path.name}'")
    assert len(named.collect()) == 40 and read_files(named) == 1
    # These rows are beyond all ranges, or in a new partition.
    assert replaced(project, changes("I", range(2000, 2100)) + changes("I", range(3000, 3010), ds="b")) == (0, 4)
    gone, new = replaced(project, [(3100 + i, 200 + i % 3, 0, "y", "a", "I") for i in range(100)])
    assert gone == 1 and 2 <= new <= 4
    assert_file_statistics_are_exact(project)


# Deltas of a table with ten files of 40 rows, and the numbers of old files that are gone and of new files.
FILES: dict[str, list[tuple[list[Row], tuple[int, int]]]] = {
    "deleted files do not affect adjacent files": [
        (changes("D", [*range(40), *range(80, 120), *range(200, 240)]), (3, 0)),
        # Rows added next to a deleted file still fit into one file.
        (changes("D", range(160, 200)) + changes("I", range(1000, 1025), o=150), (2, 1)),
    ],
    "files that shrink are merged with an adjacent file": [
        (changes("D", range(120, 155)), (2, 1)),
        (changes("D", range(35)), (2, 1)),
        # A small file stays until a file next to it is rewritten.
        (changes("I", range(1000, 1005)), (0, 1)),
        (changes("I", range(1010, 1040)), (1, 1)),
        (changes("D", range(5000)), (9, 0)),
        (changes("I", [1]), (0, 1)),
    ],
}


@pytest.mark.long
@pytest.mark.parametrize("name", FILES)
def test_merge_replaces_these_files(project: Project, extension: None, name: str) -> None:
    rows: list[Row] = [(i, i, 0, "x", "a") for i in range(400)]
    start(project, rows)
    for delta, numbers in FILES[name]:
        assert replaced(project, delta) == numbers
        rows = expected_rows(rows, delta, [0])
        assert rows_of(project) == rows
        assert_file_statistics_are_exact(project)


@pytest.mark.long
def test_adjacent_files_that_do_not_shrink_keep_their_ranges(project: Project, extension: None) -> None:
    """The same merge splits another file."""
    start(project, [(i, i, 0, "x", "a") for i in range(400)])
    built = ranges(project)
    assert replaced(project, changes("U", (5, 45, 85))) == (3, 3)
    assert ranges(project) == built
    added = [(1000 + i, 280 + i % 40, 0, "z", "a", "I") for i in range(50)]
    replaced(project, changes("U", (5, 45)) + added)
    assert set(built[:7] + built[8:]) < set(ranges(project)) and len(ranges(project)) == 12
    rows = project.rows(f"select rows from file_statistics('{project.table('m')}') where lower.o between 280 and 319")
    assert sum(row.rows for row in rows) == 90 and max(row.rows for row in rows) <= 40


@pytest.mark.long
def test_oversized_file_of_one_value_is_not_merged(project: Project, extension: None) -> None:
    """Combining the files would not help, and every merge would rewrite the file with the small file next to it."""
    ordinary = [(i, i, 0, "x", "a") for i in [*range(80), *range(200, 280)]]
    start(project, [*ordinary, *[(1000 + i, 100, 0, "heavy", "a") for i in range(200)]])
    assert ranges(project) == [(0, 39), (40, 79), (100, 100), (200, 239), (240, 279)]
    assert replaced(project, changes("D", range(200, 235)))[0] == 2
    assert ranges(project)[2:] == [(100, 100), (235, 279)]
    assert replaced(project, changes("D", range(235, 275))) == (1, 1)
    assert ranges(project)[2:] == [(100, 100), (275, 279)]


REFUSED: list[tuple[list[Row], dict[str, Any], str]] = [
    ([(1, 5, 0, "x", "a", "U"), (1, 6, 0, "x", "a", "U")], {}, r"several new rows with the key \{.id.:1\}"),
    ([(5000, 5, 0, "x", "a", "D")], {}, r"`delete_when`.*rows to delete whose keys are not in the table.*5000"),
    ([(5000, 5, 0, "x", "a", "U")], {}, r"`update_when`.*rows to update.*5000"),
    ([(1, 5, 0, "x", "a", "I")], {}, r"`insert_when`.*already in the table.*:1"),
    ([(1, 5, 0, "x", "a", "I")], {"delete_when": "opp = 'D'"}, r"`delete_when`.*UNRESOLVED_COLUMN"),
    ([(7, 5, 0, "x", "a", "U")], {}, r"several rows of the table that match the new row with the key \{.id.:7\}"),
    ([(1, 5, 0, "x", "a", "U")], {"incremental_predicates": ["DBT_INTERNAL_SOURCE.op = 'U'"]}, r"`incremental_predicates`.*UNRESOLVED_COLUMN.*op"),
    ([(1, 5, 0, "x", "a", "U")], {"range_by": "s"}, "`range_by`.*the `range_by` of the table: o.*full-refresh"),
    ([(1, 5, 0, "x", "a", "U")], {"unique_key": ["idd"]}, "`unique_key`.*idd"),
]  # fmt: skip


@pytest.mark.parametrize(
    "refused", [REFUSED[:2], pytest.param(REFUSED[2:], marks=pytest.mark.long)], ids=["some", "others"]
)
def test_invalid_merge_changes_nothing(project: Project, extension: None, refused: list[Any]) -> None:
    checked = {"merge_checks": True, "insert_when": "op = 'I'", "update_when": "op = 'U'"}
    start(project, [*[(i, i, 0, "x", "a") for i in range(100)], (7, 50, 0, "twice", "a")], **checked)
    before = rows_of(project), data_files(project, "m")
    for delta, config, message in refused:
        sql = "select * from {{ target.schema }}.delta"
        project.model("m", sql, **{**MODEL, "delete_when": "op = 'D'", **checked, **config})
        with pytest.raises(Failed, match=f"(?s){message}"):
            run(project, delta)
        assert (rows_of(project), data_files(project, "m")) == before, message


@pytest.mark.long
def test_rows_that_are_already_merged_can_be_merged_again(project: Project, extension: None) -> None:
    """A run that is killed after its commit repeats its rows; this fails if the table has changed since."""
    start(project, [(i, i, 0, "x", "a") for i in range(100)], merge_checks=True, insert_when="op = 'I'")
    delta = [(1, 1, 0, "y", "a", "U"), (500, 5, 0, "n", "a", "I"), (2, 2, 0, "x", "a", "D")]
    run(project, delta)
    merged, before = rows_of(project), files(project)
    run(project, delta)
    assert files(project) == before and rows_of(project) == merged
    project.spark.sql(f"insert into {project.table('m')} values (2, 2, 0, 'back', 'a')")
    with pytest.raises(Failed, match="are already in the table"):
        run(project, delta)
    run(project, [(2, 2, 0, "back", "a", "D"), (500, 5, 0, "n", "a", "D")])
    with pytest.raises(Failed, match="rows to delete whose keys are not in the table"):
        run(project, delta)
    assert project.tables() == {"m", "base", "delta"}


@pytest.mark.parametrize(
    ("damaged", "checks", "found"),
    [
        pytest.param("rows", False, r"range.s. whose row count is wrong", marks=pytest.mark.long),
        ("checksum", True, r"old file.s. that differ from their file statistics"),
    ],
)
@pytest.mark.long
def test_wrong_new_files_are_not_committed(
    project: Project, extension: None, damaged: str, checks: bool, found: str
) -> None:
    """The file statistics are wrong; only merge_checks compares the checksums."""
    start(project, [(i, i, 0, "x", "a") for i in range(400)], merge_checks=checks)
    before = rows_of(project), data_files(project, "m")
    (part,) = (project.location("m") / "_file_statistics").glob("[0-9]*")
    wrong = project.spark.read.parquet(str(part)).selectExpr(
        "*", f"cast({damaged} + 1 as {'bigint' if damaged == 'rows' else 'decimal(38, 0)'}) as wrong"
    )
    wrong.drop(damaged).withColumnRenamed("wrong", damaged).write.parquet(str(part.with_name("2")))
    shutil.rmtree(part)
    with pytest.raises(Failed, match=rf"(?s)found:    1 {found}.*the table is unchanged.*table stats --repair"):
        run(project, changes("U", range(105, 110)))
    assert (rows_of(project), data_files(project, "m")) == before
    assert command(project, "table", "stats", project.table("m"), "--repair").exit_code == 0
    project.dbt("run")
    assert project.rows("select count(*), count_if(v = 'y') from {schema}.m")[0] == (400, 5)


@pytest.mark.long
def test_files_with_names_from_other_writers_are_found(project: Project, extension: None) -> None:
    """File names may contain spaces and escape sequences."""
    start(project, [(i, i, 0, "x", "a") for i in range(400)])
    for number, path in enumerate(sorted((project.location("m")).glob("part-*"))[:5]):
        path.rename(path.with_name(f"part %20{number}+é'.parquet"))
    project.spark.sql(f"refresh table {project.table('m')}")
    merge(project, [(i, i, 0, "y", "a", "U" if i % 2 else "D") for i in range(0, 100)], CHECKED)
    assert project.rows("select count(*), count_if(v = 'y') from {schema}.m")[0] == (350, 50)


def test_rows_to_delete_are_excluded_from_a_build(project: Project, extension: None) -> None:
    sql = "select id, cast(id as int) as o, if(id % 4 = 0, 'D', 'I') as op from range(100)"
    project.build(sql, **MODEL, delete_when="op = 'D'")
    assert project.rows("select count(*) from {schema}.m")[0] == (75,)


# The query has a column with a similar name, and the build must not include the rows to delete.
ROWS = "select id, cast(id as int) as o, if(id < 3, 'D', 'U') as operation from range(10)"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"delete_when": "operatoin = 'D'"}, "`delete_when`.*which has no column operatoin.*instead:  operation"),
        ({"unique_key": ["idd"]}, "`unique_key`.*idd"),
    ],
)
def test_missing_column_is_found_by_the_first_run(
    project: Project, extension: None, config: dict[str, Any], message: str
) -> None:
    project.model("m", ROWS, **MODEL | config)
    with pytest.raises(Failed, match=f"(?s){message}"):
        project.dbt("run")
    assert project.tables() == set()


@pytest.mark.long
def test_merge_covers_new_columns_and_files_of_other_writers(project: Project, extension: None) -> None:
    """Merges include rows of other writers; files from before a column was added have no statistics of the column."""
    start(project, [(i, i, 0, "x", "a") for i in range(200)], on_schema_change="append_new_columns", merge_checks=True)
    built = set(project.files("m"))
    rows = "select id, cast(id as int), 0, 'other', 'b' from range(300, 400, 1, 2)"
    with setting(project.spark, "spark.bucketing.write.distribute", "false"):
        project.spark.sql(f"insert into {project.table('m')} {rows}")
    of_others = set(project.files("m")) - built
    write(
        project.spark,
        project.table("delta"),
        [(i, i, 0, "new", "a", "U", i) for i in range(150, 350)],
        f"{COLUMNS}, op string, extra int",
    )
    project.dbt("run")
    found: dict[str, int] = dict(project.rows("select v, count(*) as n from {schema}.m group by v"))
    assert found == {"x": 150, "new": 200, "other": 50}
    assert project.rows("select count(extra), sum(extra), count(op) from {schema}.m")[0] == (
        200,
        sum(range(150, 350)),
        200,
    )
    unknown = project.rows(f"select count(*) from file_statistics('{project.table('m')}') where rows is null")[0][0]
    assert unknown == len(of_others & set(project.files("m"))), (
        "unaffected files of other writers must stay without statistics"
    )
    merge_again = [(i, i, 0, "again", "a", "D" if i % 2 else "U", None) for i in range(0, 60)]
    write(project.spark, project.table("delta"), merge_again, f"{COLUMNS}, op string, extra int")
    project.dbt("run")
    assert dict(project.rows("select v, count(*) as n from {schema}.m group by v")) == {
        "x": 90,
        "again": 30,
        "new": 200,
        "other": 50,
    }


@pytest.mark.long
def test_file_of_several_input_splits_is_merged(project: Project, extension: None) -> None:
    """Other writers do not assign rows to files by value; the statistics have a row for each value in such a file."""
    start(project, [(i, i, i % 3, "x", "a") for i in range(90)], implicit_partition_by=["s"])
    project.spark.sql(
        f"insert into {project.table('m')} select id, cast(id as int), cast(id % 3 as int), 'o', 'a' from range(500, 530, 1, 1)"
    )
    assert command(project, "table", "stats", project.table("m"), "--repair").exit_code == 0
    for s in range(3):
        assert project.rows(f"select count(*) from {{schema}}.m where s = {s}")[0] == (40,)
    merge(project, [(i, i, i % 3, "y", "a", "U") for i in range(505, 510)])
    assert project.rows("select count(*), count_if(v = 'y') from {schema}.m")[0] == (120, 5)
    assert len(files_of(project, "m", groups="s")) == 3


@pytest.mark.long
def test_columns_may_have_names_that_a_merge_uses(project: Project, extension: None) -> None:
    """A checked merge updates ten rows and adds ten."""
    columns = (
        "id as there, id as o, id % 2 as hash, id % 3 as copies, id % 2 as file, id % 3 as rows, id % 5 as checksum"
    )
    new = "select id from range(10) union all select id from range(400, 410)"
    for name, rest in (("base", "'old' as v from range(400)"), ("delta", f"'new' as v, 'U' as op from ({new})")):
        project.spark.sql(f"create table {project.table(name)} using parquet as select {columns}, {rest}")
    model(project, merge_checks=True, unique_key=["there"], partition_by=["file"], implicit_partition_by=["rows"])
    for _ in range(2):
        project.dbt("run")
    assert project.rows("select count(*), count_if(v = 'new') from {schema}.m")[0] == (410, 20)
    assert not project.rows(f"select * from file_statistics('{project.table('m')}') where rows is null")


@pytest.mark.long
def test_column_names_may_change_case(project: Project, extension: None) -> None:
    """A later run spells its column names differently; the statistics must still cover all files."""
    sql = (
        "{% if is_incremental() %}select id as ID, id as O, id % 2 as S, 'b' as DS from range(390, 410)"
        "{% else %}select id, id as o, id % 2 as s, 'a' as ds from range(400){% endif %}"
    )
    project.model("m", sql, **MODEL, partition_by=["ds"], implicit_partition_by=["s"])
    project.dbt("run")
    project.dbt("run")
    assert project.rows("select count(*), count_if(ds = 'b') from {schema}.m")[0] == (410, 20)
    assert not project.rows(f"select * from file_statistics('{project.table('m')}') where rows is null")


@pytest.mark.long
def test_table_without_known_files_gets_new_ranges(project: Project, extension: None, spark: SparkSession) -> None:
    """All rows or the statistics are deleted, so sizes come from the column types, and no range boundaries exist."""

    def act(execute: Callable[[str], None], sql: str) -> None:
        spark.conf.set("spark.sql.ansi.enabled", "true")
        execute(sql)

    start(project, [(i, i, 0, "x", "a") for i in range(100)])
    sized = {key: value for key, value in MODEL.items() if key != "rows_per_file"}
    project.model(
        "m", "select * from {{ target.schema }}.delta", **sized, target_file_size="2KiB", delete_when="op = 'D'"
    )
    with setting(spark, "spark.sql.ansi.enabled", "true"), executing(act):
        run(project, changes("D", range(100)))
        run(project, changes("I", range(50)))
        for part in (project.location("m") / "_file_statistics").iterdir():
            shutil.rmtree(part)
        delta = changes("U", range(40, 60), v="z")
        write(spark, project.table("delta"), delta, f"{COLUMNS}, op string")
        assert re.search(r"the file statistics do not cover \d+ files .*table stats --repair", warnings(project))
        run(project, delta)
    assert project.rows("select count(*), count_if(v = 'z') from {schema}.m")[0] == (60, 20)


@pytest.mark.long
def test_rows_excluded_by_predicates_do_not_change(project: Project, extension: None) -> None:
    """As in dbt, the merge adds a new row with such a key."""
    rows: list[Row] = [(i, i, i % 2, "x", "a") for i in range(100)]
    start(project, rows, incremental_predicates=["DBT_INTERNAL_DEST.s = 1"], merge_checks=True)
    run(project, [(i, i, 5, "y", "a", "U") for i in range(50, 54)])
    assert project.rows("select count(*), count_if(v = 'y') from {schema}.m")[0] == (102, 4)
