"""Tests that documentation, versions and error messages agree with the sources, and have no retired words."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from macros import Macros
from spark_features import SINCE, VERSIONS

from conftest import REPOSITORY
from spark_bucketing.checks.checked_query import REASON_OF_CODE
from spark_bucketing.config.schema import KEYS
from spark_bucketing.errors import BucketingError, TableError, error_message

DOCS = REPOSITORY / "docs"
SCALA = REPOSITORY / "python_plugin" / "src" / "spark_bucketing" / "extension" / "scala"
VERSIONS_PAGE = (DOCS / "reference" / "versions.md").read_text()
WORDS = REPOSITORY / "scripts" / "retired_words.txt"
RETIRED = dict(line.split("->") for line in WORDS.read_text().splitlines())
PAGES = runpy.run_path(str(REPOSITORY / "scripts" / "write_reference.py"))["PAGES"]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_generated_page_is_current(page: Path) -> None:
    assert page.read_text() == PAGES[page](), "run make docs"


def test_every_config_key_code_and_setting_is_documented() -> None:
    pages = {name: (DOCS / "reference" / f"{name}.md").read_text() for name in ("configuration", "settings", "sql")}
    assert set(KEYS) <= set(re.findall(r"^\| `(\w+)` \|", pages["configuration"], re.MULTILINE))
    codes = set(re.findall(r'"([a-z]+(?:-[a-z]+)+)"', (SCALA / "FallbackReason.scala").read_text()))
    states = pages["sql"].partition("## States of files")[2]
    assert set(re.findall(r"^\| `([a-z]+-[a-z-]+)` \|", states, re.MULTILINE)) == codes
    # Check has a reason for every code of an ordinary scan.
    assert codes - {"not-needed", "column-not-read"} == REASON_OF_CODE.keys()
    settings = re.findall(r'conf\("([^"]+)"', (SCALA / "BucketingConf.scala").read_text())
    documented = pages["settings"] + pages["sql"]
    assert len(settings) > 7 and [name for name in settings if f"`spark.bucketing.{name}`" not in documented] == []


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_to_files(name: str) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", (REPOSITORY / name).read_text())
    assert [link for link in links if not (REPOSITORY / link).exists()] == []


def test_every_page_starts_with_its_purpose() -> None:
    texts = {str(page): page.read_text() for page in DOCS.rglob("*.md")}
    assert texts and [name for name, text in texts.items() if not re.match(r"# .+\n\n[A-Z][^\n]+", text)] == []


def test_site_loads_nothing_from_the_network(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    pages = [page.read_text() for page in tmp_path.rglob("*.html")]
    loaded = [re.findall(r"<(?:script|link|img)[^>]*https?://[^>]*>", page) for page in pages]
    assert len(pages) > len(PAGES)
    assert [tags for tags in loaded if tags] == []


def test_version_table_lists_exactly_the_unsupported_features_with_their_reasons() -> None:
    lines = [line for line in VERSIONS_PAGE.splitlines() if line.startswith("|")]
    header, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert header[1:] == [".".join(map(str, version)) for version in VERSIONS]
    table = {row[0]: row[1:] for row in rows}
    said = {feature: [cell.split()[0] for cell in cells] for feature, cells in table.items()}
    assert {feature for feature, cells in said.items() if "no" in cells} == set(SINCE)
    for feature, cells in said.items():
        assert cells == ["yes" if version >= SINCE.get(feature, VERSIONS[0]) else "no" for version in VERSIONS], feature
    noes = [cell for cells in table.values() for cell in cells if cell.startswith("no")]
    assert noes and all(re.fullmatch(r"no [(]\d[)]", cell) for cell in noes)
    assert {cell[4] for cell in noes} == set(re.findall(r"^(\d)[.] \S", VERSIONS_PAGE, re.MULTILINE))
    assert "(docs/reference/versions.md)" in (REPOSITORY / "README.md").read_text()


def test_each_retired_word_is_found_with_its_replacement(tmp_path: Path) -> None:
    text = tmp_path / "text.md"
    text.write_text("\n".join(f"Use '{word}', and {word.capitalize()} too." for word in RETIRED))
    config = REPOSITORY / "python_plugin" / "pyproject.toml"
    command = [sys.executable, "-m", "codespell_lib", "--toml", str(config), "-D", str(WORDS), str(text)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode != 0
    assert [word for word, new in RETIRED.items() if f"{word} ==> {new}".lower() not in found.stdout.lower()] == []
    assert [new for new in RETIRED.values() if set(new.split()) & RETIRED.keys()] == []


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
    # CONTRIBUTING.md shows this form.
    example = re.search(r"```text\n(.*?)\n```", (REPOSITORY / "CONTRIBUTING.md").read_text(), re.DOTALL)
    assert example is not None and FORM.fullmatch(example[1]) and example[1].count("\n  ") >= 3


def test_python_errors_have_this_form() -> None:
    names = {"BucketingError", *(error.__name__ for error in BucketingError.__subclasses__())}
    trees = {file.relative_to(PLUGIN): ast.parse(file.read_text()) for file in PLUGIN.rglob("*.py")}
    calls = [(file, node) for file, tree in trees.items() for node in ast.walk(tree) if isinstance(node, ast.Call)]
    raised = [(file, one) for file, one in calls if isinstance(one.func, ast.Name) and one.func.id in names]
    assert len(raised) > 70
    for file, call in raised:
        parts = call.args[0].values if isinstance(call.args[0], ast.JoinedStr) else [call.args[0]]
        text = "".join(str(part.value) if isinstance(part, ast.Constant) else "x" for part in parts)
        where = f"{file}:{call.lineno}"
        assert FORM.fullmatch(text) and not re.search(r"\b(Expected|Instead)\b|: found ", text), where


def test_errors_of_macros_and_scala_have_this_form() -> None:
    composed = r"\s*spark_bucketing\.(error_message|config_error|ambiguous_merge|coarse_partition_error)\("
    for file in (REPOSITORY / "macros").rglob("*.sql"):
        for raised in re.findall(r"raise_compiler_error\((.*?)\) %}", file.read_text(), re.DOTALL):
            assert re.match(composed, raised), f"{file}: {raised}"
    # In Scala, errors with labels pass their parts to Compat.refusal(); no part repeats its label.
    label = r'"(found|expected|instead) |: found |\. Expected |Instead: '
    for file in SCALA.rglob("*.scala"):
        text = re.sub(r'"\s*\+\s*s?"', "", file.read_text())
        for raised in re.findall(r"(?:refusal|refused)\((.*?)\n", text):
            assert not re.search(label, raised), f"{file}: {raised}"
