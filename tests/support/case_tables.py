"""Parametrize tests with tables of cases in YAML files."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from conftest import REPOSITORY


def cases(path: str, /, **columns: Any) -> pytest.MarkDecorator:
    """Parametrize a test with the cases of a file in `tests/cases`; columns have the given values if a case has none."""
    found = yaml.safe_load((REPOSITORY / "tests" / "cases" / f"{path}.yml").read_text())
    assert all(case.keys() <= {*columns, "name"} for case in found), f"{path} has an unknown column"
    rows = [tuple((columns | case)[name] for name in columns) for case in found]
    return pytest.mark.parametrize(tuple(columns), rows, ids=[case.get("name") for case in found])
