"""Run dbt's adapter tests with dbt-spark's materializations and with the bucketed ones.

Each dbt class runs twice. adapter_cases.DIFFERENCES lists the expected failures with their reasons. These tests must
fail.
"""

from __future__ import annotations

from types import FunctionType

import pytest
from adapter_cases import CASES, DIFFERENCES, Case
from adapter_fixtures import *  # noqa: F403 - fixtures; a second conftest.py would conflict

pytestmark = pytest.mark.long


def suite(case: Case, kind: str) -> type:
    """Turn a dbt class into a test class for pytest, and mark its expected failures."""
    content: dict[str, object] = {"case": case, "bucketed": kind == "bucketed"}
    for name in (name for name in dir(case.base) if name.startswith("test_")):
        reason = DIFFERENCES.get((case.base.__name__, name, kind))
        if reason:
            content[name] = pytest.mark.xfail(reason=reason, strict=True)(_copy(getattr(case.base, name)))
    return type(f"Test{case.base.__name__.removeprefix('Base')}_{kind}", (case.base,), content)


def _copy(function: FunctionType) -> FunctionType:
    # A mark on dbt's function would also affect the run with the other materializations.
    code, defaults = function.__code__, function.__defaults__
    copy = FunctionType(code, function.__globals__, function.__name__, defaults, function.__closure__)
    copy.__dict__.update(function.__dict__, pytestmark=list(getattr(function, "pytestmark", [])))
    return copy


for _case in CASES:
    for _kind in ("stock", "bucketed"):
        _class = suite(_case, _kind)
        globals()[_class.__name__] = _class


def test_every_listed_difference_refers_to_an_existing_test() -> None:
    known = {(case.base.__name__, name) for case in CASES for name in dir(case.base)}
    assert {(name, test) for name, test, _ in DIFFERENCES} <= known
