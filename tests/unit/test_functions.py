"""Tests of functions whose arguments and results are plain data, with the cases in tests/cases/shared/functions.yml."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest
import yaml
from file_plan import FileCount, files_of_partitions
from macros import Macros

from conftest import REPOSITORY
from spark_bucketing import sql
from spark_bucketing.checks.acceptance import allowed_reasons
from spark_bucketing.checks.sql_text import one_statement, renamed
from spark_bucketing.checks.stub_tables import configured_layout, parallelism, planner_settings
from spark_bucketing.config.schema import KEYS
from spark_bucketing.config.validation import nearest_name
from spark_bucketing.errors import ProjectError, headline
from spark_bucketing.event_log.measured import query_comment
from spark_bucketing.init.initialize import add_package
from spark_bucketing.project.manifest import relation_parts, table_name
from spark_bucketing.project.profile import without_stack
from spark_bucketing.spec import BucketSpec, are_compatible, number_of_buckets
from spark_bucketing.tables.metadata import Column, Merging
from spark_bucketing.units import parse_size, size


def listed(spec: BucketSpec | None) -> list[Any] | None:
    return [spec.num_buckets, list(spec.bucket_columns), list(spec.sort_columns), spec.bucket_hash] if spec else None


def stub_layout(config: dict[str, Any], materialized: str) -> list[Any]:
    found = configured_layout(config, materialized, "m")
    return [listed(found.spec), list(found.partition_columns), found.file_format]


def file_counts(setting: str, value: int, bytes_per_row: str | None) -> list[int]:
    size_of_row = Fraction(bytes_per_row) if bytes_per_row else None
    assert files_of_partitions(FileCount(setting, value), [], size_of_row) == []
    return list(files_of_partitions(FileCount(setting, value), [700, 183, 17], size_of_row))


def write_hint(strategy: str) -> list[Any]:
    layout = {"file_strategy": strategy, "partition_by": ["ds"], "range_by": [], "scale_factor": 1.5}
    found = Macros({}).write_distribution(4, layout)
    return [found["hint"], found["key"] != ""]


def scripts_and_options(version: list[int], scripting: str | None) -> list[bool]:
    macros = Macros({})
    macros.__dict__["spark_version"] = lambda: version
    macros._context["context"] = macros._context
    macros.detect_scripts({"spark.sql.scripting.enabled": ["k", scripting]} if scripting else {})
    return [macros._context["__spark_bucketing_scripts"], macros.has_query_options()]


CASES = yaml.safe_load((REPOSITORY / "tests" / "cases" / "shared" / "functions.yml").read_text())
PLAIN = (
    parse_size, size, number_of_buckets, are_compatible, one_statement, renamed, relation_parts, table_name, sql.text,
    sql.table, planner_settings, parallelism, headline, without_stack, add_package, stub_layout, file_counts, write_hint,
    scripts_and_options,
)  # fmt: skip
FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{function.__name__: function for function in PLAIN},
    "allowed": lambda meta: sorted(allowed_reasons(meta, "orders", ("bucket-count-mismatch", "union"))),
    "commented_node": lambda text: query_comment(text).get("node"),
    "described_spec": lambda details: listed(BucketSpec.from_description(details)),
    "literal": lambda value, kind: sql.literal(value, Column("c", kind)),
    "nearest_key": lambda name, *of: [find(name, list(KEYS), *of) for find in (nearest_name, Macros({}).nearest_name)],
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


def test_every_function_has_cases() -> None:
    assert FUNCTIONS.keys() == CASES.keys()
