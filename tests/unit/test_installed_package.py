"""Tests of the wheel, of the Python API, and that a project that installs this package gets its macros, but not the showcase."""

from __future__ import annotations

import inspect
import json
import os
import re
import subprocess
import sys
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import yaml
from case_tables import cases
from click.testing import CliRunner
from dbt_projects import dbt_project
from sample_report import REPORT

import spark_bucketing
from conftest import REPOSITORY
from spark_bucketing import BucketingError, ProjectError, Result, SparkError
from spark_bucketing.checks.report import write_report
from spark_bucketing.cli import main
from spark_bucketing.config.schema import KEYS, MATERIALIZATIONS

SOURCE = REPOSITORY / "python_plugin" / "src"


def test_all_version_numbers_agree() -> None:
    project = (REPOSITORY / "python_plugin" / "pyproject.toml").read_text()
    macro = (REPOSITORY / "macros" / "bucketing" / "sql" / "package_version.sql").read_text()
    changes = (REPOSITORY / "CHANGELOG.md").read_text()
    found = {
        "installed": version("spark-bucketing"),
        "command": CliRunner().invoke(main, ["--version"]).output.split()[-1],
        "pyproject.toml": re.findall(r'^version = "(.+)"$', project, re.MULTILINE)[0],
        "dbt_project.yml": yaml.safe_load((REPOSITORY / "dbt_project.yml").read_text())["version"],
        "package_version": re.findall(r"return\('(.+)'\)", macro)[0],
        "CHANGELOG.md": re.findall(r"^## (?:Unreleased \()?([^ ,)]+)", changes, re.MULTILINE)[0],
    }
    assert len(set(found.values())) == 1, found


@pytest.mark.long
def test_wheel_is_complete_and_builds_the_extension(tmp_path: Path) -> None:
    pip = [sys.executable, "-m", "pip", "--quiet"]
    subprocess.run(
        [*pip, "wheel", "--no-deps", "--wheel-dir", str(tmp_path), "./python_plugin"], cwd=REPOSITORY, check=True
    )
    (wheel,) = tmp_path.glob("*.whl")
    written = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert {*written, "spark_bucketing/checks/reasons/reasons.md"} <= set(zipfile.ZipFile(wheel).namelist())
    subprocess.run([*pip, "install", "--no-deps", "--target", str(tmp_path / "installed"), str(wheel)], check=True)
    code = "import spark_bucketing, sys; from spark_bucketing.cli import main; print(spark_bucketing.__file__, file=sys.stderr); main()"
    built = subprocess.run(
        [sys.executable, "-c", code, "extension", "build", "--cache-dir", str(tmp_path / "cache")],
        env={**os.environ, "PYTHONPATH": str(tmp_path / "installed")},
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert str(tmp_path / "installed") in built.stderr
    assert Path(built.stdout.strip()).is_file()


def dbt(folder: Path, *arguments: str) -> Any:
    from dbt.cli.main import dbtRunner

    return dbtRunner().invoke([*arguments, "--project-dir", str(folder), "--profiles-dir", str(folder), "--quiet"])


def parsed(project: Path, model: str) -> Any:
    """Parse a project that contains the model m and installs this package."""
    (project / "packages.yml").write_text(json.dumps({"packages": [{"local": str(REPOSITORY)}]}))
    (project / "models" / "m.sql").write_text(model)
    assert dbt(project, "deps").success
    return dbt(project, "parse")


@pytest.mark.parametrize("profile", ["theirs", "spark_bucketing"])
def test_installed_package_has_no_showcase(tmp_path: Path, profile: str) -> None:
    assert parsed(dbt_project(tmp_path, profile), "select 1 as k").success
    manifest = json.loads((tmp_path / "target" / "manifest.json").read_text())
    ours = {
        kind: [name for name in content if "spark_bucketing" in name]
        for kind, content in manifest.items()
        if isinstance(content, dict) and kind != "macros"
    }
    assert not any(ours.values()), ours
    for name in MATERIALIZATIONS:
        described = manifest["macros"][f"macro.spark_bucketing.materialization_{name}_spark"]["description"]
        keys = {key for key, spec in KEYS.items() if name in spec.taken_by}
        assert set(re.findall(r"^\| `(\w+)`", described, re.MULTILINE)) == keys


def test_project_of_this_repository_has_the_showcase(tmp_path: Path) -> None:
    result = dbt(REPOSITORY, "parse", "--target-path", str(tmp_path), "--no-partial-parse").result
    assert "model.spark_bucketing.flights_by_plane" in result.nodes


@cases("project/parse_errors", dispatched=True, config=..., message=None)
def test_parsing_reports_config_errors_if_the_package_may_name_tables(
    tmp_path: Path, dispatched: bool, config: str, message: str | None
) -> None:
    dbt_project(tmp_path)
    if dispatched:
        order = {"macro_namespace": "dbt", "search_order": ["p", "spark_bucketing", "dbt"]}
        (tmp_path / "dbt_project.yml").write_text(json.dumps({"name": "p", "profile": "p", "dispatch": [order]}))
    found = parsed(tmp_path, f"{{{{ config(alias='n', {config}) }}}} select 1 as k")
    assert (str(found.exception) if found.exception else "").count(message or " has an invalid ") == bool(message)
    assert message or found.result.nodes["model.p.m"].alias == "n"


PAGE = (REPOSITORY / "docs" / "reference" / "python-api.md").read_text()
HEAVY = {"dbt", "pyspark", "sqlglot", "rich", "jinja2", "yaml", "click", "sqlfluff"}


IMPORT = "import sys, spark_bucketing as s; s.check, s.advise, s.table; print(*{m.split('.')[0] for m in sys.modules})"
# The functions are not replaced by the packages of their names.
IMPORT_PACKAGES = """
from spark_bucketing.checks.checker import Checker
import spark_bucketing.advice.advisor as advisor, spark_bucketing.tables.overview as overview
import spark_bucketing
print(*(type(getattr(spark_bucketing, name)).__name__ for name in ("check", "advise", "table")))"""


def test_import_is_quick_and_needs_neither_dbt_nor_spark() -> None:
    assert not HEAVY & set(printed(IMPORT).split())
    assert printed(IMPORT_PACKAGES).split() == ["function"] * 3
    assert (Path(spark_bucketing.__file__).parent / "py.typed").is_file()


def printed(code: str) -> str:
    """Return what a new Python process prints."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("name", spark_bucketing.__all__)
def test_every_name_and_argument_is_documented(name: str) -> None:
    found = getattr(spark_bucketing, name)
    assert f"`{name}`" in PAGE or f"`{name}(" in PAGE
    methods = [method for key, method in vars(found).items() if key[0] != "_"] if isinstance(found, type) else [found]
    for function in filter(
        inspect.isfunction, [] if issubclass(type(found), type) and issubclass(found, Exception) else methods
    ):
        assert f"{function.__name__}(" in PAGE
        for argument in inspect.signature(function).parameters:
            assert argument in ("self", "options") or f"`{argument}`" in PAGE or f"{argument}=" in PAGE, argument


def test_result_has_the_report_as_data_text_and_html() -> None:
    result = Result(REPORT, 1, lambda form, file: write_report(REPORT, form, file), has_page=True)
    assert result.state == "wrong" and result.to_dict()["models"][0]["name"] == REPORT.models[0].name
    assert json.dumps(result.to_dict()) and "bucket-count-mismatch" in str(result)
    page = result._repr_html_()
    assert page.startswith("<iframe srcdoc=") and "<script" not in page and "&lt;script" in page
    assert Result(REPORT, 2, lambda _, file: print("a < b", file=file))._repr_html_() == "<pre>a &lt; b\n</pre>"


def test_errors_have_types(tmp_path: Path) -> None:
    with pytest.raises(ProjectError, match="cannot be combined"):
        spark_bucketing.check(sql="select 1", select="a")
    with pytest.raises(BucketingError, match="dbt_project"):
        spark_bucketing.check(project_dir=tmp_path)
    with pytest.raises(BucketingError, match="dbt_project"):
        spark_bucketing.table("a", project_dir=tmp_path).show()
    code = """
import spark_bucketing
try:
    spark_bucketing.check(sql="select 1")
except spark_bucketing.SparkError as error:
    print(error)"""
    assert printed(code).startswith("No Spark session is active.") and issubclass(SparkError, BucketingError)
