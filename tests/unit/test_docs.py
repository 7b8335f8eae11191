"""Tests that the documentation matches the sources and the tests of each version, and has no retired words."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from spark_features import SINCE, VERSIONS

from conftest import REPOSITORY
from spark_bucketing.checks.checked_query import REASON_OF_CODE
from spark_bucketing.config.schema import KEYS

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


def version_table() -> dict[str, list[str]]:
    """Return the cells of each row by its first cell; the header has the key ""."""
    lines = [line for line in VERSIONS_PAGE.splitlines() if line.startswith("|")]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {row[0]: row[1:] for row in rows if not set(row[0]) <= {"-", " "} or not row[0]}


def test_version_table_lists_exactly_the_unsupported_features_with_their_reasons() -> None:
    table = version_table()
    assert table.pop("") == [".".join(map(str, version)) for version in VERSIONS]
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


@pytest.mark.parametrize("word", sorted(RETIRED))
def test_replacement_of_a_retired_word_is_not_retired(word: str) -> None:
    assert not set(RETIRED[word].split()) & RETIRED.keys()
