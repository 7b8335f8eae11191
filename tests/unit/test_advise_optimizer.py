"""Tests that compare the advisor's choice of bucket specs with exhaustive search."""

from __future__ import annotations

import random
from itertools import pairwise, product
from math import inf

import pytest

from spark_bucketing.advice.optimizer import Choices, choose

Weights = dict[str, list[int]]


def random_choices(seed: int, names: int = 6) -> tuple[Choices, Weights]:
    """Return a small problem: a few specs per table, each with a cost, and joins that use some of these specs."""
    chance = random.Random(seed)
    tables = [f"t{number}" for number in range(chance.randint(2, names))]
    values = {name: [0.0, *(chance.randint(-20, 12) for _ in range(chance.randint(1, 3)))] for name in tables}
    together = {}
    for place, a in enumerate(tables):
        for b in tables[place + 1 :]:
            if chance.random() < 0.5:
                together[a, b] = [[float(chance.randint(0, 25)) for _ in values[b]] for _ in values[a]]
    weights = {name: [0, *[chance.randint(1, 20)] * (len(options) - 1)] for name, options in values.items()}
    return Choices(values, together), weights


def best(choices: Choices, weights: Weights, limit: float) -> float:
    names = list(choices.values)
    tried = (dict(zip(names, at, strict=True)) for at in product(*(range(len(choices.values[n])) for n in names)))
    return max(choices.value(one) for one in tried if sum(weights[name][i] for name, i in one.items()) <= limit)


@pytest.mark.parametrize("budget", [inf, 0.5])
def test_choice_is_within_the_budget_and_close_to_the_best_choice(budget: float) -> None:
    missed, total, exact = 0.0, 0.0, 0
    for seed in range(300):
        choices, weights = random_choices(seed)
        limit = sum(max(of_one) for of_one in weights.values()) * budget
        found, most = choose(choices, weights, limit), best(choices, weights, limit)
        assert sum(weights[name][place] for name, place in found.items()) <= limit
        missed, total, exact = (
            missed + most - choices.value(found),
            total + most,
            exact + (choices.value(found) == most),
        )
    assert missed / total < 0.005, "regret"
    assert exact >= 285


def test_two_tables_change_together_if_neither_gains_alone() -> None:
    choices = Choices({"a": [0, -1], "b": [0, -1]}, {("a", "b"): [[0, 0], [0, 5]]})
    assert choose(choices) == {"a": 1, "b": 1}


def test_equal_choices_are_deterministic() -> None:
    choices = Choices({"a": [0, 5, 5], "b": [0, 0]}, {("a", "b"): [[0, 0], [1, 1], [1, 1]]})
    assert choose(choices) == {"a": 1, "b": 0}


def test_chain_of_many_tables_is_chosen_exactly() -> None:
    names = [f"t{number:04}" for number in range(1000)]
    alternating = [[0.0, 2.0], [3.0, 0.0]]
    choices = Choices({name: [0.0, 0.0] for name in names}, dict.fromkeys(pairwise(names), alternating))
    # The gains of the tables alternate between 3 and 2, starting and ending with 3.
    assert choices.value(choose(choices)) == 500 * 3 + 499 * 2
