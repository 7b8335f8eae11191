"""Tests of a dbt project with tables in bucketing version 2: dbt tests, checks, table commands, metadata for Trino."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from commands import command, verdicts
from session_settings import setting

from conftest import Project, all_long_but, data_files
from spark_bucketing.doctor.trino import PROVIDER_PROPERTY

pytestmark = pytest.mark.usefixtures("extension", "no_broadcast")

BUCKETED = {"materialized": "bucketed_table", "clustered_by": "user_id", "bucket_hash": "hive2"}
DAYS = BUCKETED | {
    "materialized": "bucketed_incremental", "partition_by": "day", "incremental_strategy": "insert_overwrite",
    "on_bucket_change": "evolve",
}  # fmt: skip
ROWS = "select id as user_id, id * 2 as {} from range(100)"
ROWS_OF_DAYS = """
select id as user_id, id as v, cast(id % 3 as int) as day from range(90)
{% if is_incremental() %} where id % 3 = 0 {% endif %}
"""
JOIN = (
    "select a.user_id, b.name from {{{{ ref('clicks') }}}} as a join {{{{ ref('{}') }}}} as b on a.user_id = b.user_id"
)
TESTS = (
    "rows_in_their_buckets", "sorted_within_buckets", "one_file_per_bucket", "bucket_spec_matches_config",
    "partition_bucket_specs_valid",
)  # fmt: skip


@pytest.fixture(scope="module")
def built(new_project: Callable[..., Project]) -> Project:
    """Build tables in both versions and in the Spark layout, and run the generic tests."""
    project = new_project()
    with setting(project.spark, "spark.bucketing.enabled", "true"):
        project.model("clicks", ROWS.format("click"), buckets=8, **BUCKETED)
        project.model("users", ROWS.format("name"), buckets=16, **BUCKETED)
        project.model("old_users", ROWS.format("name"), buckets=8, **BUCKETED | {"bucket_hash": "hive"})
        project.model("spark_users", ROWS.format("name"), buckets=8, **BUCKETED | {"bucket_hash": "spark"})
        project.model("days", ROWS_OF_DAYS, buckets=4, **DAYS)
        project.model("good", JOIN.format("users"), materialized="view")
        project.model("versions", JOIN.format("old_users"), materialized="view")
        tests = [f"spark_bucketing.{name}" for name in TESTS]
        project.describe(*({"name": name, "data_tests": tests} for name in ("clicks", "days")))
        project.dbt("build")
    return project


def set_version(project: Project, name: str, version: str) -> None:
    project.rows(f"alter table {project.table(name)} set tblproperties ('bucketing_version' = '{version}')")


@pytest.mark.long
def test_generic_test_finds_a_changed_version(built: Project) -> None:
    set_version(built, "clicks", "1")
    try:
        _, failure = built.attempt("test", "--select", "clicks")
    finally:
        set_version(built, "clicks", "2")
    assert "bucket_spec_matches_config" in failure


@pytest.mark.long
def test_check_reports_the_versions_and_the_fix(built: Project) -> None:
    result = command(built, "check", "--format", "json")
    models: dict[str, Any] = {model["name"]: model for model in json.loads(result.stdout)["models"]}
    assert verdicts(models["good"]) == [("join", "sort-free")]
    assert verdicts(models["versions"]) == [("join", "one-sided")]
    ((finding,),) = (operator["findings"] for operator in models["versions"]["operators"])
    schema = built.schema
    assert finding["reason"] == "hash-mismatch"
    assert f"{schema}.old_users is bucketed by Hive's hash of bucketing_version 1" in finding["message"]
    assert f"{schema}.clicks by Hive's hash of bucketing_version 2" in finding["message"]
    assert [(fix["table"], fix["spec"]["bucket_hash"], fix["verdict"]) for fix in finding["fixes"]] == [
        (f"{schema}.old_users", "hive2", "sort-free"),
        (f"{schema}.clicks", "hive", "sort-free"),
    ]


def test_doctor_names_the_table_whose_buckets_trino_ignores(built: Project) -> None:
    result = command(built, "doctor")
    assert result.exit_code == 0, result.output
    assert f"Trino: reads 4 tables of {built.schema} as bucketed\n" in result.stdout
    assert "Trino: ignores the buckets of spark_users, because tables in the Spark layout" in result.stdout


def test_doctor_names_keys_and_versions_that_trino_does_not_support(built: Project) -> None:
    """Spark's catalog replaces char with string, so doctor must read the declared types."""
    keys = {"amounts": "decimal(10,2)", "codes": "char(3)", "times": "timestamp", "later": "int"}
    for name, of_type in keys.items():
        table = f"{built.table(name)} (key {of_type}) clustered by (key) into 4 buckets stored as parquet"
        built.rows(f"create table {table}")
    set_version(built, "later", " 2 ")
    result = command(built, "doctor")
    for name in keys:
        built.rows(f"drop table {built.table(name)}")
    assert result.exit_code == 1, result.output
    assert f"Trino: reads 4 tables of {built.schema} as bucketed\n" in result.stdout
    ignored = "Trino: ignores the buckets of amounts, codes, times, because it does not hash bucket columns such as"
    assert f"{ignored} key decimal(10,2)" in " ".join(result.stdout.split())
    assert "Trino: cannot read later, because bucketing_version is ' 2 ' instead of '1' or '2'" in result.stdout


@pytest.mark.long
def test_doctor_names_partitions_that_trino_does_not_read(built: Project) -> None:
    table = built.table("mixed")

    def insert(*days: int) -> None:
        with setting(built.spark, "hive.exec.dynamic.partition.mode", "nonstrict"):
            for day in days:
                built.rows(f"insert overwrite {table} partition (day) select id, {day} from range(40)")

    def doctor_names(found: str, instead: str) -> None:
        """Check the finding of doctor, and that the suggested command corrects it."""
        result = command(built, "doctor")
        fails = "fails with HIVE_PARTITION_SCHEMA_MISMATCH if a query reads 1 partition of mixed, such as day=0"
        assert result.exit_code == 0 and f"{fails}: {found}" in result.stdout, result.output
        assert f"run `spark-bucketing table {instead} {built.schema}.mixed`" in result.stdout
        assert command(built, "table", instead, "mixed").exit_code == 0
        assert "HIVE_PARTITION_SCHEMA_MISMATCH" not in command(built, "doctor").stdout

    columns = "(k bigint) partitioned by (day int)"
    built.rows(f"create table {table} {columns} clustered by (k) into 4 buckets stored as parquet")
    insert(0, 1)
    built.rows(f"analyze table {table} partition (day = 0) compute statistics")
    doctor_names("no buckets in the metastore", "seal")
    built.rows(f"alter table {table} clustered by (k) into 6 buckets")
    insert(1)
    doctor_names("4 buckets by (k)", "rewrite")
    built.rows(f"drop table {table}")


def test_doctor_and_verify_find_a_version_that_the_seals_contradict(built: Project) -> None:
    for name in ("clicks", "days"):
        set_version(built, name, "1")
    try:
        result = command(built, "doctor")
        verified = command(built, "table", "verify", "clicks", "days")
    finally:
        for name in ("clicks", "days"):
            set_version(built, name, "2")
    assert (result.exit_code, verified.exit_code) == (1, 1), result.output
    said = " ".join(result.stdout.split())
    wrong = "in the wrong buckets: sealed with bucketing_version 2, but the table states '1'"
    assert f"Trino: may look for rows of 3 partitions of days, such as day=0, {wrong}" in said
    assert f"Trino: may look for rows of clicks {wrong}" in said
    assert f"run `spark-bucketing table seal {built.schema}.clicks`" in said
    found = "has bucketing_version '1', but its rows are in buckets of version 2"
    assert " ".join(verified.stdout.split()).count(found) == 2, verified.stdout
    assert command(built, "doctor").exit_code == 0


def test_tables_in_the_hive_layout_do_not_have_sparks_provider(built: Project) -> None:
    """Spark hides this property, so the test reads it from the metastore, as Trino does."""
    built.rows(f"create table {built.table('turned')} using parquet as select 1 as user_id")
    built.rows(f"alter table {built.table('turned')} clustered by (user_id) into 4 buckets")
    metastore = built.spark._jsparkSession.sharedState().externalCatalog().unwrapped().client()
    found = {
        name: metastore.getTable(built.schema, name).properties().contains(PROVIDER_PROPERTY)
        for name in ("clicks", "old_users", "days", "turned", "spark_users")
    }
    built.rows(f"drop table {built.table('turned')}")
    assert found == dict.fromkeys(found, False) | {"spark_users": True}


@pytest.mark.parametrize("arguments", [["show"], ["verify"], ["verify", "--deep"]], ids=" ".join)
def test_table_commands_report_no_problem(built: Project, arguments: list[str]) -> None:
    result = command(built, "table", *arguments, "clicks", "days")
    assert result.exit_code == 0, result.output
    assert arguments != ["show"] or "4 buckets by (user_id), sorted by (user_id), hash hive2" in result.stdout


@pytest.mark.long
def test_verify_and_seal_agree_about_rows_that_match_both_versions(built: Project) -> None:
    """The table property changed between two writes, and each seal has the version that the table stated."""
    table = built.table("both")
    ddl = "(k int) partitioned by (day int) clustered by (k) into 4 buckets stored as parquet"
    built.rows(f"create table {table} {ddl}")
    few = "select k from (select int(id) as k from range(90)) where hive_bucket(4, k) = hive2_bucket(4, k)"
    with setting(built.spark, "spark.bucketing.enabled", "true"):
        for version in ("1", "2"):
            set_version(built, "both", version)
            built.rows(f"insert into {table} partition (day = {version}) {few}")

    def said(*arguments: str, code: int) -> str:
        result = command(built, "table", *arguments, "both")
        assert result.exit_code == code, result.output
        return " ".join(result.stdout.split())

    assert f"sealed with version 1 and 2: seal the table (spark-bucketing table seal {built.schema}.both)" in said(
        "verify", code=1
    )
    again = "1 partition sealed with version 1, such as day=1, whose rows also match version 2: seal the table"
    assert again in said("verify", "--deep", code=1)
    assert "bucketing_version" not in said("seal", code=0)
    said("verify", code=0)
    said("verify", "--deep", code=0)
    built.rows(f"drop table {table}")


@pytest.mark.long
def test_advise_buckets_an_unbucketed_table_in_the_version_of_the_others(built: Project) -> None:
    plain = {"materialized": "table", "file_format": "parquet"}
    built.model("plain", "select id as user_id, 'n' || id as name from range(5000)", **plain)
    for number in range(3):
        built.model(f"plain_users{number}", JOIN.format("plain") + f" where b.name > '{number}'", **plain)
    built.dbt("run", "--select", "plain+")
    result = command(built, "advise", "--format", "json", "--smallest", "1", "--target-file-size", "1KiB")
    for path in (built.folder / "models").glob("plain*.sql"):
        path.unlink()
    assert result.exit_code == 0, result.output
    changes = {change["model"]: change["config"] for change in json.loads(result.stdout)["changes"]}
    assert changes["plain"]["bucket_hash"] == "hive2", changes


def test_seal_command_reports_the_version_of_the_rows(built: Project) -> None:
    location = built.location("users")
    for number, file in enumerate(data_files(location)):
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
        file.rename(location / f"0{file.name[:5]}_0_copy_{number + 1}")
    set_version(built, "users", "1")
    result = command(built, "table", "seal", "users")
    set_version(built, "users", "2")
    assert result.exit_code == 0, result.output
    assert "bucketing_version 2, but the table states '1'" in " ".join(result.stdout.split())


@pytest.mark.long
def test_changed_buckets_keep_the_version(built: Project) -> None:
    specs = f"select num_buckets, hash from bucket_specs('{built.schema}.days')"
    built.model("days", ROWS_OF_DAYS, buckets=8, **DAYS)
    built.dbt("build", "--select", "days")
    assert sorted(map(tuple, built.rows(specs))) == [(4, "hive2"), (4, "hive2"), (8, "hive2")]
    result = command(built, "table", "rewrite", "days")
    assert result.exit_code == 0, result.output
    assert [tuple(row) for row in built.rows(specs)] == [(8, "hive2")] * 3
    built.dbt("test", "--select", "days")


PLAIN = {
    "materialized": "incremental",
    "file_format": "parquet",
    "partition_by": "day",
    "unique_key": ["user_id", "day"],
}
VERSIONS = {"append": "2", "insert_overwrite": "2", "merge": "2", "stated": "2", "to_version_1": "1"}


@pytest.mark.long
def test_unbucketed_table_evolves_to_the_version_of_the_config(built: Project) -> None:
    plain = PLAIN | {"incremental_strategy": "append"}
    for name in VERSIONS:
        built.model(f"plain_{name}", ROWS_OF_DAYS, **plain)
    built.dbt("run", "--select", "plain_*")
    set_version(built, "plain_stated", "2")
    expected = {name: built.rows(f"select * from {built.table(f'plain_{name}')} order by all") for name in VERSIONS}
    for name, version in VERSIONS.items():
        strategy = name if name in ("append", "merge") else "insert_overwrite"
        bucket_hash = {"1": "hive", "2": "hive2"}[version]
        config = DAYS | {"incremental_strategy": strategy, "buckets": 4, "bucket_hash": bucket_hash}
        built.model(f"plain_{name}", ROWS_OF_DAYS, **config, unique_key=["user_id", "day"])
    built.describe(
        *(
            {"name": f"plain_{name}", "data_tests": [f"spark_bucketing.{test}" for test in TESTS[3:]]}
            for name in VERSIONS
        )
    )
    for _ in range(2):
        built.dbt("run", "--select", "plain_*")
        for name, version in VERSIONS.items():
            table = built.table(f"plain_{name}")
            assert ("bucketing_version", version) in map(tuple, built.rows(f"show tblproperties {table}"))
            specs = built.rows(f"select partition, status, hash from bucket_specs('{built.schema}.plain_{name}')")
            written = ("sealed", {"1": "hive", "2": "hive2"}[version])
            assert {row.partition: (row.status, row.hash) for row in specs} == {
                "day=0": written, "day=1": ("not-sealed", None), "day=2": ("not-sealed", None)
            }, name  # fmt: skip
            if name != "append":
                assert built.rows(f"select * from {table} order by all") == expected[name]
    built.dbt("test", "--select", "plain_*")
    for name in ("plain_append", "plain_insert_overwrite"):
        result = command(built, "table", "rewrite", name)
        assert result.exit_code == 0, result.output
        assert command(built, "table", "verify", name).exit_code == 0
    for name in VERSIONS:
        (built.folder / "models" / f"plain_{name}.sql").unlink()


def attempt_to_evolve(project: Project, name: str, bucket_hash: str) -> str:
    """Run a model with another hash, check that nothing changes, and return the message."""
    table = project.table(name)
    before = project.files(name), project.rows(f"show create table {table}")
    config = DAYS | {"bucket_hash": bucket_hash, "buckets": 8}
    project.model(name, ROWS_OF_DAYS, **config)
    _, failure = project.attempt("run", "--select", name)
    assert (project.files(name), project.rows(f"show create table {table}")) == before
    project.model(name, ROWS_OF_DAYS, **config | {"on_bucket_change": "fail"})
    _, refused = project.attempt("run", "--select", name)
    assert "found: fail, and the config defines" in " ".join(refused.split())
    assert "on_bucket_change='rebuild'" in refused and "'evolve'" not in refused, refused
    return " ".join(failure.split())


@pytest.mark.long
def test_table_evolves_only_to_the_version_of_its_property_and_all_its_seals(built: Project) -> None:
    config = DAYS | {"bucket_hash": "hive", "buckets": 4}
    name, table = "kept", built.table("kept")
    built.model(name, ROWS_OF_DAYS, **config)
    built.dbt("run", "--select", name)
    assert "with the table property 'bucketing_version' = '1' expected" in attempt_to_evolve(built, name, "hive2")
    # The files have version 1, whatever the property states.
    set_version(built, name, "2")
    sealed = "with 3 partition(s) sealed with bucket_hash='hive', such as day=0 expected: partitions with 'bucketing_v"
    assert sealed in attempt_to_evolve(built, name, "hive2")
    assert "with the table property 'bucketing_version' = '2' expected" in attempt_to_evolve(built, name, "hive")
    built.rows(f"alter table {table} not clustered")
    assert sealed in attempt_to_evolve(built, name, "hive2")
    with setting(built.spark, "spark.bucketing.enabled", "false"):
        built.rows(f"insert into {table} partition (day) select 1, 1, explode(array(0, 1, 2))")
    specs = f"select distinct status, hash from bucket_specs('{built.schema}.{name}')"
    assert list(map(tuple, built.rows(specs))) == [("seal-stale", "hive")]
    assert sealed in attempt_to_evolve(built, name, "hive2")
    # Without seals, only the property remains.
    for day in range(3):
        built.rows(f"alter table {table} partition (day = {day}) not clustered")
    set_version(built, name, "1")
    failure = attempt_to_evolve(built, name, "hive2")
    assert "no buckets, parquet, partitioned by (day), with the table property 'bucketing_version' = '1'" in failure
    assert "instead: bucket_hash='hive', which this property states, or on_bucket_change='rebuild'" in failure
    built.model(name, ROWS_OF_DAYS, **config)
    built.dbt("run", "--select", name)
    built.rows(f"alter table {table} not clustered")
    built.rows(f"alter table {table} unset tblproperties ('bucketing_version')")
    failure = attempt_to_evolve(built, name, "hive2")
    assert "no buckets, parquet, partitioned by (day), with 1 partition(s) sealed with bucket_hash='hive'" in failure
    assert "expected: partitions with 'bucketing_version' = '2', the version of bucket_hash='hive2'" in failure
    assert "on_bucket_change='rebuild'" in failure
    built.model(name, ROWS_OF_DAYS, **config)
    built.dbt("run", "--select", name)
    assert set(map(tuple, built.rows(specs))) == {("sealed", "hive"), ("not-sealed", None)}
    (built.folder / "models" / f"{name}.sql").unlink()
    built.rows(f"drop table {table}")


@pytest.mark.parametrize("version", all_long_but(" 2 ", ["3", "02", " 2 "]))
@pytest.mark.long
def test_messages_name_the_table_the_value_and_the_supported_versions(built: Project, version: str) -> None:
    """A run, a generic test and the commands name what they found in the table property."""
    built.model("odd", ROWS_OF_DAYS, buckets=4, **DAYS | {"on_bucket_change": "fail", "bucket_hash": "hive2"})
    built.describe({"name": "odd", "data_tests": ["spark_bucketing.rows_in_their_buckets"]})
    built.dbt("build", "--select", "odd", "--full-refresh")
    # The test computes the buckets only of unsealed rows.
    built.rows(f"alter table {built.table('odd')} partition (day = 1) not clustered")
    set_version(built, "odd", version)
    _, run = built.attempt("run", "--select", "odd")
    assert "Model `odd` has an invalid `on_bucket_change`" in run
    assert f"hive layout with 'bucketing_version' = '{version}', which is neither '1' nor '2'" in run
    _, test = built.attempt("test", "--select", "odd")
    assert f"on table `{built.schema}.odd`." in test and f"the table property 'bucketing_version' = '{version}'" in test
    assert "exactly '1' or '2'" in test
    rewrite = " ".join(command(built, "table", "rewrite", "odd").output.split())
    assert f"Table `{built.schema}.odd` has an unknown `bucketing_version`" in rewrite
    assert f"found: the table property 'bucketing_version' = '{version}'" in rewrite
    assert "expected: exactly '1' or '2' instead: run spark-bucketing table seal" in rewrite
    assert command(built, "table", "verify", "odd").exit_code == 1
    built.rows(f"drop table {built.table('odd')}")
    (built.folder / "models" / "odd.sql").unlink()
