"""Tests of MERGE INTO, UPDATE and DELETE on organized and bucketed tables: errors, checks of a merge, and special cases."""

from __future__ import annotations

import re
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import pytest
from bucketed_tables import Tables, explain
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from statement_cases import UPSERT, read, run_case, run_steps, statement_cases, worded

LAYOUTS = {
    "organized": """using parquet tblproperties ('bucketing.range_by'='["o"]', 'bucketing.rows_per_file'='10')""",
    "bucketed": "clustered by (o) sorted by (id) into 4 buckets stored as orc tblproperties ('bucketing_version'='2')",
}
of_each_layout = pytest.mark.parametrize("table", LAYOUTS, indirect=True)


@pytest.fixture(scope="module")
def tables(tables: Tables) -> Tables:
    first = "select id, cast(id as int) as o, 'v' as v, 'c ' as c from range(40)"
    tables.sql(f"create or replace temporary view first_rows as {first}")
    tables.spark.udf.register("same", lambda value: value, "bigint")
    tables.spark.udf.register("text", lambda value: value, "string")
    return tables


@pytest.fixture
def table(tables: Tables, extension: None, request: pytest.FixtureRequest) -> None:
    layout = LAYOUTS[getattr(request, "param", "organized")]
    tables.create(f"changed (id bigint, o int, v varchar(3), c char(2)) {layout}")
    tables.sql("merge into changed using first_rows on false when not matched then insert *")


@statement_cases("row_changes", *LAYOUTS)
@pytest.mark.usefixtures("table")
def test_statements_have_the_results_of_their_cases(tables: Tables, case: Mapping[str, Any]) -> None:
    run_case(tables, case, "changed")


MERGES: dict[str, Any] = {
    worded(f"merge into changed as t using {of}", {}): result for of, result in read("merges").items()
}
# Each case runs a third of the statements. The quick cases run all statements and use each location of the source.
QUICK = (("organized", "4m", 0), ("bucketed", "300", 1), ("organized", "0", 2))
SOURCES = [
    pytest.param(*case, marks=[] if case in QUICK else pytest.mark.long)
    for case in product(LAYOUTS, ("4m", "300", "0"), range(3))
]


@pytest.mark.parametrize(("table", "driver_bytes", "part"), SOURCES, indirect=["table"])
@pytest.mark.usefixtures("table")
def test_merge_changes_the_same_rows_wherever_its_source_is_stored(
    tables: Tables, driver_bytes: str, part: int
) -> None:
    with tables.settings({"spark.bucketing.write.driverBytes": driver_bytes, "spark.sql.ansi.enabled": "true"}):
        for merge, result in list(MERGES.items())[part::3]:
            if isinstance(result, str):
                run_steps(tables, {merge: result}, "changed")
                continue
            updated, deleted, inserted = result
            steps = {
                merge: [[sum(result), *result]],
                "select count(*) from (select * from changed except all select * from first_rows)": updated + inserted,
                "select count(*) from changed": 40 - deleted + inserted,
                "insert overwrite changed select * from first_rows": None,
            }
            run_steps(tables, steps, "changed")


@of_each_layout
@pytest.mark.usefixtures("table")
def test_merge_of_few_rows_runs_few_jobs(tables: Tables) -> None:
    """It stores the source, compares it with the table, distributes the inserted rows, and writes files."""
    store = tables.spark._jsparkSession.sparkContext().statusStore()
    # Without broadcasts, as some tests leave the session, Spark would shuffle both sides of each join.
    with tables.settings({"spark.sql.autoBroadcastJoinThreshold": "10m"}):
        for merge in list(MERGES)[:2]:
            before = store.jobsList(None).size()
            run_steps(tables, {merge: None}, "changed")
            assert store.jobsList(None).size() - before <= 4


TXN = "spark.bucketing.write.txn"
REPEATED = (
    "insert into changed values (90, 90, 'v', 'c')",
    "update changed set o = o + 1 where id < 3",
    "merge into changed as t using (select 1 as id) as s on t.id = s.id when matched then update set o = t.o + 1",
    "delete from changed where o = (select max(o) from changed)",
    "insert overwrite changed select cast(1e9 * rand() as bigint), 1, 'v', 'c'",
)


@of_each_layout
@pytest.mark.usefixtures("table")
@pytest.mark.parametrize("statement", REPEATED)
@pytest.mark.some(1)
def test_version_of_an_application_is_written_once(tables: Tables, statement: str) -> None:
    """A version stays known after other statements and other applications have deleted earlier records."""

    def has_changed(app: str, version: int) -> bool:
        with tables.settings({f"{TXN}AppId": app, f"{TXN}Version": str(version)}):
            before, found = tables.rows("select * from changed"), tables.sql(statement)
            changed = tables.rows("select * from changed") != before
            assert changed or not any(value for row in found for value in row)
            return changed

    assert has_changed("a", 5) and not has_changed("a", 5) and not has_changed("a", 4)
    assert has_changed("b", 4) and not has_changed("b", 4)
    for _ in range(3):
        tables.sql("insert into changed values (91, 91, 'v', 'c')")
        tables.sql("update changed set v = 'w' where id = 91")
    assert not has_changed("a", 5) and not has_changed("b", 4) and has_changed("a", 6)


@of_each_layout
@pytest.mark.usefixtures("table")
@pytest.mark.some(1)
def test_version_without_an_application_is_an_error(tables: Tables) -> None:
    for name, other in (("AppId", "Version"), ("Version", "AppId")):
        with tables.settings({f"{TXN}{name}": "1"}):
            message = f"(?s)txn{name} alone.*set {TXN}{other}"
            run_steps(tables, dict.fromkeys(REPEATED[:2], message), "changed")


KEYS = "select /*+ merge_checks('keys') */ * from twice"


@pytest.mark.parametrize(
    ("source", "checked"),
    [
        (f"({KEYS}) as s", True),
        (f"({KEYS} order by id limit 5) as s", True),
        (f"({KEYS} union all select 7L) as s", True),
        (f"(select * from ({KEYS})) as s", True),
        (f"(with c as (select 1) {KEYS}) as s", True),
        (f"({KEYS.replace('/*+', '/*+ broadcast(twice),')}) as s", True),
        (f"(with c as ({KEYS}) select * from c) as s", False),
        (f"(select * from twice where id in ({KEYS})) as s", False),
    ],
)
@pytest.mark.usefixtures("table")
@pytest.mark.some(2)
def test_hint_of_the_source_is_applied_or_an_error(tables: Tables, source: str, checked: bool) -> None:
    tables.sql("create or replace temporary view twice as select 3L as id union all select 3L")
    ignored = "Cannot apply the hint `MERGE_CHECKS`"
    merge = f"merge into changed as t using {source} on t.id = s.id when matched then delete"
    steps = dict.fromkeys(
        [merge, f"with x as (select 1) {merge}"], "several new rows with the key" if checked else ignored
    )
    steps |= {f"delete from changed where id in ({KEYS})": ignored}
    if checked:
        steps |= {f"explain {merge.replace('t.id = s.id', 'false')}": "reads 0 of"}
    run_steps(tables, steps, "changed")


# The type of an implicit partition column and of a partition column, with expressions for their values.
TYPED = {
    "binary": "cast('k' || id % 2 as binary)",
    "double": "element_at(array(0.0D, -0.0D, double('nan')), cast(1 + id % 3 as int))",
    "decimal(10,2)": "cast(id % 2 as decimal(10,2))",
    "boolean": "cast(id % 2 as boolean)",
    "date": "date_add(date'1969-12-31', cast(id % 2 as int))",
}


@pytest.mark.usefixtures("extension")
@pytest.mark.parametrize("column", TYPED)
@pytest.mark.some(1)
def test_statements_find_partitions_and_implicit_partitions_of_each_type(tables: Tables, column: str) -> None:
    """Values that Spark considers equal are in the same files, such as 0.0 and -0.0."""
    of_partition, part = ("int", "cast(id % 2 as int)") if column == "double" else (column, TYPED[column])
    tables.create(
        f"typed (id bigint, k {column}, p {of_partition}) using parquet partitioned by (p)"
        """ tblproperties ('bucketing.implicit_partition_by'='["k"]', 'bucketing.rows_per_file'='10')"""
    )
    filled = f"select id, {TYPED[column]} as k, {part} as p from range(60)"
    merge = f"merge into typed as t using ({filled}) as s on t.id = s.id and t.k = s.k and t.p = s.p"
    of_one = "(select {} from typed where id = 101)"
    steps = {
        f"{merge} when not matched then insert *": [[60, 0, 0, 60]],
        f"{merge} when matched then update set id = s.id + 100 when not matched then insert *": [[60, 60, 0, 0]],
        f"update typed set k = {of_one.format('k')}, p = {of_one.format('p')} where id < 130": 30,
        "select count(*) - count(rows), sum(rows) from file_statistics('typed')": [[0, 60]],
        "select count(distinct p) from typed where id between 100 and 129": 1,
        "select min(id), max(id), count(*) from typed": [[100, 159, 60]],
    }
    run_steps(tables, steps, "typed")


@of_each_layout
@pytest.mark.usefixtures("table")
@pytest.mark.some(1)
def test_statements_of_all_kinds_at_once_lose_no_row(tables: Tables) -> None:
    """Three sessions change rows of the same files. Each statement takes effect once, or fails with a clear error."""
    source = "select explode(array(11L, 100L + count(*))) as id, 11 as o from changed where id >= 100"
    statements = [
        "update changed set v = concat(v, 'u') where id in (1, 12)",
        "delete from changed where id = (select max(id) from changed where id between 13 and 19)",
        f"merge into changed as t using ({source}) as s on t.id = s.id {UPSERT.replace('= s.o', '= t.o + 1')}",
    ]
    counts = [0, 0, 0]

    def run(number: int) -> None:
        settings = {"spark.sql.shuffle.partitions": "1", "spark.bucketing.write.recoverAfter": "0"}
        session = tables.new_session(settings)
        for _ in range(2):
            session.sql(statements[number]).collect()
            counts[number] += 1

    with ThreadPoolExecutor(3) as pool:
        failures = [started.exception() for started in [pool.submit(run, number) for number in range(3)]]
    clear = re.compile("run it again|Run the query again")
    unclear = [str(failure) for failure in failures if failure and not clear.search(str(failure))]
    assert not unclear
    updated, deleted, merged = counts
    assert sum(counts) > 2
    tables.sql("refresh table changed")
    found = {key: (o, v) for key, o, v, _ in tables.sql("select * from changed")}
    assert found.keys() == {*range(20 - deleted), *range(20, 40), *range(100, 100 + merged)}
    assert [found[key][1] for key in (1, 12)] == ["v" + "u" * updated] * 2
    assert found[11] == (11 + merged, "v")


@pytest.mark.usefixtures("table")
def test_statement_shows_which_files_it_reads_and_replaces(tables: Tables) -> None:
    """EXPLAIN shows the files before the statement runs; the metrics show the replaced files."""
    found_files = r"spark_catalog\.row_changes\.changed, reads 1 of 4 listed files\n"
    merge = (
        "merge into changed t using (select 15L as id, 15 as o) s on t.id = s.id and t.o = s.o when matched then delete"
    )
    steps = {
        "explain delete from changed where o = 15": found_files,
        "explain formatted delete from changed where o = 15": found_files,
        f"explain {merge}": "reads 4 of 4 listed files, before the keys of the source are compared",
        merge: 1,
    }
    run_steps(tables, steps, "changed")
    found = metrics(tables.spark)
    sizes = [float(str(found.pop(f"size of files {kind}")).split()[0]) for kind in ("written", "replaced")]
    assert 0 < sizes[0] < sizes[1]
    assert found == {
        "files listed": 4,
        "files searched for rows": 1,
        "files replaced": 1,
        "files written": 1,
        "rows updated": 0,
        "rows deleted": 1,
        "rows inserted": 0,
    }


PARTITIONED = {
    "organized": "(id bigint, v int, p int, q string) using parquet partitioned by (p, q)"
    """ tblproperties ('bucketing.range_by'='["id"]', 'bucketing.rows_per_file'='10')""",
    "bucketed": "(id bigint, v int) partitioned by (p int, q string) clustered by (id) into 1 buckets stored as parquet",
}


@pytest.fixture(params=PARTITIONED)
def parts(tables: Tables, extension: None, request: pytest.FixtureRequest) -> None:
    tables.create(f"parts {PARTITIONED[request.param]}")


@pytest.mark.usefixtures("parts")
@pytest.mark.some(1)
def test_explain_shows_how_many_partitions_a_statement_lists(tables: Tables) -> None:
    every = "select id, 0 as v, int(id % 3) as p, 'q' as q from range(9)"
    steps = {
        f"merge into parts as t using ({every}) as s on false when not matched then insert *": 9,
        "explain delete from parts where p = 1": "reads 1 of 1 listed files in 1 of 3 partitions",
        "explain update parts set v = 1 where p = 7": "reads 0 of 0 listed files in 0 of 3 partitions",
        "explain update parts set v = 1": "reads 3 of 3 listed files in 3 of 3 partitions",
    }
    run_steps(tables, steps, "parts")


@pytest.mark.usefixtures("parts")
@pytest.mark.some(1)
def test_merge_lists_only_partitions_with_rows_of_the_source(tables: Tables) -> None:
    """The keys and the inserted rows must be in the same partitions. Rows may also be in the partition of NULL."""
    every = "select id, 0 as v, int(id % 5) as p, if(id % 2 = 0, 'even', null) as q from range(40)"
    expected = {row[0]: row for row in tables.sql(every)}

    def merged(source: str, on: str, actions: str) -> int:
        """Merge rows, check the table, and return the number of listed partitions, which have one file each."""
        tables.sql(f"merge into parts as t using ({source}) as s on t.id = s.id and {on} {actions}")
        assert sorted(tables.sql("select * from parts")) == sorted(expected.values())
        return int(metrics(tables.spark)["files listed"])

    upsert = "when matched then update set * when not matched then insert *"
    on = "t.p = s.p and t.q <=> s.q"
    assert merged(every, on, upsert) == 0
    rows = "select id, 1 as v, int(id % 5) as p, if(id % 2 = 0, 'even', null) as q from range(2, 60, 5)"
    expected |= {row[0]: row for row in tables.sql(rows)}
    assert merged(rows, on, upsert) == 2
    # The keys of these rows are in other partitions than the inserted rows.
    expected |= {70: (70, 7, 4, None), 71: (71, 7, 4, "even")}
    insert = "when not matched then insert (id, v, p, q) values (s.id, 7, 4, if(s.id = 71, 'even', s.q))"
    assert merged("select id, 1 as v, 2 as p, '' as q from range(70, 72)", on, insert) == 10
    expected |= {70: (70, 7, 3, None), 71: (71, 7, 3, "even")}
    move = "when matched then update set p = 3"
    assert merged("select id, 4 as p, '' as q from range(70, 72)", "t.p = s.p", move) == 10
    expected |= {80: (80, 7, 0, None), 81: (81, 7, None, "even")}
    source = "select 80L as id, 7 as v, 0 as p, '' as q union all select 81, 7, null, 'even'"
    assert merged(source, "t.p = s.p and t.q = s.q", upsert) == 2
    expected |= {82: (82, 7, 0, """it's "quoted\""""), 83: (83, 7, 0, "it's")}
    source = """select 82L as id, 7 as v, 0 as p, 'it\\'s "quoted"' as q union all select 83, 7, 0, "it's" """
    assert merged(source, "t.p = s.p and t.q = s.q", upsert) == 2
    assert merged(source, "t.q = s.q", upsert) == 13
    assert merged("""select 83L as id, 7 as v, 0 as p, "it's" as q""", "t.q = s.q", upsert) == 1
    assert merged(f"{rows} limit 0", on, upsert) == 13


METRICS = re.compile("^(size of )?files (listed|searched|replaced|written)|^rows (updated|deleted|inserted)")


def metrics(spark: SparkSession) -> dict[str, int | str]:
    """Return the metrics of the last command. Sizes have units."""
    jvm: Any = spark._jsparkSession
    store = jvm.sharedState().statusStore()
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    runs = store.executionsList()
    latest_first = (runs.apply(number) for number in reversed(range(runs.size())))
    run = next(run for run in latest_first if "Plan ==\nExecute ChangeRows" in (run.physicalPlanDescription() or ""))
    assert ", reads " not in run.physicalPlanDescription(), "the statement has listed the files of the table twice"
    names = {run.metrics().apply(i).accumulatorId(): run.metrics().apply(i).name() for i in range(run.metrics().size())}
    values = store.executionMetrics(run.executionId())
    shown = {name: str(values.apply(number)) for number, name in names.items() if METRICS.search(name)}
    return {name: int(value) if value.isdecimal() else value for name, value in shown.items()}


@of_each_layout
@pytest.mark.usefixtures("table")
@pytest.mark.some(1)
def test_conditions_must_be_boolean_as_in_queries(tables: Tables) -> None:
    before = tables.rows("select * from changed")

    def outcome(statement: str) -> str | None:
        """Return the class of an error, or whether the statement affects rows."""
        try:
            return str(tables.sql(statement)[0][0])
        except PySparkException as error:
            return error.getErrorClass() if tables.spark.version < "4" else error.getCondition()

    merge = "merge into changed using (select int(90) as k, 'x' as w) as n on {} "
    for condition in ("null", "1", "'true'", "{}", "if({} > '', null, null)", "(select 1)", "cast(null as boolean)"):
        of_target, of_source = condition.format("v"), condition.format("w")
        expected = outcome(f"select count(*) from changed where {of_target}")
        assert expected in ("0", "DATATYPE_MISMATCH.FILTER_NOT_BOOLEAN"), condition
        for statement in (
            f"delete from changed where {of_target}",
            f"update changed set o = 1 where {of_target}",
            f"{merge.format(of_target)} when matched then delete",
            f"{merge.format('k > id')} when matched and {of_target} then delete",
            f"{merge.format('k = id')} when not matched and {of_source} then insert (id) values (n.k)",
            f"{merge.format('k = id')} when not matched by source and {of_target} then update set o = 1",
        ):
            assert outcome(statement) == expected, statement
        for query in (f"select * from changed where {of_target}", f"delete from changed where {of_target}"):
            assert ("FILTER_NOT_BOOLEAN" in explain(tables, query)) == (expected != "0"), query
    assert tables.rows("select * from changed") == before
