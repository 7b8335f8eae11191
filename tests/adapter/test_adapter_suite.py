"""dbt's tests for adapters, run with dbt-spark's materializations and with the bucketed ones in their place.

Each class of dbt's is run twice. What fails is written down with its reason (adapter_cases.DIFFERENCES), and fails always.
"""

from __future__ import annotations

from types import FunctionType

import pytest
from adapter_cases import CASES, DIFFERENCES, Case
from adapter_fixtures import *  # noqa: F403 - as a conftest.py would, of which there can be only one


def suite(case: Case, kind: str) -> type:
    """One of dbt's classes as one that pytest runs, with its expected failures marked."""
    content: dict[str, object] = {"case": case, "bucketed": kind == "bucketed"}
    for name in (name for name in dir(case.base) if name.startswith("test_")):
        reason = DIFFERENCES.get((case.base.__name__, name, kind))
        if reason:
            content[name] = pytest.mark.xfail(reason=reason, strict=True)(_copied(getattr(case.base, name)))
    made = type(f"Test{case.base.__name__.removeprefix('Base')}_{kind}", (case.base,), content)
    return made if case.quick and kind == "bucketed" else pytest.mark.long(made)


def _copied(function: FunctionType) -> FunctionType:
    # A mark on dbt's own function would be there for the other kind as well.
    code, defaults = function.__code__, function.__defaults__
    copy = FunctionType(code, function.__globals__, function.__name__, defaults, function.__closure__)
    copy.__dict__.update(function.__dict__, pytestmark=list(getattr(function, "pytestmark", [])))
    return copy


for _case in CASES:
    for _kind in ("stock", "bucketed"):
        _class = suite(_case, _kind)
        globals()[_class.__name__] = _class


def test_every_difference_is_of_a_test_that_is_run() -> None:
    known = {(case.base.__name__, name) for case in CASES for name in dir(case.base)}
    assert {(name, test) for name, test, _ in DIFFERENCES} <= known
