"""Tests that macros use a feature of Spark only in the versions that have it."""

from __future__ import annotations

import pytest
from macros import Macros


def macros_of(version: list[int]) -> Macros:
    found = Macros({})
    found.__dict__["spark_version"] = lambda: version
    found._context["context"] = found._context
    return found


@pytest.mark.parametrize(
    ("version", "settings", "has_scripts"),
    [
        ([3, 5], {}, False),
        ([3, 5], {"spark.sql.scripting.enabled": ["k", "true"]}, False),
        ([4, 0], {}, False),
        ([4, 0], {"spark.sql.scripting.enabled": ["k", "true"]}, True),
        ([4, 1], {}, True),
        ([4, 3], {"spark.sql.scripting.enabled": ["k", "false"]}, False),
    ],
)
def test_scripts_are_used_where_spark_has_them(
    version: list[int], settings: dict[str, list[str]], has_scripts: bool
) -> None:
    macros = macros_of(version)
    macros.detect_scripts(settings)
    assert macros._context["__spark_bucketing_scripts"] is has_scripts


@pytest.mark.parametrize(("version", "has_options"), [([3, 5], False), ([4, 0], True), ([4, 3], True)])
def test_options_of_a_read_are_used_since_spark_4(version: list[int], has_options: bool) -> None:
    assert macros_of(version).has_query_options() is has_options
