"""Run statements from YAML files on a table, and compare their results."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml
from bucketed_tables import ERRORS, Tables
from pyspark.errors import AnalysisException

from conftest import REPOSITORY

UPSERT = "when matched then update set o = s.o when not matched then insert (id, o) values (s.id, s.o)"
# Names of the extension that no error of the analysis contains.
INTERNAL = re.compile(r"(?i)ChangeRows|(update|delete|insert)action|num_affected_rows")


def read(path: str) -> Any:
    """Return the content of a file in `tests/cases/statements`."""
    return yaml.safe_load((REPOSITORY / "tests" / "cases" / "statements" / f"{path}.yml").read_text())


def statement_cases(path: str, *layouts: str) -> pytest.MarkDecorator:
    """Parametrize a test with the layouts of the fixture `table`, and with the cases of a file in `tests/cases/statements`.

    A case has these layouts, or those of its key `in`. All except the first one are long.
    """

    def parameters() -> Iterator[Any]:
        for case in read(path):
            for number, layout in enumerate(case.get("in", layouts)):
                marks = [pytest.mark.long] if number or case.get("long") else []
                yield pytest.param(layout, case, id=f"{layout}-{case['name']}", marks=marks)

    return pytest.mark.parametrize(("table", "case"), list(parameters()), indirect=["table"])


def run_case(tables: Tables, case: Mapping[str, Any], table: str) -> None:
    """Run the steps of a case with its settings, if the version of Spark has the syntax."""
    if tuple(map(int, tables.spark.version.split(".")[:2])) < tuple(map(int, case.get("since", "3.5").split("."))):
        pytest.skip("This version of Spark does not have the syntax.")
    # dbt-spark disables ANSI mode in the session.
    with tables.settings({"spark.sql.ansi.enabled": "true", **case.get("settings", {})}):
        for step in case["steps"]:
            run_steps(tables, {worded(statement, case): result for statement, result in step.items()}, table)


def worded(statement: str, case: Mapping[str, Any]) -> str:
    """Replace the names of words in braces."""
    for name, words in {"upsert": UPSERT, **case.get("words", {})}.items():
        statement = statement.replace(f"{{{name}}}", words)
    return statement


def run_steps(tables: Tables, steps: Mapping[str, Any], table: str) -> None:
    """Run statements, and compare their results.

    A text is a pattern of the error, after which the files and rows of `table` are unchanged, or of the output of EXPLAIN. A list has the
    rows, and a row of one column is its value. A number is the first column of the only row. None accepts any result.
    """
    for statement, expected in steps.items():
        if isinstance(expected, str) and not statement.startswith("explain"):
            before = tables.files(table), tables.rows(f"select * from {table}")
            with pytest.raises(ERRORS, match=expected) as caught:
                tables.sql(statement)
            assert not isinstance(caught.value, AnalysisException) or not INTERNAL.search(str(caught.value)), statement
            assert (tables.files(table), tables.rows(f"select * from {table}")) == before, statement
            continue
        found = tables.sql(statement)
        if isinstance(expected, str):
            assert re.search(expected, str(found[0][0])), f"{statement}: {found[0][0]}"
        elif isinstance(expected, list):
            rows = [tuple(row) if isinstance(row, (list, tuple)) else (row,) for row in expected]
            assert sorted(found, key=str) == sorted(rows, key=str), f"{statement}: {found}"
        elif expected is not None:
            assert found[0][0] == expected, f"{statement}: {found}"
