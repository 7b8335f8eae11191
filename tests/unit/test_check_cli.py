"""The command `check` without Spark: its arguments, mistakes of users, and exit codes."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result
from reported import CLEAN, REPORT

import spark_bucketing.cli.check
from spark_bucketing.check.artifacts import Request
from spark_bucketing.check.command import OnProgress
from spark_bucketing.check.results import Report
from spark_bucketing.cli import main
from spark_bucketing.errors import ProjectError
from spark_bucketing.project.catalog import CatalogTable, read_catalog
from spark_bucketing.project.dbt import Dbt, Selection
from spark_bucketing.project.freshness import is_fresh
from spark_bucketing.project.manifest import read_manifest

DONE = replace(REPORT, unfinished=())


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["check", *arguments])


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Callable[[Report], list[Request]]:
    """Function that makes the check report this, and returns the list of what it is asked."""

    def answer(report: Report) -> list[Request]:
        requests: list[Request] = []

        def check_project(request: Request, on_progress: OnProgress) -> Report:
            requests.append(request)
            on_progress("m", 0, 1)
            return report

        monkeypatch.setattr(spark_bucketing.cli.check, "check_project", check_project)
        return requests

    return answer


@pytest.mark.parametrize(
    ("report", "arguments", "code"),
    [
        (CLEAN, (), 0),
        (DONE, (), 1),
        (DONE, ("--fail-on", "error"), 1),
        (DONE, ("--fail-on", "never"), 2),
        (DONE, ("--format", "json"), 1),
        (REPORT, (), 2),
        (Report(()), (), 0),
    ],
)
def test_the_exit_code_is_the_report_s(
    report: Report, arguments: tuple[str, ...], code: int, asked: Callable[[Report], list[Request]]
) -> None:
    asked(report)
    assert run(*arguments).exit_code == code


def test_the_report_goes_where_output_says(asked: Callable[[Report], list[Request]], tmp_path: Path) -> None:
    asked(DONE)
    result = run("--format", "json", "--output", str(tmp_path / "r.json"))
    assert (result.exit_code, result.stdout) == (1, "")
    assert json.loads((tmp_path / "r.json").read_text())["models"]
    missing = run("--output", str(tmp_path / "none" / "r"))
    assert missing.exit_code == 2 and "cannot be written" in missing.output


def test_a_written_baseline_succeeds(asked: Callable[[Report], list[Request]], tmp_path: Path) -> None:
    asked(CLEAN)
    result = run("--write-baseline", str(tmp_path / "b.json"))
    assert result.exit_code == 0 and "accepts 0 findings" in result.stderr
    assert json.loads((tmp_path / "b.json").read_text()) == {"version": 2, "findings": []}


def test_an_interruption_before_the_first_model_is_no_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> Report:
        raise KeyboardInterrupt

    monkeypatch.setattr(spark_bucketing.cli.check, "check_project", interrupted)
    result = run()
    assert result.exit_code == 2 and "Interrupted before anything was checked." in result.output


def test_a_reason_is_explained_and_a_wrong_one_says_which_there_are() -> None:
    known = CliRunner().invoke(main, ["explain-reason", "bucket-count-mismatch"])
    assert known.exit_code == 0 and known.output.startswith("bucket-count-mismatch: ")
    wrong = CliRunner().invoke(main, ["explain-reason", "bucket-count"])
    assert wrong.exit_code == 2 and "bucket-count-mismatch" in wrong.output and "Traceback" not in wrong.output
    assert "union" in CliRunner().invoke(main, ["explain-reason"]).output


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A dbt project without models, with a profile, as the current folder."""
    (tmp_path / "dbt_project.yml").write_text(yaml.safe_dump({"name": "p", "profile": "p"}))
    output = {"type": "spark", "method": "session", "host": "NA", "schema": "s"}
    (tmp_path / "profiles.yml").write_text(yaml.safe_dump({"p": {"target": "t", "outputs": {"t": output}}}))
    (tmp_path / "models").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--target", "nope"), "nope"),
        (("--vars", "{a: "), "dbt cannot read the target"),
        (("--baseline", "dbt_project.yml"), "no baseline"),
        (("--baseline", "missing.json"), "does not exist"),
        (("--project-dir", "models"), "dbt_project.yml"),
        (("--fail-on", "sometimes"), "sometimes"),
        (("missing.sql",), "missing.sql"),
    ],
)
def test_mistakes_are_told_without_a_traceback_and_before_spark_starts(
    arguments: tuple[str, ...], said: str, project: Path
) -> None:
    result = run(*arguments)
    assert result.exit_code == 2, result.output
    assert said in result.output and "Traceback" not in result.output


def artifacts(project: Path, **arguments: object) -> Path:
    """A manifest of this very moment, and the results of the same run of dbt."""
    target = project / "target"
    target.mkdir(exist_ok=True)
    metadata = {"invocation_id": "1", "dbt_schema_version": "https://schemas.getdbt.com/dbt/manifest/v12.json"}
    (target / "manifest.json").write_text(json.dumps({"metadata": metadata, "nodes": {}}))
    (target / "run_results.json").write_text(json.dumps({"metadata": metadata, "args": {"vars": {}, **arguments}}))
    later = time.time() + 10
    os.utime(target / "manifest.json", (later, later))
    return target / "manifest.json"


def test_a_manifest_is_fresh_until_a_file_of_the_project_changes(project: Path) -> None:
    manifest = artifacts(project)
    assert is_fresh(manifest, project, project)
    later = time.time() + 20
    os.utime(project / "profiles.yml", (later, later))
    assert not is_fresh(manifest, project, project)


@pytest.mark.parametrize("change", ["models/new.sql", "macros/m.sql", "dbt_project.yml", "packages.yml", "seeds/s.csv"])
def test_any_changed_file_makes_a_manifest_stale(change: str, project: Path) -> None:
    manifest = artifacts(project)
    file = project / change
    file.parent.mkdir(exist_ok=True)
    file.touch()
    later = time.time() + 20
    os.utime(file, (later, later))
    assert not is_fresh(manifest, project, project)


def test_a_manifest_of_another_target_other_variables_or_another_run_is_stale(project: Path) -> None:
    manifest = artifacts(project, target="prod", vars={"a": 1})
    assert is_fresh(manifest, project, project, "prod", "{a: 1}")
    assert not is_fresh(manifest, project, project, None, "{a: 1}")
    assert not is_fresh(manifest, project, project, "prod", "{a: 2}")
    (manifest.parent / "run_results.json").unlink()
    assert not is_fresh(manifest, project, project, "prod", "{a: 1}")
    assert not is_fresh(project / "none.json", project, project)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "not JSON"),
        ("[]", "no dbt_schema_version"),
        (
            json.dumps({"metadata": {"dbt_schema_version": "https://schemas.getdbt.com/dbt/manifest/v4.json"}}),
            "v4.json",
        ),
    ],
)
def test_a_manifest_that_cannot_be_read_is_an_error(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "m.json").write_text(text)
    with pytest.raises(ProjectError, match=said):
        read_manifest(tmp_path / "m.json")
    with pytest.raises(ProjectError, match="cannot be read"):
        read_manifest(tmp_path / "none.json")


def test_a_catalog_gives_columns_in_their_order_and_sizes(tmp_path: Path) -> None:
    columns = {"b": {"name": "b", "type": "int", "index": 2}, "a": {"name": "a", "type": "date", "index": 1}}
    stats = {"bytes": {"value": 12.0}, "has_stats": {"value": True}}
    file = tmp_path / "catalog.json"
    file.write_text(
        json.dumps({"nodes": {"x": {"columns": columns, "stats": stats}, "y": {"columns": {}}}, "sources": {}})
    )
    catalog = read_catalog(file)
    assert catalog == {"x": CatalogTable({"a": "date", "b": "int"}, 12), "y": CatalogTable({}, None)}
    assert list(catalog["x"].columns) == ["a", "b"]
    assert read_catalog(tmp_path / "none.json") == {}
    file.write_text("{")
    with pytest.raises(ProjectError, match="cannot be read"):
        read_catalog(file)


PROGRESS = """
import os, sys
import spark_bucketing.cli.check as command
from spark_bucketing.cli import main
from spark_bucketing.check.results import Report

def check_project(request, on_progress):
    on_progress("the_model", 3, 12)
    return Report(())

command.check_project = check_project
main(["check"])
"""


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_shown_on_a_terminal_only(terminal: bool) -> None:
    main_end, child_end = pty.openpty()
    errors = child_end if terminal else subprocess.PIPE
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRESS], stdout=subprocess.PIPE, stderr=errors, env=environment, text=True
    )
    output, told = process.communicate(timeout=60)
    os.close(child_end)
    told = os.read(main_end, 100_000).decode() if terminal else told
    os.close(main_end)
    assert process.returncode == 0
    assert ("planning 4 of 12 models (the_model)" in told) == terminal
    assert output.startswith("0 queries") and "\x1b" not in output


@pytest.fixture
def dbt(project: Path) -> Dbt:
    """A project whose warehouse nobody can reach: dbt compiles and selects without it."""
    output = {"type": "spark", "method": "thrift", "host": "127.0.0.1", "port": 1, "user": "me", "schema": "s"}
    (project / "profiles.yml").write_text(yaml.safe_dump({"p": {"target": "t", "outputs": {"t": output}}}))
    for name, sql in {
        "good": "select {{ var('x', 1) }} as a",
        "broken": "select 1 {% if execute %}{{ exceptions.raise_compiler_error('no such luck') }}{% endif %}",
        "child": "select * from {{ ref('broken') }}",
    }.items():
        (project / "models" / f"{name}.sql").write_text(sql)
    return Dbt(project, project, project / "target" / "spark-bucketing")


def test_dbt_compiles_all_that_it_can_and_selects(dbt: Dbt, capfd: pytest.CaptureFixture[str]) -> None:
    failed = dbt.compile()
    assert list(failed) == ["model.p.broken"] and "no such luck" in failed["model.p.broken"]
    manifest = dbt.target_path / "manifest.json"
    sql = {node.name: node.sql for node in read_manifest(manifest).nodes.values()}
    assert sql == {"good": "select 1 as a", "broken": None, "child": "select * from s.broken"}
    assert is_fresh(manifest, dbt.project_dir, dbt.profiles_dir)
    assert not is_fresh(manifest, dbt.project_dir, dbt.profiles_dir, variables="{x: 2}")
    assert set(dbt.select(Selection(("broken+",)))) == {"model.p.broken", "model.p.child"}
    assert dbt.select(Selection((), ("good", "broken")), manifest) == ("model.p.child",)
    with pytest.raises(ProjectError, match="nope"):
        dbt.select(Selection(("nope:x",)))
    # A selection leaves the compiled manifest as it is, and dbt prints nothing where the report goes.
    assert is_fresh(manifest, dbt.project_dir, dbt.profiles_dir) and read_manifest(manifest).nodes["model.p.good"].sql
    assert capfd.readouterr().out == ""
    assert not (dbt.project_dir / "logs").exists()


def test_a_project_that_dbt_cannot_read_is_an_error_with_dbt_s_words(dbt: Dbt) -> None:
    (dbt.project_dir / "models" / "bad.sql").write_text("select {{ ref('nothing') }}")
    with pytest.raises(ProjectError, match="nothing"):
        dbt.compile()
