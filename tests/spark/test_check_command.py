"""Tests of `check` on a real Spark, live on a project that dbt built and offline on stub tables, and of `doctor`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import Result
from commands import COMMAND, command, environment, verdicts
from plan_trees import SETTINGS
from pyspark.sql import SparkSession
from session_settings import setting
from spark_features import SPARK

from conftest import Project
from spark_bucketing.checks.checked_query import Facts, Settings
from spark_bucketing.checks.checker import Checker, query_node
from spark_bucketing.checks.results import Report
from spark_bucketing.errors import SparkError
from spark_bucketing.plan.planner import Planner
from spark_bucketing.session import rows_of

RECORDS = "spark.sql.files.maxRecordsPerFile"
LARGE = "set spark.sql.autoBroadcastJoinThreshold=-1"


def run(planner: Planner, queries: Mapping[str, str], report: Callable[[str], None] = lambda _: None) -> Report:
    tasks = [(query_node(name, sql), True) for name, sql in queries.items()]
    return Checker(planner, Settings(SETTINGS), Facts(planner)).run(tasks, report)


def check(project: Project, *arguments: str) -> Result:
    return command(project, "check", *arguments)


def checked(project: Project, *arguments: str) -> dict[str, dict[str, Any]]:
    """Return the models of the JSON report by name."""
    result = check(project, "--format", "json", *arguments)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.output
    return {model["name"]: model for model in json.loads(result.stdout)["models"]}


@pytest.fixture(scope="module")
def built(new_project: Callable[..., Project]) -> Project:
    """Build a project with a few bucketed tables, and with joins that use the buckets and joins that do not."""
    project = new_project()
    project.keeps_artifacts = True
    project.write("seeds/people.csv", "user_id,born\n1,2000-01-01\n2,1990-05-05\n")
    bucketed = {"materialized": "bucketed_table", "bucket_hash": "spark", "clustered_by": "user_id"}
    project.model("clicks", "select id as user_id, 'u' as url from range(100)", buckets=4, **bucketed)
    project.model("users", "select id as user_id, 'n' as name from range(100)", buckets=4, **bucketed)
    project.model("odd", "select id as user_id, 'n' as name from range(100)", buckets=3, **bucketed)
    join = "select a.user_id, b.name\nfrom {{{{ ref('clicks') }}}} as a\njoin {{{{ ref('{}') }}}} as b on a.user_id = b.user_id"
    project.model("good", join.format("users"), materialized="table", file_format="parquet")
    project.model("bad", join.format("odd"), materialized="view")
    project.model("above", "select name, count(*) as c from {{ ref('bad') }} group by name", materialized="view")
    project.model("young", "select born, count(*) as c from {{ ref('people') }} group by born", materialized="view")
    project.model("hidden", "select user_id from {{ ref('clicks') }}", materialized="ephemeral")
    project.model("uses_hidden", "select count(distinct user_id) as c from {{ ref('hidden') }}", materialized="view")
    project.write("analyses/question.sql", "select count(*) from {{ ref('clicks') }} group by user_id")
    project.spark.sql(LARGE)
    project.dbt("build")
    return project


@pytest.fixture
def shop(built: Project) -> Iterator[Project]:
    """Return the project, and remove the models that a test has added."""
    models = {path: path.read_text() for path in (built.folder / "models").iterdir()}
    yield built
    for path in (built.folder / "models").iterdir():
        if path not in models:
            path.unlink()
        elif path.read_text() != models[path]:
            path.write_text(models[path])


def test_live_check_covers_every_model_and_locates_the_bad_join(shop: Project) -> None:
    result = check(shop, "--format", "json")
    report = json.loads(result.stdout)
    models = {model["name"]: model for model in report["models"]}
    assert result.exit_code == 1 and report["planner"].startswith("live (session), Spark ")
    assert set(models) == {"clicks", "users", "odd", "good", "bad", "above", "young", "uses_hidden"}
    assert verdicts(models["good"])[0] in (("join", "sort-free"), ("join", "shuffle-free"))
    assert {("join", "shuffled"), ("join", "one-sided")} & {*verdicts(models["bad"])}
    findings = [found for operator in models["bad"]["operators"] for found in operator["findings"]]
    assert "bucket-count-mismatch" in {found["reason"] for found in findings}
    raw = (shop.folder / "models" / "bad.sql").read_text().splitlines()
    assert all(raw[found["line"] - 1].startswith("join ") for found in findings)
    edges = {parent["unique_id"]: parent["verdict"] for parent in models["above"]["inputs"]}
    assert edges["model.t.bad"] in ("shuffled", "one-sided")


@pytest.mark.long
def test_live_check_compiles_a_manifest_once_and_keeps_dbts_artifacts(shop: Project) -> None:
    before = (shop.folder / "target" / "run_results.json").read_bytes()
    checked(shop, "--compile")
    own = shop.folder / "target" / "spark-bucketing" / "manifest.json"
    written = own.stat().st_mtime_ns
    checked(shop, "--select", "good")
    assert own.stat().st_mtime_ns == written
    assert (shop.folder / "target" / "run_results.json").read_bytes() == before
    shop.model("fresh", "select 1 as a", materialized="view")
    assert "fresh" in checked(shop, "--select", "fresh")


@pytest.mark.long
def test_live_check_uses_an_existing_manifest_without_compiling(shop: Project, tmp_path: Path) -> None:
    checked(shop, "--select", "good", "--compile")
    own = shop.folder / "target" / "spark-bucketing" / "manifest.json"
    data, written = json.loads(own.read_text()), own.stat().st_mtime_ns
    data["nodes"]["model.t.good"]["compiled_code"] = f"select user_id from {shop.schema}.clicks group by user_id"
    del data["nodes"]["model.t.bad"]["compiled_code"]
    (tmp_path / "manifest.json").write_text(json.dumps(data))
    shop.model("fresh", "select 1 as a", materialized="view")
    manifest = ("--manifest", str(tmp_path / "manifest.json"))
    models = checked(shop, *manifest)
    chosen = checked(shop, *manifest, "--select", "good")
    (tmp_path / "q.sql").write_text(f"select 1 from {shop.schema}.clicks group by user_id")
    with_file = checked(shop, *manifest, str(tmp_path / "q.sql"))
    assert [kind for kind, _ in verdicts(models["good"])] == ["distinct"]
    assert "fresh" not in models and "no compiled SQL" in str(models["bad"]["findings"])
    assert set(chosen) == {"good"} and list(with_file) == [str(tmp_path / "q.sql")]
    assert own.stat().st_mtime_ns == written
    (tmp_path / "manifest.json").write_text("{}")
    wrong = check(shop, *manifest)
    assert wrong.exit_code == 2 and "not a supported manifest" in wrong.output


@pytest.mark.long
def test_live_check_supports_dbt_selectors(shop: Project) -> None:
    assert set(checked(shop, "--select", "+good", "--exclude", "users")) == {"clicks", "good"}
    assert set(checked(shop, "--select", "config.materialized:view,bad+")) == {"bad", "above"}
    wrong = check(shop, "--select", "nope:x")
    assert wrong.exit_code == 2 and "nope" in wrong.output and "Traceback" not in wrong.output
    nothing = check(shop, "--select", "people")
    assert nothing.exit_code == 2 and "No model or snapshot matches" in nothing.output


TEXTS = {
    "bi.sql": "-- a dashboard\nselect * from {s}.clicks a join {s}.odd b\n  on a.user_id = b.user_id;\n",
    # Names without a schema refer to the target's schema.
    "unqualified.sql": "select * from clicks a join odd b on a.user_id = b.user_id",
    "gone.sql": "select * from {s}.no_such_table",
    "typo.sql": "selct 1",
    "fine.sql": "select user_id from {s}.clicks group by user_id",
    "drop.sql": "drop table {s}.odd",
}


@pytest.mark.long
def test_live_check_does_not_run_the_files_that_it_checks(shop: Project, tmp_path: Path) -> None:
    for name, text in TEXTS.items():
        (tmp_path / name).write_text(text.format(s=shop.schema))
    files, before = [str(tmp_path / name) for name in TEXTS], shop.spark.catalog.currentDatabase()
    # Findings in some files must not hide that check could not plan others.
    options = ("--format", "json", "--fail-on", "never")
    result = check(shop, *options, *files, str(shop.folder / "analyses" / "question.sql"))
    models = {model["name"].rsplit("/", 1)[-1]: model for model in json.loads(result.stdout)["models"]}
    assert result.exit_code == 2 and set(models) == {*TEXTS, "question"}
    for name in ("bi.sql", "unqualified.sql"):
        assert models[name]["findings"] == []
        assert verdicts(models[name])[0][0] == "join" and ("join", "shuffle-free") not in verdicts(models[name])
    kind, verdict = verdicts(models["question"])[0]
    assert (kind, verdict) == ("aggregate", "sort-free") or verdict == "shuffle-free"
    assert models["fine.sql"]["findings"] == []
    assert "TABLE_OR_VIEW_NOT_FOUND" in str(models["gone.sql"]["findings"])
    assert "PARSE_SYNTAX_ERROR" in str(models["typo.sql"]["findings"])
    assert "odd" in shop.tables()
    assert shop.spark.catalog.currentDatabase() == before


def test_errors_from_spark_appear_only_in_the_report(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SparkError, match="TABLE_OR_VIEW_NOT_FOUND"):
        Planner("live", partial(rows_of, spark)).plan("select * from no_such_table")
    # PySpark would log the error as a JSON line with a Java stack trace.
    assert "no_such_table" not in "".join(capfd.readouterr())


def test_live_check_uses_file_sizes_of_tables_without_statistics(spark: SparkSession, project: Project) -> None:
    table = f"{project.schema}.days"
    columns = "(k bigint) partitioned by (d int) clustered by (k) into 2 buckets stored as parquet"
    spark.sql(f"create table {table} {columns}")
    spark.sql(f"insert into {table} partition (d = 1) select id from range(100)")
    planner = Planner("live", partial(rows_of, spark))
    size = Facts(planner).of(planner.plan(f"select * from {table}"))[table].size_bytes
    assert size is not None and 100 < size < 100_000
    result = run(planner, {"q": f"select count(*) from {table} group by d"})
    (operator,) = result.models[0].operators
    assert operator.findings[0].bytes_shuffled == size


def test_live_check_reports_models_that_it_cannot_plan_as_unknown(shop: Project) -> None:
    for name in ("broken", "torn"):
        raising = f"exceptions.raise_compiler_error('{name}!')"
        shop.write(f"models/{name}.sql", f"select 1 as a {{% if execute %}}{{{{ {raising} }}}}{{% endif %}}")
    shop.model("child", "select * from {{ ref('broken') }}", materialized="view")
    shop.model("unbuilt", "select 1 as a", materialized="view")
    shop.model("reader", "select * from {{ ref('unbuilt') }}", materialized="view")
    # Findings in the valid model must not hide that check could not plan others.
    result = check(shop, "--select", "broken+ torn good reader", "--format", "json", "--fail-on", "never")
    models = json.loads(result.stdout)["models"]
    errors = {model["name"]: "".join(found["message"] for found in model["findings"]) for model in models}
    assert result.exit_code == 2
    assert errors["good"] == "" and "broken!" in errors["broken"] and "torn!" in errors["torn"]
    assert "TABLE_OR_VIEW_NOT_FOUND" in errors["child"]
    assert "TABLE_OR_VIEW_NOT_FOUND" in errors["reader"] and "--offline" in errors["reader"]


def test_live_check_reports_a_configured_table_that_was_built_without_buckets(shop: Project) -> None:
    rows = "select id as user_id from range(10)"
    shop.model("later", rows, materialized="table", file_format="parquet")
    shop.model("reader", "select user_id, count(*) as c from {{ ref('later') }} group by user_id", materialized="view")
    shop.dbt("run", "--select", "later")
    shop.model("later", rows, materialized="bucketed_table", clustered_by="user_id", buckets=8)
    (operator,) = checked(shop, "--select", "reader")["reader"]["operators"]
    assert "is configured with 8 buckets by (user_id), not built yet" in operator["description"]
    shop.model("later", rows, materialized="bucketed_table", clustered_by="user_id", buckets=4, bucket_hash="spark")
    join = "select a.user_id from {{ ref('clicks') }} as a join {{ ref('later') }} as b on a.user_id = b.user_id"
    shop.model("reader", join, materialized="view")
    (operator,) = checked(shop, "--select", "reader")["reader"]["operators"]
    (finding,) = (found for found in operator["findings"] if found["reason"] == "side-not-bucketed")
    assert finding["fixes"][0]["text"].startswith("Run `dbt run --full-refresh --select later` to build ")
    assert finding["accepted"] == "small"


@pytest.mark.skipif(SPARK < (4, 0), reason="Spark 3.5 has no functions in SQL")
def test_live_check_plans_models_with_functions_of_their_hooks(shop: Project) -> None:
    hook = "create temporary function bracketed(x string) returns string return concat('[', x, ']')"
    sql = "select bracketed(b.name) as c from {{ ref('odd') }} as b join {{ ref('clicks') }} as a on a.user_id = b.user_id"
    shop.model("hooked", sql, materialized="table", file_format="parquet", pre_hook=hook)
    shop.model("unhooked", sql, materialized="table", file_format="parquet")
    models = checked(shop, "--select", "hooked", "unhooked")
    (operator,) = models["hooked"]["operators"]
    assert any(finding["fixes"] for finding in operator["findings"])
    assert "UNRESOLVED_ROUTINE" in str(models["unhooked"]["findings"]) and "If a hook creates" in str(
        models["unhooked"]["findings"]
    )


@pytest.mark.long
def test_live_check_verifies_fixes_through_views(shop: Project) -> None:
    sql = "select a.user_id, b.name from {{ ref('bad') }} as b join {{ ref('clicks') }} as a on a.user_id = b.user_id"
    shop.model("over_view", sql, materialized="view")
    found = checked(shop, "--select", "over_view")["over_view"]
    findings = [finding for operator in found["operators"] for finding in operator["findings"]]
    fixes = [fix for finding in findings for fix in finding["fixes"]]
    assert fixes and all(fix["after"]["exchanges"] <= fix["before"]["exchanges"] for fix in fixes)


def test_offline_check_requires_a_separate_process(shop: Project) -> None:
    result = check(shop, "--offline")
    assert result.exit_code == 2 and "in a separate process" in " ".join(result.output.split())


@pytest.mark.long
def test_meta_allows_findings_and_a_baseline_accepts_them(shop: Project, tmp_path: Path) -> None:
    baseline = tmp_path / "baseline.json"
    assert check(shop, "--select", "bad").exit_code == 1
    assert check(shop, "--select", "bad", "--write-baseline", str(baseline)).exit_code == 0
    assert check(shop, "--select", "bad", "--baseline", str(baseline)).exit_code == 0
    assert check(shop, "--select", "bad", "above", "--baseline", str(baseline), "--fail-on", "note").exit_code == 1
    shop.describe({"name": "bad", "config": {"meta": {"bucketing": {"allow": ["bucket-count-mismatch"]}}}})
    assert check(shop, "--select", "bad").exit_code == 0
    shop.describe({"name": "bad", "config": {"meta": {"bucketing": {"allow": ["bucket-count"]}}}})
    wrong = check(shop, "--select", "bad")
    assert wrong.exit_code == 2 and "`bad`" in wrong.output and "bucket-count-mismatch" in wrong.output


def test_ctrl_c_leaves_a_report_of_the_checked_models(spark: SparkSession) -> None:
    planner = Planner("live", partial(rows_of, spark))

    def interrupt(name: str) -> None:
        if name == "b":
            raise KeyboardInterrupt

    report = run(planner, dict.fromkeys("abc", "select 1 as a"), interrupt)
    assert [result.name for result in report.models] == ["a"]
    assert report.unfinished == ("b", "c")


@pytest.mark.long
def test_offline_command_line_agrees_with_live(shop: Project, tmp_path: Path) -> None:
    """The offline check uses no built table, because it runs without the warehouse."""
    profiles = yaml.safe_load((shop.folder / "profiles.yml").read_text())
    profiles["t"]["outputs"]["t"] |= {"method": "thrift", "host": "nowhere.invalid", "port": 1, "user": "me"}
    (tmp_path / "profiles.yml").write_text(yaml.safe_dump(profiles))
    live = checked(shop)
    arguments = ["--offline", "--format", "json", "--project-dir", str(shop.folder), "--profiles-dir", str(tmp_path)]
    result = subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, cwd=tmp_path, env=environment(), check=False
    )
    assert result.returncode == 1, result.stderr
    report = json.loads(result.stdout)
    assert report["planner"].startswith("offline, Spark ")
    found = {model["name"]: model for model in report["models"]}
    assert all(model["findings"] == [] for model in found.values())
    # Live and offline must agree, although only the live session has seen the files.
    assert {name: verdicts(model) for name, model in found.items()} == {
        name: verdicts(model) for name, model in live.items()
    }


@pytest.mark.usefixtures("extension")
def test_doctor_finds_settings_that_break_buckets(project: Project) -> None:
    result = command(project, "doctor", "--format", "json")
    found = {one["subject"]: one for one in json.loads(result.stdout)["examined"]}
    assert result.exit_code == 0 and {one["state"] for one in found.values()} == {"ok"}, result.output
    spark = found["Spark"]["found"].partition(";")[0]
    assert spark.startswith(".".join(map(str, SPARK)))
    assert found["session extension"]["found"] == f"version {version('spark-bucketing')}, built for Spark {spark}"
    with setting(project.spark, RECORDS, "9"):
        # The extension writes one file per bucket anyway, unless it leaves the distribution of rows to Spark.
        assert command(project, "doctor").exit_code == 0
        with setting(project.spark, "spark.bucketing.write.distribute", "false"):
            result = command(project, "doctor")
    assert result.exit_code == 1 and f"wrong    {RECORDS}=9: Spark splits a bucket into several files" in result.stdout
    assert f"instead: set {RECORDS}=0, or remove the setting" in result.stdout
