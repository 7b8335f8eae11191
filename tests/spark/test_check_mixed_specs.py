"""Tests that `check` on a table with mixed bucket specs names the incompatible partitions and the fix."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import Result
from commands import command
from spec_evolution import DB, SpecEvolution, evolving_tables  # noqa: F401

from conftest import Project

pytestmark = pytest.mark.usefixtures("extension", "no_broadcast")

JOIN = f"select a.k, a.v, b.v as w from {DB}.mixed a join {DB}.other b on a.k = b.k"


@pytest.fixture(autouse=True)
def other(tables: SpecEvolution, extension: None) -> None:
    tables.new("other")
    tables.sql("insert into other select cast(id as int), id, 'x' from range(40)")


def check(project: Project, query: str, *arguments: str) -> Result:
    file = Path(project.folder) / "query.sql"
    file.write_text(query)
    return command(project, "check", str(file), *arguments)


MIXED = {"2024-01": 3, "2024-02": 4, "2024-03": 3, "2024-04": 8}
COMMAND = f"""spark-bucketing table rewrite {DB}.mixed --where "ds in ('2024-01', '2024-03')\""""


def test_finding_names_incompatible_partitions_and_the_smallest_rewrite(
    tables: SpecEvolution, project: Project
) -> None:
    tables.evolved("mixed", MIXED)
    result = check(project, JOIN)
    found = [line.strip() for line in result.output.splitlines()]
    assert result.exit_code == 1
    assert found[2:4] == [
        f"Spark uses an ordinary scan for {DB}.mixed: its bucket specs differ: 3 buckets in ds=2024-01 and 1 more, "
        "4 buckets in ds=2024-02, 8 buckets in ds=2024-04.",
        f"fix (then sort-free): Run `{COMMAND}` to rewrite 2 partitions (ds=2024-01, ds=2024-03) with 8 buckets by (k), "
        "sorted by (k), hash hive. [whole query: 1 Exchange to 0, 1 Sort to 0]",
    ]
    (model,) = json.loads(check(project, JOIN, "--format", "json").stdout)["models"]
    (finding,) = [finding for operator in model["operators"] for finding in operator["findings"]]
    (fix,) = finding["fixes"]
    assert (finding["reason"], finding["tables"]) == ("mixed-bucket-specs", [f"{DB}.mixed"])
    assert (fix["kind"], fix["where"]) == ("rewrite_files", "ds in ('2024-01', '2024-03')")


@pytest.mark.long
def test_finding_counts_the_other_partitions_without_buckets(tables: SpecEvolution, project: Project) -> None:
    tables.evolved("mixed", {"a": 4, "b": 4, "c": 4})
    for value in ("a", "b"):
        tables.sql(f"alter table mixed partition (ds = '{value}') not clustered")
    tables.alter("mixed", 8)
    output = check(project, JOIN).output
    message = f"an ordinary scan for {DB}.mixed: partition ds=a and 1 more: its files are not sealed (not-sealed).\n"
    assert message in output
    assert """--where "ds in ('a', 'b')"` to rewrite 2 partitions (ds=a, ds=b) with 8 buckets""" in output
