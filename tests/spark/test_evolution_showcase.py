"""Tests of `make evolution`: the two cases in the talk "Bucketing 2.0", and four specs, on the showcase's flights."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import REPOSITORY

pytestmark = pytest.mark.long

PROGRAM = REPOSITORY / "scripts" / "evolution"
# This variant of the program sends a statement after the first `dbt run`, and skips all later steps.
SABOTAGE = f"""
import sys

sys.path.insert(0, {str(PROGRAM)!r})
import evolve

run = evolve.Showcase.run


def run_and_lose_layout(showcase, step):
    run(showcase, step)
    showcase.spark.sql(sys.argv[1])


evolve.Showcase.run = run_and_lose_layout
evolve.STEPS = evolve.STEPS[1:2]
sys.exit(evolve.main())
"""


def evolve(demo: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"SPARK_BUCKETING_DEMO": str(demo), "SPARK_LOCAL_IP": "127.0.0.1"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=demo, env=environment, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def output(demo: Path) -> str:
    done = evolve(demo, str(PROGRAM / "evolve.py"))
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    return done.stdout


def test_program_compares_the_rows_of_all_queries(output: str) -> None:
    assert re.findall(r"^These (.*) return the same rows as over the CSV files\.$", output, re.MULTILINE) == [
        "4 queries", "4 queries", "6 queries", "6 queries and 11 others", "4 queries",
    ]  # fmt: skip


def test_docs_quote_the_printed_output(output: str) -> None:
    printed = [line.strip() for line in output.splitlines()]
    page = (REPOSITORY / "docs" / "how-to" / "change-buckets.md").read_text()
    section = page.rpartition("make evolution")[2].split("\n## ")[0]
    quoted = "".join(re.findall(r"```text\n(.*?)```", section, re.DOTALL)).splitlines()
    assert quoted
    assert [line for line in quoted if line.strip() not in printed] == []


def test_program_writes_only_to_its_folder(output: str, demo: Path) -> None:
    assert [path.name for path in demo.iterdir()] == ["evolution"]


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        pytest.param(
            "insert into nycflights13.flights_by_month select * from nycflights13.flights_by_month "
            "where flight_month = '2013-05' and tailnum = 'N14228' limit 1",
            r"join with planes, all months, with the extension: 1 row too many, such as \('UA-",
            id="duplicate row",
        ),
        pytest.param(
            "insert overwrite nycflights13.flights_by_month partition (flight_month = '2013-05') "
            "select tailnum, flight_id, flight_date, carrier, origin, dest, is_cancelled, departure_delay, "
            "if(tailnum = 'N14228', 0, arrival_delay) from nycflights13.stg_flights where flight_month = '2013-05'",
            r"grouping by plane, all months, with the extension: 1 row too many, such as \('N14228', .*; 1 row missing",
            id="wrong value",
        ),
    ],
)
def test_program_finds_a_wrong_row(tmp_path: Path, statement: str, found: str) -> None:
    done = evolve(tmp_path, "-c", SABOTAGE, statement)
    assert done.returncode == 1, done.stderr
    assert re.search(f"^Some rows are incorrect. {found}", done.stderr, re.MULTILINE), done.stderr
