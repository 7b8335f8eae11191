"""Tests that all errors have the form that CONTRIBUTING.md describes, and of a Spark server's messages."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from macros import Macros

from conftest import REPOSITORY
from spark_bucketing.errors import BucketingError, TableError, error_message

PLUGIN = REPOSITORY / "python_plugin" / "src" / "spark_bucketing"
# A first line, and the labels in this order. All but the first line may be missing.
FORM = re.compile(r"[^\n]*[^\n,;:](\n  found:    .*(\n {12}.*)*)?(\n  expected: .*)?(\n  instead:  .*)?")
LABELED = "Model `m` is wrong.\n  found:    a\n            b\n  expected: c\n  instead:  d"


def test_python_and_macros_compose_the_same_message() -> None:
    assert error_message("Model `m` is wrong.", "a\nb", "c", "d") == LABELED
    assert str(TableError("Model `m` is wrong.", found="a\nb", expected="c", instead="d")) == LABELED
    assert Macros({"name": "m"}).error_message("Model `m` is wrong.", "a\nb", "c", "d") == LABELED
    assert Macros({"name": "m"}).error_message("It fails.", None, None, "d") == error_message("It fails.", instead="d")
    assert Macros({"name": "m"}).error_message("It fails.", "", 0, "\n") == error_message("It fails.", "", 0, "\n")
    assert error_message("It fails.", "") == "It fails.\n  found:    ''"


def _raised() -> Iterator[tuple[str, ast.Call]]:
    names = {"BucketingError", *(error.__name__ for error in BucketingError.__subclasses__())}
    for file in PLUGIN.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names:
                yield f"{file.relative_to(PLUGIN)}:{node.lineno}", node


def test_python_errors_have_this_form() -> None:
    raised = dict(_raised())
    assert len(raised) > 80
    wrong = []
    for place, call in raised.items():
        parts = call.args[0].values if isinstance(call.args[0], ast.JoinedStr) else [call.args[0]]
        text = "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in parts)
        if not FORM.fullmatch(text) or re.search(r"\b(Expected|Instead)\b|: found ", text):
            wrong.append(place)
    assert wrong == []


def test_macros_raise_errors_of_this_form() -> None:
    for file in (REPOSITORY / "macros").rglob("*.sql"):
        for raised in re.findall(r"raise_compiler_error\((.*?)\) %}", file.read_text(), re.DOTALL):
            assert re.match(
                r"\s*spark_bucketing\.(error_message|config_error|ambiguous_merge|coarse_partition_error)\(", raised
            ), f"{file}: {raised}"


def test_scala_errors_have_this_form() -> None:
    """Errors with labels pass their parts to Compat.refusal(); no part repeats its label."""
    for file in (PLUGIN / "extension" / "scala").rglob("*.scala"):
        text = re.sub(r'"\s*\+\s*s?"', "", file.read_text())
        for raised in re.findall(r"(?:refusal|refused)\((.*?)\n", text):
            assert not re.search(r'"(found|expected|instead) |: found |\. Expected |Instead: ', raised), (
                f"{file}: {raised}"
            )


def test_contributing_shows_this_form() -> None:
    example = re.search(r"```text\n(.*?)\n```", (REPOSITORY / "CONTRIBUTING.md").read_text(), re.DOTALL)
    assert example is not None and FORM.fullmatch(example[1]) and example[1].count("\n  ") >= 3
