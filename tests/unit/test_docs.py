"""Tests that the documentation matches the sources that it describes."""

from __future__ import annotations

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import REPOSITORY
from spark_bucketing.config.schema import KEYS

DOCS = REPOSITORY / "docs"
SCALA = REPOSITORY / "python_plugin" / "src" / "spark_bucketing" / "extension" / "scala"
PAGES = runpy.run_path(str(REPOSITORY / "scripts" / "write_reference.py"))["PAGES"]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.stem)
def test_generated_page_is_current(page: Path) -> None:
    assert page.read_text() == PAGES[page](), "run make docs"


def test_every_config_key_is_documented() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", (DOCS / "reference" / "configuration.md").read_text(), re.MULTILINE)
    assert set(KEYS) <= set(rows)


def test_every_explain_code_is_documented() -> None:
    codes = set(re.findall(r'"([a-z]+(?:-[a-z]+)+)"', (SCALA / "FallbackReason.scala").read_text()))
    table = (DOCS / "reference" / "sql.md").read_text().partition("## EXPLAIN")[2]
    assert set(re.findall(r"^\| `([a-z-]+)` \|", table, re.MULTILINE)) == codes


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"])
def test_links_lead_to_files(name: str) -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", (REPOSITORY / name).read_text())
    assert [link for link in links if not (REPOSITORY / link).exists()] == []


def test_every_page_starts_with_its_purpose() -> None:
    pages = sorted(DOCS.rglob("*.md"))
    missing = [str(page) for page in pages if not re.match(r"# .+\n\n[A-Z][^\n]+", page.read_text())]
    assert pages
    assert missing == []


def test_site_loads_nothing_from_the_network(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True)
    pages = [page.read_text() for page in tmp_path.rglob("*.html")]
    loaded = [re.findall(r"<(?:script|link|img)[^>]*https?://[^>]*>", page) for page in pages]
    assert len(pages) > len(PAGES)
    assert [tags for tags in loaded if tags] == []
