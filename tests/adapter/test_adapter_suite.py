"""dbt's tests for adapters, run with dbt-spark's materializations and with the bucketed ones in their place.

Each class of dbt's is run twice. What fails is written down with its reason (adapter_cases.DIFFERENCES), and fails always.
"""

from __future__ import annotations

import pytest
from adapter_cases import CASES, DIFFERENCES, Case


def suite(case: Case, kind: str) -> type:
    """One of dbt's classes as one that pytest runs, with its expected failures marked."""
    content: dict[str, object] = {"case": case, "bucketed": kind == "bucketed"}
    for name in (name for name in dir(case.base) if name.startswith("test_")):
        reason = DIFFERENCES.get((case.base.__name__, name, kind))
        if reason:
            content[name] = pytest.mark.xfail(reason=reason, strict=True)(_copied(getattr(case.base, name)))
    made = type(f"Test{case.base.__name__.removeprefix('Base')}_{kind}", (case.base,), content)
    return made if case.quick else pytest.mark.long(made)


def _copied(function):  # type: ignore[no-untyped-def]
    # A mark on dbt's own function would be there for the other kind as well.
    from types import FunctionType

    copy = FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    copy.pytestmark = list(getattr(function, "pytestmark", []))  # type: ignore[attr-defined]
    return copy


for _case in CASES:
    for _kind in ("stock", "bucketed"):
        _class = suite(_case, _kind)
        globals()[_class.__name__] = _class


def test_every_difference_is_of_a_test_that_is_run() -> None:
    known = {(case.base.__name__, name) for case in CASES for name in dir(case.base)}
    assert {(name, test) for name, test, _ in DIFFERENCES} <= known
