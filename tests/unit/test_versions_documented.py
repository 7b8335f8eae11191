"""Tests that the table in docs/reference/versions.md matches the tests of each version."""

from __future__ import annotations

import re

from spark_features import SINCE, VERSIONS

from conftest import REPOSITORY

TEXT = (REPOSITORY / "docs" / "reference" / "versions.md").read_text()


def table() -> dict[str, list[str]]:
    """Return the cells of each row by its first cell; the header has the key ""."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in TEXT.splitlines() if line.startswith("|")]
    return {row[0]: row[1:] for row in rows if not set(row[0]) <= {"-", " "} or not row[0]}


def test_table_has_a_column_for_each_version() -> None:
    assert table()[""] == [".".join(map(str, version)) for version in VERSIONS]


def test_table_lists_exactly_the_unsupported_features() -> None:
    said = {feature: [cell.split()[0] for cell in cells] for feature, cells in table().items() if feature}
    limited = {feature for feature, cells in said.items() if "no" in cells}
    assert limited == set(SINCE)
    for feature, cells in said.items():
        assert cells == ["yes" if version >= SINCE.get(feature, VERSIONS[0]) else "no" for version in VERSIONS], feature


def test_each_unsupported_feature_has_a_reason() -> None:
    noes = [cell for cells in table().values() for cell in cells if cell.startswith("no")]
    assert noes and all(re.fullmatch(r"no [(]\d[)]", cell) for cell in noes)
    reasons = set(re.findall(r"^(\d)[.] \S", TEXT, re.MULTILINE))
    assert {cell[4] for cell in noes} == reasons


def test_readme_links_to_the_table() -> None:
    assert "(docs/reference/versions.md)" in (REPOSITORY / "README.md").read_text()
