"""Rewrites that die again and again, and other statements before each of their steps: the rows that there are then."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import NamedTuple

import pytest
from bucketed import Tables
from click.testing import Result
from evolving import (  # noqa: F401
    DB,
    alter,
    evolution_command,
    evolved,
    evolving_tables,
    fill,
    fine,
    locations,
    nothing_is_left,
)
from interrupted import STEPS, dying, half_copied, half_deleted, half_renamed, meanwhile

pytestmark = [pytest.mark.usefixtures("extension"), pytest.mark.long]


class Act(NamedTuple):
    """A statement on ds=a, and how many rows it leaves of how many."""

    do: Callable[[Tables, str], object]
    rows: Callable[[int], int]


def stock_append(tables: Tables, name: str) -> None:
    with tables.settings({"spark.bucketing.enabled": "false"}):
        fill(tables, name, "a", rows=3, how="into")


DYNAMIC = "insert overwrite table {} partition (ds) select cast(id as int), id, 'a' from range(7)"
ACTS = {
    "append": Act(lambda tables, name: fill(tables, name, "a", rows=3, how="into"), lambda rows: rows + 3),
    "append by stock Spark": Act(stock_append, lambda rows: rows + 3),
    "overwrite": Act(lambda tables, name: fill(tables, name, "a", rows=5), lambda _: 5),
    "dynamic overwrite": Act(lambda tables, name: tables.sql(DYNAMIC.format(name)), lambda _: 7),
    "truncate": Act(lambda tables, name: tables.sql(f"truncate table {name} partition (ds = 'a')"), lambda _: 0),
    "analyze": Act(
        lambda tables, name: tables.sql(f"analyze table {name} partition (ds = 'a') compute statistics"),
        lambda rows: rows,
    ),
    "alter": Act(lambda tables, name: alter(tables, name, 16), lambda rows: rows),
}


def number(tables: Tables, name: str) -> int:
    """Of the rows of ds=a."""
    tables.sql(f"refresh table {name}")
    return int(str(tables.sql(f"select count(*) from {name} where ds = 'a'")[0][0]))


# Each step that changes something, with how often one of its word has come then.
MOMENTS = [(word, list(STEPS.values())[: n + 1].count(word)) for n, word in enumerate(STEPS.values()) if n]


@pytest.mark.parametrize("name", ["truncate", "overwrite", "append", "analyze"])
@pytest.mark.parametrize(("step", "time"), MOMENTS)
def test_a_statement_before_any_step_has_its_rows(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, name: str, step: str, time: int
) -> None:
    evolved(tables, "met", {"a": 4, "b": 8})
    home, act = locations(tables, "met")["ds=a"], ACTS[name]
    with meanwhile(monkeypatch, step, lambda: act.do(tables, "met"), time):
        first = command("rewrite", f"{DB}.met")
    assert number(tables, "met") == act.rows(40), first.output
    second = command("rewrite", f"{DB}.met")
    assert second.exit_code == 0, (first.output, second.output)
    assert (number(tables, "met"), locations(tables, "met")["ds=a"]) == (act.rows(40), home), second.output
    nothing_is_left(tables, "met")
    fine(command, "met")


HALVES: list[tuple[str, Callable[..., None]]] = [
    ("none", lambda *_: None),
    ("clear", half_deleted),
    ("copy", half_copied),
    ("rename", half_renamed),
]


@pytest.mark.parametrize("seed", range(20))
def test_deaths_and_statements_in_any_order(
    tables: Tables, command: Callable[..., Result], monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    chance = random.Random(seed)
    evolved(tables, "tried", {"a": 4, "b": 8})
    rows, home, done = 40, locations(tables, "tried")["ds=a"], []
    for _ in range(6):
        if chance.random() < 0.3:
            name, act = chance.choice(list(ACTS.items()))
            act.do(tables, "tried")
            rows = act.rows(rows)
            done.append(name)
        else:
            before, (kind, half) = chance.randrange(15), chance.choice(HALVES)
            with dying(monkeypatch, before, half, kind):
                command("rewrite", f"{DB}.tried")
            done.append(f"dead before {before}, or within {kind}")
        assert number(tables, "tried") == rows, done
    command("rewrite", f"{DB}.tried")
    result = command("rewrite", f"{DB}.tried")
    assert result.exit_code == 0, (done, result.output)
    assert (number(tables, "tried"), locations(tables, "tried")["ds=a"]) == (rows, home), done
    nothing_is_left(tables, "tried")
    fine(command, "tried")
