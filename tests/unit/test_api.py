"""Tests of the contract of the Python API, without Spark: its import, its documentation, its results and its errors."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest
from sample_report import REPORT

import spark_bucketing
from conftest import REPOSITORY
from spark_bucketing import BucketingError, ProjectError, Result, SparkError
from spark_bucketing.checks.report import write_report

PAGE = (REPOSITORY / "docs" / "reference" / "python-api.md").read_text()
HEAVY = {"dbt", "pyspark", "sqlglot", "rich", "jinja2", "yaml", "click", "sqlfluff"}


def test_import_is_quick_and_needs_neither_dbt_nor_spark() -> None:
    print_modules = (
        "import sys, spark_bucketing as s; s.check, s.advise, s.table; print(*{m.split('.')[0] for m in sys.modules})"
    )
    assert not HEAVY & set(run(print_modules).split())
    assert (Path(spark_bucketing.__file__).parent / "py.typed").is_file()


def test_functions_are_not_replaced_by_the_packages_of_their_names() -> None:
    code = """
from spark_bucketing.checks.checker import Checker
import spark_bucketing.advice.advisor as advisor, spark_bucketing.tables.overview as overview
import spark_bucketing
print(*(type(getattr(spark_bucketing, name)).__name__ for name in ("check", "advise", "table")))"""
    assert run(code).split() == ["function"] * 3


def run(code: str) -> str:
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


def test_query_without_a_session_is_an_error() -> None:
    code = """
import spark_bucketing
try:
    spark_bucketing.check(sql="select 1")
except spark_bucketing.SparkError as error:
    print(error)"""
    assert run(code).startswith("No Spark session is active.") and issubclass(SparkError, BucketingError)
