"""Tests of scripts: the check of the machine, the demo, and the changes that `make mutate` makes."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest
from mutate import Mutant, imported, mutants, relevant

from conftest import REPOSITORY
from spark_bucketing.errors import ProjectError

SCRIPT = Path(__file__).parents[2] / "scripts" / "check_machine.py"


def check(home: Path | str, **environment: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "JAVA_HOME": str(home), **environment}
    return subprocess.run([sys.executable, SCRIPT], env=environment, capture_output=True, text=True, check=False)


WITH_OPTIONS = 'Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21" 2023-09-19 LTS'


@pytest.mark.parametrize(
    ("says", "found"),
    [
        ('openjdk version "17.0.15" 2025-04-15', ""), (WITH_OPTIONS, ""),
        ('java version "1.8.0_392"', "is version 8"), ('openjdk version "11.0.22" 2024-01-16', "is version 11"),
        ("The operation couldn't be completed. Unable to locate a Java Runtime.", "does not run"),
    ],
)  # fmt: skip
def test_without_supported_java_the_message_says_how_to_install_it(tmp_path: Path, says: str, found: str) -> None:
    assert f"{tmp_path}/bin/java does not run." in check(tmp_path).stderr
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "java"
    command.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{says}\nEND\n")
    command.chmod(0o755)
    result = check(tmp_path)
    assert (result.returncode, result.stdout, bool(result.stderr)) == (bool(found), "", bool(found))
    # Without JAVA_HOME, Java is found on the path.
    on_path = check("", PATH=f"{tmp_path}/bin:{os.environ['PATH']}")
    assert (on_path.returncode, found in on_path.stderr) == (result.returncode, True)
    if found:
        assert f"Java 17 or newer is required; {tmp_path}/bin/java {found}." in result.stderr
        assert all(tool in result.stderr for tool in ("apt-get install", "dnf install", "brew install"))


@pytest.fixture(autouse=True)
def program(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(REPOSITORY / "scripts" / "evolution"))


@pytest.mark.parametrize("without", ["{{ config(", "{% if is_incremental() %}"])
def test_model_that_cannot_be_edited_is_an_error(without: str) -> None:
    from showcase import MODEL, edited

    model = Path(REPOSITORY, MODEL).read_text().replace(without, "")
    with pytest.raises(ProjectError, match=r"flights_by_month.sql has no .* Expected both"):
        edited(model, {})


@pytest.mark.parametrize("table", ["departures", "arrivals"])
def test_tables_of_the_demo_differ_only_in_their_config(table: str) -> None:
    models = [(REPOSITORY / "models" / "history" / f"{kind}_{table}.sql").read_text() for kind in ("plain", "bucketed")]
    assert models[0].partition("}}")[2] == models[1].partition("}}")[2] != ""
    assert ["buckets=" in model for model in models] == [False, True]


@pytest.mark.parametrize(("factor", "said"), [(0.3, "3.3x slower"), (1.0, "same"), (40.0, "40.0x")])
def test_last_screen_of_the_demo_fits_a_terminal(monkeypatch: pytest.MonkeyPatch, factor: float, said: str) -> None:
    monkeypatch.syspath_prepend(str(REPOSITORY / "scripts"))
    from demo import MERGE, QUERIES, Measured
    from demo_report import page, screen

    before, after = Measured([40.0, 41.0, 99.0], 2**31, 2), Measured([41.0 / factor], 0, 0)
    results = {name: {"plain": before, "bucketed": after} for name in (*QUERIES, MERGE)}
    facts = {
        "rows": {"departures": 5_013_960, "arrivals": 4_910_190}, "built": {"plain": 20.0, "bucketed": 100.0},
        "spark": "4.3.0", "cores": 16, "runs": 3,
    }  # fmt: skip
    lines = screen(results, facts)
    assert len(lines) <= 25 and max(map(len, lines)) <= 80, "\n".join(lines)
    assert lines[1].endswith(f"  {said}")
    assert page(results, facts).count('class="bar ') == 12


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


def test_conditions_operators_constants_and_statements_are_changed_and_not_comments() -> None:
    assert changed("a.py", PYTHON) == [
        "def f(a: int | None, b=(2)):", "if (a or not b):", "if (not (a and (not b))):", "if a and (b):", "pass",
        "return (a >= b)", "return None",
    ]  # fmt: skip
    assert all(ast.parse(one.text) for one in mutants("a.py", PYTHON))
    assert changed("a.sql", MACRO) == [
        "", "{% if a != 1 and b %}", "{% if a == 1 or b %}", "{% if a == 11 and b %}", "{% if not (a == 1 and b) %}",
    ]  # fmt: skip


def test_only_tests_run_that_can_notice_a_change() -> None:
    sources = "python_plugin/src/spark_bucketing/doctor/server.py", "macros/bucketing/write/bucket_id.sql"
    of_doctor, of_macros = (relevant(REPOSITORY, ["tests/unit"], Mutant(path, 1, "")) for path in sources)
    assert of_doctor[0] == "tests/unit/test_doctor.py" and "tests/unit/test_config.py" in of_macros
    assert "tests/unit/test_edits_files.py" not in {*of_doctor, *of_macros}
    # Also through a helper in tests/support.
    assert "spark_bucketing.checks.verdicts" in imported("from check_cases import made\n")
