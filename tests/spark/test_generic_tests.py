"""Tests that the generic tests fail on violations, pass on valid tables, and never pass if they are inconclusive."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from pathlib import Path

import pytest
import yaml
from dbt.artifacts.schemas.results import NodeResult
from pyspark.sql import Row
from session_settings import setting

from conftest import Project, all_long_but, data_files, parameters

BUCKETS = 4
FILE_TESTS = ["one_file_per_bucket", "rows_in_their_buckets", "sorted_within_buckets"]
SPEC_TEST, SKEW, SHUFFLES = "bucket_spec_matches_config", "bucket_skew_below", "shuffles_at_most"
ALL_TESTS: dict[str, dict[str, object]] = {
    **{test: {} for test in FILE_TESTS}, SKEW: {"ratio": 2}, SPEC_TEST: {"buckets": 4},
}  # fmt: skip
PLAIN_TESTS = [*FILE_TESTS, SKEW, SPEC_TEST]
CASES = [f"{h}_{f}_{p}" for h, f, p in product(("hive", "spark"), ("parquet", "orc"), ("whole", "parts"))]
# These cases cover every pair of values of layout, format and partitioning.
VIOLATED_CASES = ["hive_parquet_whole", "hive_orc_parts", "spark_parquet_parts", "spark_orc_whole"]
ROWS = """
    select nullif(id, 7) as k, cast(id % 5 as string) as v,
           array(double('NaN'), double('-0.0'), null, 0.0, 2.5)[id % 5] as d, array('a b', 'c%d')[id % 2] as ds
    from range(900)"""
# A semi-join whose right side is too large to broadcast.
SHUFFLING = "k not in (select id + 900 from range(3000000))"
BUCKET = re.compile(r"^(0000)(\d)(?=_)|(_0000)(\d)(?=\.)")


def bucket_of(file: Path) -> int:
    match = BUCKET.search(file.name)
    assert match, file
    return int(match.group(2) or match.group(4))


def path_with_bucket(file: Path, bucket: int) -> Path:
    """Return the path of a file with another bucket id in its name."""
    return file.with_name(BUCKET.sub(lambda m: f"{m.group(1) or m.group(3)}{bucket}", file.name))


def clone(project: Project, source: str, name: str, rest: str = "") -> Path:
    """Create a copy of a table with copies of its files; return its folder."""
    project.spark.sql(f"create table {project.table(name)} like {project.table(source)} {rest}")
    copy_without_checksums(project.location(source), project.location(name))
    if source.endswith("parts"):
        project.spark.sql(f"msck repair table {project.table(name)}")
    return project.location(name)


def path_with_word(file: Path, word: str) -> Path:
    """Return another file name for the same bucket."""
    return file.with_name(file.name.replace("part-", f"part-{word}-"))


def copy_again(file: Path, *_: object) -> None:
    shutil.copy(file, path_with_word(file, "again"))


def exchange_names(first: Path, *_: object) -> None:
    second, kept = data_files(first.parent)[1], first.with_name("kept")
    a, b = path_with_bucket(first, bucket_of(second)), path_with_bucket(second, bucket_of(first))
    first.rename(kept)
    second.rename(b)
    kept.rename(a)


def add_a_file_without_rows(file: Path, project: Project, case: str) -> None:
    empty = project.folder / f"empty_{case}"
    rows = project.spark.sql("select cast(1 as bigint) as k where false").coalesce(1)
    rows.write.format(case.split("_")[1]).save(str(empty))
    shutil.copy(data_files(empty)[0], path_with_word(file, "empty"))


# Ways to damage the first file of a valid table, and the failing rows of each file test afterwards.
VIOLATIONS: dict[str, tuple[Callable[[Path, Project, str], object], dict[str, int]]] = {
    "copy_again": (copy_again, {"one_file_per_bucket": 1}),
    "exchange_names": (exchange_names, {"rows_in_their_buckets": 2}),
    "rename_to_an_invalid_bucket": (
        lambda file, *_: file.rename(path_with_bucket(file, BUCKETS + 3)), {"one_file_per_bucket": 1, "rows_in_their_buckets": 1},
    ),
    "remove_the_bucket_id": (
        lambda file, *_: file.rename(file.with_name("part-00000-copied" + "".join(file.suffixes[-2:]))),
        {"one_file_per_bucket": 1, "rows_in_their_buckets": 1},
    ),
    "replace_with_another_sort_order": (
        lambda file, project, case: shutil.copy(data_files(project.location(f"otherwise_{case}"))[0], file),
        {"sorted_within_buckets": 1},
    ),
    "add_a_file_without_rows": (add_a_file_without_rows, {"one_file_per_bucket": 1}),
    "add_a_file_of_zero_bytes": (lambda file, *_: path_with_word(file, "zero").touch(), {}),
}  # fmt: skip

MISPLACED = "exchange_names_spark_orc_whole"
# Each violation damages at least one table; the violations together damage tables of each layout and format.
LONG = [
    "named_by_hive",
    *(f"ok_{case}" for case in CASES if case not in VIOLATED_CASES[::3]),
    *(
        f"{name}_{case}"
        for number, name in enumerate(VIOLATIONS, 2)
        for case in VIOLATED_CASES
        if case != VIOLATED_CASES[number % 4]
    ),
]


class Tables:
    """Tables that these tests create with SQL, and declare as sources with generic tests."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.tables: dict[str, list[object]] = {}

    def tests(self, table: str, *tests: str | Mapping[str, object]) -> None:
        """Attach tests to a table; the result of each is named `table__test`.

        Each test is a name, or a mapping: {test: its name, as: another name for the result}, with further dbt settings.
        """
        attached = self.tables.setdefault(table, [])
        for test in tests:
            settings: dict[str, object] = {"test": test} if isinstance(test, str) else dict(test)
            kind = str(settings.pop("test"))
            name = f"{table}__{settings.pop('as', kind)}"
            attached.append({f"spark_bucketing.{kind}": {"name": name, **settings}})

    def run(self) -> dict[str, NodeResult]:
        tables = [{"name": name, "data_tests": tests} for name, tests in self.tables.items()]
        sources = [{"name": "handmade", "schema": self.project.schema, "tables": tables}]
        self.project.write("models/handmade.yml", yaml.safe_dump({"sources": sources}))
        results = self.project.attempt("test", "--select", "source:handmade")[0]
        assert len(results) == sum(map(len, self.tables.values()))
        return results


def rows_of(project: Project, result: NodeResult) -> list[Row]:
    return project.spark.sql(result.node.compiled_code).collect()


def failed(results: dict[str, NodeResult]) -> dict[str, int | None]:
    """Return the number of failing rows of each test that did not pass; None for inconclusive tests."""
    return {
        name: result.failures if result.status == "fail" else None
        for name, result in results.items()
        if result.status != "pass"
    }


def create(project: Project, name: str, case: str, query: str, sorted_by: str = "v, d") -> None:
    """Create a bucketed table with Spark SQL; a single task writes one file per bucket."""
    bucket_hash, file_format, parts = case.split("_")
    clauses = [
        f"create table {project.table(name)} (k bigint, v string, d double, ds string)",
        f"using {file_format}" if bucket_hash == "spark" else "",
        "partitioned by (ds)" if parts == "parts" else "",
        f"clustered by (k) sorted by ({sorted_by}) into {BUCKETS} buckets",
        f"stored as {file_format}" if bucket_hash == "hive" else "",
    ]
    project.spark.sql(" ".join(clauses))
    insert(project, name, case, query)


def insert(project: Project, name: str, case: str, query: str) -> None:
    partition = "partition (ds)" if case.endswith("parts") else ""
    project.spark.sql(f"insert into {project.table(name)} {partition} select /*+ coalesce(1) */ * from ({query})")


@pytest.fixture(scope="module")
def good(new_project: Callable[..., Project], request: pytest.FixtureRequest) -> Project:
    """Create a valid table for each case of this test run, and a table with another sort order for the violations."""
    project, included = new_project(), parameters(request, "table") | {MISPLACED}
    copied = {"named_by_hive": "hive_orc_whole", "left_over": "spark_parquet_parts"}
    for case in CASES:
        if case in ("hive_orc_parts", "spark_orc_parts") or any(
            name.endswith(case) or copied.get(name) == case for name in included
        ):
            create(project, f"ok_{case}", case, ROWS)
    for case in VIOLATED_CASES:
        if f"replace_with_another_sort_order_{case}" in included:
            create(project, f"otherwise_{case}", case, ROWS, sorted_by="k")
    return project


def of_table(results: dict[str, NodeResult], table: str) -> dict[str, int | None]:
    """Return the number of failing rows of each test of a table that did not pass."""
    prefix = f"{table}__"
    return failed({name.removeprefix(prefix): result for name, result in results.items() if name.startswith(prefix)})


def copy_without_checksums(source: Path, target: Path) -> None:
    shutil.copytree(source, target, ignore=shutil.ignore_patterns(".*.crc"), dirs_exist_ok=True)


def inserted_tables(good: Project, tables: Tables, included: set[str]) -> None:
    """Create tables in every state that an INSERT can cause."""
    create(good, "twice", "hive_parquet_whole", ROWS)
    create(good, "trapped", "hive_parquet_whole", f"{ROWS} where false")
    good.rows("select count(*) from {schema}.trapped")
    for name in ("twice", "trapped"):
        insert(good, name, "hive_parquet_whole", ROWS)
    tables.tests(
        "twice",
        *FILE_TESTS,
        {"test": "one_file_per_bucket", "as": "limited", "config": {"limit": 2}},
        {"test": "one_file_per_bucket", "as": "warned", "config": {"severity": "warn"}},
        {"test": "one_file_per_bucket", "as": "summed", "config": {"fail_calc": "sum(files)"}},
    )
    tables.tests(
        "trapped",
        *FILE_TESTS,
        {"test": "rows_in_their_buckets", "as": "stored", "config": {"store_failures": True}},
        *({"test": test, "as": f"shuffled_{test}", "config": {"where": SHUFFLING}} for test in FILE_TESTS),
        {"test": SKEW, "arguments": {"ratio": 99}},
    )
    if "nothing" in included:
        create(good, "nothing", "spark_orc_parts", f"{ROWS} where false")
        tables.tests("nothing", *FILE_TESTS, {"test": SKEW, "arguments": {"ratio": 1.1}})
    create(
        good, "skewed", "spark_parquet_parts", "select if(id < 9, 1, id) as k, '', 0.0, string(id % 2) from range(12)"
    )
    for name, ratio in (("three", 3), ("more", 3.01)):
        tables.tests("skewed", {"test": SKEW, "arguments": {"ratio": ratio}, "as": name})
    good.spark.sql(f"create table {good.table('plain')} using parquet as select 1L as k")
    tables.tests(
        "plain", *({"test": name, "arguments": {} if name == SPEC_TEST else ALL_TESTS[name]} for name in PLAIN_TESTS)
    )


def moved_tables(good: Project, tables: Tables, included: set[str]) -> None:
    """Create tables, and rename, move or drop their files or partitions."""
    file = data_files(clone(good, "ok_spark_orc_parts", "half") / "ds=a b")[0]
    copy_again(file)
    exchange_names(file)
    halves = {"bad_half": {"where": "ds = 'a b'"}, "good_half": {"where": "ds = 'c%d'"}}
    tested = product(FILE_TESTS, halves.items())
    tables.tests("half", *({"test": test, "as": f"{test}_{name}", "config": of} for test, (name, of) in tested))

    if "named_by_hive" in included:
        for file in data_files(clone(good, "ok_hive_orc_whole", "named_by_hive")):
            file.rename(file.with_name(f"{bucket_of(file):06d}_0"))
        tables.tests("named_by_hive", *FILE_TESTS)

    # The tests include partitions in other folders.
    clone(good, "ok_hive_orc_parts", "moved")
    copy_without_checksums(good.location("moved") / "ds=a b", good.folder / "moved")
    for file in data_files(good.folder / "moved"):
        shutil.copy(file, file.with_name(f"{file.name}.again"))
    good.spark.sql(f"alter table {good.table('moved')} partition (ds = 'a b') set location '{good.folder / 'moved'}'")
    tables.tests("moved", "one_file_per_bucket", "rows_in_their_buckets")

    # The files of an external table's dropped partition remain, but no longer belong to the table.
    if "left_over" in included:
        folder = clone(good, "ok_spark_parquet_parts", "left_over", f"location '{good.folder / 'left over'}'")
        good.spark.sql(f"alter table {good.table('left_over')} drop partition (ds = 'a b')")
        copy_again(data_files(folder / "ds=a b")[0])
        tables.tests("left_over", *FILE_TESTS)


@pytest.fixture(scope="module")
def results(good: Project, request: pytest.FixtureRequest) -> dict[str, NodeResult]:
    """Run dbt once on valid tables, all violations and tables with one special property each; return all results.

    Valid and violated tables are tested only if the test run includes the test of their results.
    """
    tables = Tables(good)
    included = parameters(request, "table") | {MISPLACED}
    for case in CASES:
        if f"ok_{case}" in included:
            tables.tests(f"ok_{case}", *FILE_TESTS, {"test": SKEW, "arguments": {"ratio": 1.3}})
    for case, (name, (violate, _)) in product(VIOLATED_CASES, VIOLATIONS.items()):
        if f"{name}_{case}" in included:
            violate(data_files(clone(good, f"ok_{case}", f"{name}_{case}"))[0], good, case)
            tables.tests(f"{name}_{case}", *FILE_TESTS)
    inserted_tables(good, tables, included)
    moved_tables(good, tables, included)
    compared_tables(good, tables)
    return tables.run()


def test_two_inserts_leave_two_files_per_bucket(good: Project, results: dict[str, NodeResult]) -> None:
    found = rows_of(good, results["twice__one_file_per_bucket"])
    assert [(row.bucket, row.files) for row in found] == [(bucket, 2) for bucket in range(BUCKETS)]
    assert found[0].directory.endswith("/twice")


def test_dbts_test_settings_keep_their_meaning(good: Project, results: dict[str, NodeResult]) -> None:
    assert of_table(results, "twice") == {"one_file_per_bucket": 4, "limited": 2, "warned": None, "summed": 8}
    assert results["twice__warned"].status == "warn"
    stored = results["trapped__stored"]
    assert stored.status == "fail"
    assert [row.misplaced_rows for row in good.spark.table(stored.node.relation_name).collect()] == [900]


def test_insert_after_a_select_writes_no_buckets(good: Project, results: dict[str, NodeResult]) -> None:
    files = rows_of(good, results["trapped__one_file_per_bucket"])
    assert [(row.bucket, row.files) for row in files] == [(None, 1)]
    rows = rows_of(good, results["trapped__rows_in_their_buckets"])
    assert [tuple(row)[1:] for row in rows] == [(None, 0, BUCKETS - 1, 900)]
    skewed = rows_of(good, results["trapped__bucket_skew_below"])
    assert [(row.bucket, row.bucket_rows, row.empty_buckets) for row in skewed] == [(None, 900, BUCKETS)]
    # The test must not pass rows whose position in the file is unknown.
    assert {results[f"trapped__shuffled_{test}"].status for test in FILE_TESTS} == {"fail"}


FOUND: dict[str, dict[str, int]] = {
    **{f"ok_{case}": {} for case in CASES},
    **{f"{name}_{case}": found for case, (name, (_, found)) in product(VIOLATED_CASES, VIOLATIONS.items())},
    # The test counts only files of the selected partitions.
    "half": {"one_file_per_bucket_bad_half": 1, "rows_in_their_buckets_bad_half": 2},
    "named_by_hive": {},
    "moved": {"one_file_per_bucket": 2},
    "left_over": {},
    "nothing": {},
}


@pytest.mark.parametrize("table", all_long_but(tuple(name for name in FOUND if name not in LONG), FOUND))
def test_only_tests_of_violated_properties_fail(results: dict[str, NodeResult], table: str) -> None:
    assert of_table(results, table) == FOUND[table]


def buckets_of_rows(project: Project, table: str) -> list[Row]:
    """Return the number of rows in each bucket of a table in the Spark layout, computed with the hash."""
    counted = "select pmod(hash(k), 4) as b, count(*) as n from {schema}.%s group by b order by n desc"
    return project.rows(counted % table)


def test_skew_is_the_largest_bucket_divided_by_the_mean(good: Project, results: dict[str, NodeResult]) -> None:
    biggest = buckets_of_rows(good, "skewed")[0]
    ratio = biggest.n / 3
    assert ratio >= 3
    found = [(row.bucket, row.bucket_rows, row.mean_rows, row.ratio) for row in rows_of(good, results["skewed__three"])]
    assert found == [(biggest.b, biggest.n, 3, ratio)]
    assert results["skewed__more"].status == ("pass" if ratio < 3.01 else "fail")


def test_misplaced_rows_are_counted_by_file(good: Project, results: dict[str, NodeResult]) -> None:
    found = rows_of(good, results[f"{MISPLACED}__rows_in_their_buckets"])
    counts = {row.b: row.n for row in buckets_of_rows(good, "ok_spark_orc_whole")}
    for row in found:
        assert row.bucket_in_name == bucket_of(Path(row.file))
        assert row.lowest_bucket_of_rows == row.highest_bucket_of_rows != row.bucket_in_name
        assert row.misplaced_rows == counts[row.lowest_bucket_of_rows]


@pytest.mark.parametrize("file_format", all_long_but("parquet", ["parquet", "orc"]))
def test_sort_order_is_checked_across_splits_of_a_file(good: Project, file_format: str) -> None:
    tables = Tables(good)
    with setting(good.spark, "spark.sql.files.maxPartitionBytes", "120000"):
        for name, late in (("in_order", "false"), ("two_late", "k in (12000, 25000)")):
            written, claimed = f"written_{name}_{file_format}", f"{name}_{file_format}"
            for table, sorted_by in ((written, "place"), (claimed, "k")):
                good.spark.sql(
                    f"create table {good.table(table)} (k bigint, place bigint, filler string) using {file_format}"
                    " options ('parquet.block.size' = '65536', 'orc.stripe.size' = '65536', 'orc.stripe.row.count' = '5000')"
                    f" clustered by (k) sorted by ({sorted_by}) into 1 buckets"
                )
            good.spark.sql(
                f"insert into {good.table(written)} select /*+ coalesce(1) */ *"
                f" from (select k, k + if({late}, 9000, 0), uuid() from range(40000) as r(k))"
            )
            shutil.copytree(good.location(written), good.location(claimed), dirs_exist_ok=True)
            tables.tests(claimed, "sorted_within_buckets", "one_file_per_bucket")
            splits = f"(select input_file_name() as f, input_file_block_start() as s from {good.table(claimed)})"
            found = good.rows(f"select count(distinct f), count(distinct s) from {splits}")[0]
            assert found[0] == 1 and found[1] > 4
        results = tables.run()
    late_test = f"two_late_{file_format}__sorted_within_buckets"
    assert failed(results) == {late_test: 1}
    assert [row.unsorted_rows for row in rows_of(good, results[late_test])] == [2]


KEYED = "create table {{}} (k {}) clustered by (k) into 4 buckets stored as orc {}"
# A table, its DDL, the inconclusive tests with their arguments, and part of the message.
CANNOT_TELL: list[tuple[str, str, dict[str, dict[str, object]], str]] = [
    ("a_view", "create view {} as select 1 as k", ALL_TESTS, "found: a view"),
    ("nowhere", "", ALL_TESTS, "no table with this name"),
    ("no_order", KEYED.format("bigint", ""), {"sorted_within_buckets": {}}, "without ascending sort columns"),
    ("by_time", KEYED.format("timestamp", ""), {"rows_in_their_buckets": {}}, "bucket column k timestamp"),
    ("by_name", KEYED.format("varchar(9)", ""), {"rows_in_their_buckets": {}}, "bucket column k varchar(9)"),
    ("no_wish", KEYED.format("int", ""), {SPEC_TEST: {}}, "neither a model config nor arguments"),
]  # fmt: skip
WRONG_ARGUMENTS: dict[str, tuple[str, dict[str, object], str]] = {
    "ratio_of_1": (SKEW, {"ratio": 1}, "a number greater than 1"),
    "ratio_as_text": (SKEW, {"ratio": "2"}, "a number greater than 1"),
    "fewer_than_none": (SHUFFLES, {"n": -1}, "an integer of 0 or more"),
    "number_as_text": (SHUFFLES, {"n": "two"}, "an integer of 0 or more"),
}


@pytest.mark.long
def test_inconclusive_tests_are_errors(project: Project) -> None:
    tables = Tables(project)
    for table, ddl, tests, _ in CANNOT_TELL:
        if ddl:
            project.spark.sql(ddl.format(project.table(table)))
        tables.tests(table, *({"test": test, "arguments": arguments} for test, arguments in tests.items()))
    results = tables.run()
    for table, _, tests, message in CANNOT_TELL:
        for test in tests:
            result = results[f"{table}__{test}"]
            assert result.status == "error" and message in " ".join(str(result.message).split()), (table, test)
    # Compiling the tests requires neither tables nor results.
    assert project.attempt("compile")[1] == ""
    project.spark.sql(f"drop schema {project.schema} cascade")
    assert project.attempt("compile")[1] == ""


@pytest.mark.parametrize("name", WRONG_ARGUMENTS)
def test_wrong_arguments_are_errors(results: dict[str, NodeResult], name: str) -> None:
    result = results[f"compared__{name}"]
    assert result.status == "error" and WRONG_ARGUMENTS[name][2] in str(result.message)


def test_unbucketed_table_fails_with_a_message(good: Project, results: dict[str, NodeResult]) -> None:
    for name in PLAIN_TESTS:
        result = results[f"plain__{name}"]
        assert result.status == "fail" and result.failures == 1
        assert "a table without buckets" in rows_of(good, result)[0].problem
    # Commands that only render the tests do not print their results.
    log, printed = good.folder / "logs" / "dbt.log", re.compile(r"\[info \].*Failed test")
    assert printed.search(log.read_text())
    log.write_text("")
    good.attempt("compile")
    assert not printed.search(log.read_text())


# The correct and the wrong value of a property, and both values in the notation of the message.
SPEC: dict[str, tuple[object, object, str, str]] = {
    "clustered_by": (["k"], ["k", "v"], "k, v", "k"),
    "buckets": (4, 8, "8", "4"),
    "sorted_by": (["V", "d"], [], "", "v, d"),
    "bucket_hash": ("hive", "spark", "spark", "hive"),
    "file_format": ("orc", "parquet", "parquet", "orc"),
    "partition_by": ("ds", [], "", "ds"),
    "bucketing_version": (1, 2, "2", "1"),
}


def compared_tables(good: Project, tables: Tables) -> None:
    """Create tables whose specs are compared with correct and wrong arguments."""
    clone(good, "ok_hive_orc_parts", "compared")
    for name, (test, arguments, _) in WRONG_ARGUMENTS.items():
        tables.tests("compared", {"test": test, "as": name, "arguments": arguments})
    expected_specs: dict[str, dict[str, object]] = {
        "right": {name: value for name, (value, _, _, _) in SPEC.items()},
        "wrong": {name: value for name, (_, value, _, _) in SPEC.items()},
        "part": {"buckets": 5},
    }
    tables.tests("compared", *({"test": SPEC_TEST, "as": name, "arguments": of} for name, of in expected_specs.items()))
    good.spark.sql(f"create table {good.table('without')} (k int) using orc")
    tables.tests("without", {"test": SPEC_TEST, "arguments": {"buckets": 4}})


def test_spec_is_compared_property_by_property(good: Project, results: dict[str, NodeResult]) -> None:
    assert results["compared__right"].status == "pass"
    found = rows_of(good, results["compared__wrong"])
    assert {tuple(row) for row in found} == {(name, *said) for name, (_, _, *said) in SPEC.items()}
    assert rows_of(good, results["compared__part"]) == [("buckets", "5", "4")]
    assert rows_of(good, results[f"without__{SPEC_TEST}"]) == [("buckets", "4", "0")]


@pytest.fixture(scope="module")
def models(new_project: Callable[..., Project]) -> Iterator[Project]:
    """Build tests/projects/generic_tests in a session that never broadcasts."""
    project = new_project("generic_tests")
    unbucketed = f"create table {project.table('unbucketed')} using parquet as select string(id) as v from range(9)"
    project.spark.sql(unbucketed)
    with setting(project.spark, "spark.sql.autoBroadcastJoinThreshold", "-1"):
        yield project


def test_arguments_of_generic_tests_are_documented(models: Project) -> None:
    assert models.attempt("parse", "--warn-error", "--no-partial-parse")[1] == ""


EXPECTED_SHUFFLES = {
    "one_shuffle_on_others": ["hashpartitioning(v#", "hashpartitioning(v#"],
    "one_shuffle_for_other_bucket_counts": ["hashpartitioning(k#"],
    "no_shuffle_in_a_sorted_query": ["rangepartitioning(k#"],
    "some_shuffle_in_an_increment": ["SinglePartition"],
}


@pytest.mark.parametrize("adaptive", ["true", "false"])
@pytest.mark.long
def test_shuffles_are_counted_in_the_plan(models: Project, adaptive: str) -> None:
    with setting(models.spark, "spark.bucketing.enabled", "true"):
        models.dbt("run")
    with setting(models.spark, "spark.sql.adaptive.enabled", adaptive):
        results, _ = models.attempt("test")
    found = {
        name: [row.shuffle for row in rows_of(models, result)]
        for name, result in results.items()
        if result.status == "fail" and name != "another_hash"
    }
    assert found.keys() == EXPECTED_SHUFFLES.keys()
    for name, shuffles in EXPECTED_SHUFFLES.items():
        assert len(found[name]) == len(shuffles), found[name]
        for text, shuffle in zip(found[name], shuffles, strict=True):
            assert text.startswith(f"Exchange {shuffle}")
    errors = {name: str(result.message) for name, result in results.items() if result.status == "error"}
    assert errors.keys() == {"a_query_with_an_error", "a_model_that_reads_its_config"}
    assert "UNRESOLVED_COLUMN" in errors["a_query_with_an_error"]
    assert "reads its own config" in errors["a_model_that_reads_its_config"]


@pytest.mark.long
def test_refs_are_deferred(models: Project, new_project: Callable[..., Project]) -> None:
    models.keeps_artifacts = True
    with setting(models.spark, "spark.bucketing.enabled", "true"):
        models.dbt("run")
    other_project = new_project("generic_tests")
    state = ("--defer", "--state", str(models.folder / "target"))
    results = other_project.dbt("test", "--select", "test_name:shuffles_at_most,no_shuffle_by_macro", *state)
    assert [result.status for result in results.values()] == ["pass"]


def test_spec_change_is_reported_as_a_difference_from_the_config(models: Project) -> None:
    models.dbt("run", "--select", "keys")
    select = ("test", "--select", "keys,test_name:bucket_spec_matches_config")
    results = models.attempt(*select)[0]
    assert [tuple(row) for row in rows_of(models, results["another_hash"])] == [("bucket_hash", "hive", "spark")]
    assert len(failed(results)) == 1

    clauses = "partitioned by (ds int) clustered by (v, k) into 16 buckets stored as orc"
    models.spark.sql(f"drop table {models.table('keys')}")
    models.spark.sql(f"create table {models.table('keys')} (k bigint, v string) {clauses}")
    results = models.attempt(*select)[0]
    name = next(name for name in results if name != "another_hash")
    assert [tuple(row) for row in rows_of(models, results[name])] == [
        ("bucket_hash", "spark", "hive"),
        ("buckets", "4", "16"),
        ("clustered_by", "k", "v, k"),
        ("sorted_by", "k", ""),
        ("partition_by", "", "ds"),
        ("file_format", "parquet", "orc"),
    ]
