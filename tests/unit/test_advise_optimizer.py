"""The choice of layouts for tables that compete, against trying out everything."""

from __future__ import annotations

import random
from itertools import pairwise, product

import pytest

from spark_bucketing.advise import optimizer
from spark_bucketing.advise.optimizer import Choices, choose, choose_within

Weights = dict[str, list[int]]


def random_choices(seed: int, names: int = 6) -> tuple[Choices, Weights]:
    """A small project: a few layouts for each table, which cost something, and joins that some of them serve."""
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


def test_the_exact_choice_is_the_best_of_all() -> None:
    for seed in range(200):
        choices, weights = random_choices(seed)
        found = choose(choices)
        assert found.value == pytest.approx(best(choices, weights, float("inf")))
        assert found.value == choices.value(found.options)
        assert found.gap == 0


def test_a_search_is_near_the_best_and_its_bound_holds() -> None:
    missed, total, over = 0.0, 0.0, 0.0
    for seed in range(200):
        choices, weights = random_choices(seed)
        found, most = choose(choices, most_entries=1), best(choices, weights, float("inf"))
        assert found.value <= most + 1e-9 <= found.bound + 2e-9
        missed, total, over = missed + most - found.value, total + most, over + found.bound - most
    assert missed / total < 0.01
    assert over / total < 0.05


@pytest.mark.parametrize(("most_heavy", "most_missed"), [(8, 1e-12), (0, 0.05)])
def test_a_limit_holds_and_the_bound_says_how_good_the_choice_is(
    most_heavy: int, most_missed: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(optimizer, "_MOST_HEAVY", most_heavy)
    missed, total = 0.0, 0.0
    for seed in range(60):
        choices, weights = random_choices(seed)
        limit = sum(max(of_one) for of_one in weights.values()) // 2
        found, most = choose_within(choices, weights, limit), best(choices, weights, limit)
        assert sum(weights[name][place] for name, place in found.options.items()) <= limit
        assert found.value <= most + 1e-9
        assert most <= found.bound + 1e-6
        assert most_heavy == 0 or found.gap == pytest.approx(0)
        missed, total = missed + most - found.value, total + most
    assert missed / total < most_missed


def test_equal_choices_are_made_in_the_same_way_each_time() -> None:
    choices = Choices({"a": [0, 5, 5], "b": [0, 0]}, {("a", "b"): [[0, 0], [1, 1], [1, 1]]})
    assert choose(choices).options == {"a": 1, "b": 0}
    assert choose(choices, most_entries=1).options == {"a": 1, "b": 0}


def test_many_tables_in_a_row_are_chosen_exactly() -> None:
    names = [f"t{number:04}" for number in range(1000)]
    alternating = [[0.0, 2.0], [3.0, 0.0]]
    pairs = dict.fromkeys(pairwise(names), alternating)
    found = choose(Choices({name: [0.0, 0.0] for name in names}, pairs))
    # Taking turns gains 3 and 2 in turns, beginning and ending with 3.
    assert (found.value, found.gap) == (500 * 3 + 499 * 2, 0)
