"""Tests of the changes that `make mutate` makes: each breaks one line, and the result is still Python or Jinja."""

from __future__ import annotations

import ast

from mutate import Mutant, imported, mutants, relevant

from conftest import REPOSITORY

PYTHON = """def f(a: int | None, b=1):
    if a and not b:
        log(f"{a + b}")
    return a < b
"""
MACRO = "{# and #}\n{% if a == 1 and b %}\n  {% do run() %}\n{% endif %}"


def changed(path: str, text: str) -> list[str]:
    """Return the changed lines, which are at the mutants' line numbers."""
    found = list(mutants(path, text))
    for one in found:
        old, new = text.split("\n"), one.text.split("\n")
        assert [number for number, line in enumerate(old, 1) if line != new[number - 1]] == [one.line]
    return sorted(one.text.split("\n")[one.line - 1].strip() for one in found)


def test_python_is_changed_in_conditions_operators_constants_and_statements() -> None:
    assert changed("a.py", PYTHON) == [
        "def f(a: int | None, b=(2)):", "if (a or not b):", "if (not (a and (not b))):", "if a and (b):", "pass",
        "return (a >= b)", "return None",
    ]  # fmt: skip
    assert all(ast.parse(one.text) for one in mutants("a.py", PYTHON))


def test_macros_are_changed_in_jinja_and_not_in_comments() -> None:
    assert changed("a.sql", MACRO) == [
        "", "{% if a != 1 and b %}", "{% if a == 1 or b %}", "{% if a == 11 and b %}", "{% if not (a == 1 and b) %}",
    ]  # fmt: skip


def test_only_tests_run_that_can_notice_a_change() -> None:
    of_doctor = relevant(
        REPOSITORY, ["tests/unit"], Mutant("python_plugin/src/spark_bucketing/doctor/server.py", 1, "")
    )
    assert of_doctor[0] == "tests/unit/test_doctor.py" and "tests/unit/test_edits_files.py" not in of_doctor
    of_macros = relevant(REPOSITORY, ["tests/unit"], Mutant("macros/bucketing/write/bucket_id.sql", 1, ""))
    assert "tests/unit/test_config.py" in of_macros and "tests/unit/test_edits_files.py" not in of_macros
    # Also through a helper in tests/support.
    assert "spark_bucketing.checks.verdicts" in imported("from check_cases import made\n")
