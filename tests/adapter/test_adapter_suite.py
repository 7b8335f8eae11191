"""dbt's tests for adapters, run with the bucketed materializations in the place of dbt-spark's.

What fails is written down with its reason (adapter_cases.DIFFERENCES), and fails always.
"""

from __future__ import annotations

import pytest
from adapter_cases import CASES, DIFFERENCES, Case
from adapter_fixtures import *  # noqa: F403 - as a conftest.py would, of which there can be only one


def suite(case: Case) -> type:
    """One of dbt's classes as one that pytest runs, with its expected failures marked."""
    content: dict[str, object] = {"case": case}
    for name in dir(case.base):
        if reason := DIFFERENCES.get((case.base.__name__, name)):
            content[name] = pytest.mark.xfail(reason=reason, strict=True)(getattr(case.base, name))
    made = type(f"Test{case.base.__name__.removeprefix('Base')}", (case.base,), content)
    return made if case.quick else pytest.mark.long(made)


for _case in CASES:
    _class = suite(_case)
    globals()[_class.__name__] = _class


def test_every_difference_is_of_a_test_that_is_run() -> None:
    known = {(case.base.__name__, name) for case in CASES for name in dir(case.base)}
    assert DIFFERENCES.keys() <= known
