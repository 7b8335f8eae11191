"""Tests of functions whose arguments and results are plain data, with the cases in tests/cases/shared/functions.yml."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from conftest import REPOSITORY
from spark_bucketing.checks.acceptance import allowed_reasons
from spark_bucketing.checks.sql_text import one_statement
from spark_bucketing.checks.stub_tables import parallelism, planner_settings
from spark_bucketing.errors import ProjectError, headline
from spark_bucketing.event_log.measured import query_comment
from spark_bucketing.project.manifest import relation_parts, table_name
from spark_bucketing.spec import are_compatible, number_of_buckets
from spark_bucketing.tables import sql
from spark_bucketing.tables.compatibility import Merging
from spark_bucketing.tables.model import Column
from spark_bucketing.units import parse_size, size

CASES = yaml.safe_load((REPOSITORY / "tests" / "cases" / "shared" / "functions.yml").read_text())
PLAIN = (
    parse_size, size, number_of_buckets, are_compatible, one_statement, relation_parts, table_name, sql.text, sql.table,
    planner_settings, parallelism, headline,
)  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{function.__name__: function for function in PLAIN},
    "allowed": lambda meta: sorted(allowed_reasons(meta, "orders", ("bucket-count-mismatch", "union"))),
    "commented_node": lambda text: query_comment(text).get("node"),
    "literal": lambda value, kind: sql.literal(value, Column("c", kind)),
    "worth": lambda *of: Merging(*of[:3]).worth(*of[3:]),
}


@pytest.mark.parametrize(("name", "row"), [(name, row) for name, rows in CASES.items() for row in rows])
def test_function_has_the_expected_result(name: str, row: list[Any]) -> None:
    *arguments, expected = row
    if arguments[-1] == "raises":
        pattern = rf"`orders`[\s\S]*found:    {expected}[\s\S]*instead:" if name == "allowed" else expected
        with pytest.raises((ValueError, ProjectError), match=pattern):
            FUNCTIONS[name](*arguments[:-1])
        return
    found = FUNCTIONS[name](*arguments)
    assert (list(found) if isinstance(found, tuple) else found) == expected
