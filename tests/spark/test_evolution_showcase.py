"""`make evolution`: the two cases of the talk "Bucketing 2.0", and four specs, on the flights of the showcase."""

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
# The same program, in which a statement is sent after the first `dbt run`, and the steps from the second one are left out.
SABOTAGE = f"""
import sys

sys.path.insert(0, {str(PROGRAM)!r})
import evolve

run = evolve.Showcase.run


def run_and_spoil(showcase, step):
    run(showcase, step)
    showcase.spark.sql(sys.argv[1])


evolve.Showcase.run = run_and_spoil
evolve.STEPS = evolve.STEPS[1:2]
sys.exit(evolve.main())
"""
ANSWER = re.compile(
    r"^(join with planes|grouping by plane), (.*): (\d) Exchange, (\d) Sort \(stock Spark: (\d) Exchange, (\d) Sort\)$",
    re.MULTILINE,
)


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


@pytest.fixture(scope="module")
def steps(output: str) -> list[str]:
    return re.split(r"^== \d\. .* ==$", output, flags=re.MULTILINE)[1:]


STEPS = ["plain", "8 buckets", "16 buckets", "another column", "8 and 16 in all months"]
# For each step, by the months that are selected, the exchanges and sorts of the join and of the grouping.
ALL_MOVE, NONE_MOVES = ("1 1", "1 0"), ("0 0", "0 0")
SIX = "2013-04 to 2013-09"
MOVES: list[dict[str, tuple[str, str]]] = [
    {"all months": ALL_MOVE, "2013-03": ALL_MOVE},
    {"all months": ALL_MOVE, "2013-05": NONE_MOVES},
    {"all months": ALL_MOVE, SIX: NONE_MOVES, "2013-08": NONE_MOVES},
    {"all months": ALL_MOVE, SIX: NONE_MOVES, "2013-11": ALL_MOVE},
    {"all months": NONE_MOVES, "2013-11": NONE_MOVES},
]


@pytest.mark.parametrize("step", range(5), ids=STEPS)
def test_queries_use_the_buckets_that_their_months_have(steps: list[str], step: int) -> None:
    found = {(query, months): moves for query, months, *moves in ANSWER.findall(steps[step])}
    assert found == {
        (query, months): [*moves.split(), *stock.split()]
        for months, of_queries in MOVES[step].items()
        for query, moves, stock in zip(
            ("join with planes", "grouping by plane"), of_queries, ("2 2", "1 0"), strict=True
        )
    }


PLAIN, EIGHT = "01 .. 03 3 partitions [not-sealed]", "04 .. 06 3 partitions 8 buckets by (tailnum)"
SPECS = {
    0: ["has no buckets, and its partitions never had any"],
    1: [PLAIN, EIGHT],
    3: [PLAIN, EIGHT, "07 .. 09 3 partitions 16 buckets by (tailnum)", "10 .. 12 3 partitions 4 buckets by (carrier)"],
    4: [
        "01 .. 03 3 partitions 16 buckets by (tailnum)",
        EIGHT,
        "07 .. 12 6 partitions 16 buckets by (tailnum)",
        "all partitions together: as 8 buckets by (tailnum)",
    ],
}


@pytest.mark.parametrize("step", SPECS, ids=STEPS.__getitem__)
def test_each_month_has_the_spec_that_it_was_written_by(steps: list[str], step: int) -> None:
    shown = re.sub(r" +", " ", steps[step].replace("flight_month=2013-", ""))
    places = [shown.find(spec) for spec in SPECS[step]]
    assert -1 not in places and places == sorted(places), shown


def test_the_rows_of_all_queries_were_compared(steps: list[str]) -> None:
    said = [re.search(r"^These (.*) have the rows of the CSV files\.$", step, re.MULTILINE) for step in steps]
    assert [found and found[1] for found in said] == [
        "4 queries", "4 queries", "6 queries", "6 queries and 11 others", "4 queries",
    ]  # fmt: skip


def test_documents_quote_what_is_printed(output: str) -> None:
    printed = [line.strip() for line in output.splitlines()]
    section = (REPOSITORY / "docs" / "evolution.md").read_text().rpartition("make evolution")[2].split("\n## ")[0]
    quoted = "".join(re.findall(r"```text\n(.*?)```", section, re.DOTALL)).splitlines()
    assert quoted
    assert [line for line in quoted if line.strip() not in printed] == []


def test_nothing_is_left_outside_of_its_folder(output: str, demo: Path) -> None:
    assert [path.name for path in demo.iterdir()] == ["evolution"]


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        pytest.param(
            "insert into nycflights13.flights_by_month select * from nycflights13.flights_by_month "
            "where flight_month = '2013-05' and tailnum = 'N14228' limit 1",
            r"join with planes, all months, with the extension: 1 row too many, such as \('UA-",
            id="a row twice",
        ),
        pytest.param(
            "insert overwrite nycflights13.flights_by_month partition (flight_month = '2013-05') "
            "select tailnum, flight_id, flight_date, carrier, origin, dest, is_cancelled, departure_delay, "
            "if(tailnum = 'N14228', 0, arrival_delay) from nycflights13.stg_flights where flight_month = '2013-05'",
            r"grouping by plane, all months, with the extension: 1 row too many, such as \('N14228', .*; 1 row missing",
            id="a wrong value",
        ),
    ],
)
def test_a_wrong_row_is_found(tmp_path: Path, statement: str, found: str) -> None:
    done = evolve(tmp_path, "-c", SABOTAGE, statement)
    assert done.returncode == 1, done.stderr
    assert re.search(f"^Wrong rows. {found}", done.stderr, re.MULTILINE), done.stderr
