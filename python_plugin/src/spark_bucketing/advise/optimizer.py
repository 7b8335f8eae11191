"""Picks one option for each table, where options have a value of their own and pairs of tables one together.

Exact where it can be: variables are eliminated one after the other, the one with the smallest table first (bucket
elimination: Dechter, 1999). A part of the graph whose tables would be too large is searched from several starts, with
an upper bound. Under a limit on weights all sets of a few tables are tried; of more, it is relaxed by a price for them
(Lagrange; Everett, 1963), and the rest is filled.
Nothing is left to chance: equal values go to the option that comes first.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

Pair = tuple[str, str]
Matrix = Sequence[Sequence[float]]

# Entries of the largest table that is made while variables are eliminated.
MOST_ENTRIES = 200_000
_PRICES = 20
# Of these all sets are tried that a limit allows.
_MOST_HEAVY = 8
# Of the improvement of a bound.
_ROUNDS = 30


@dataclass(frozen=True)
class Choices:
    """What there is to choose: for each name the values of its options, the first of which changes nothing."""

    values: Mapping[str, Sequence[float]]
    together: Mapping[Pair, Matrix]  # what two options are worth beyond that; names in the order of `values`

    def value(self, chosen: Mapping[str, int]) -> float:
        """What a choice is worth."""
        alone = sum(options[chosen[name]] for name, options in self.values.items())
        return alone + sum(matrix[chosen[a]][chosen[b]] for (a, b), matrix in self.together.items())

    def given(self, name: str, chosen: Mapping[str, int]) -> list[float]:
        """What each option of a name is worth where the others are chosen."""
        found = list(self.values[name])
        for (a, b), matrix in self.together.items():
            if name == a:
                found = [value + matrix[place][chosen[b]] for place, value in enumerate(found)]
            elif name == b:
                found = [value + matrix[chosen[a]][place] for place, value in enumerate(found)]
        return found


@dataclass(frozen=True)
class Solution:
    """An option for each name, its value, and what no choice exceeds."""

    options: Mapping[str, int]
    value: float
    bound: float

    @property
    def gap(self) -> float:
        """How much of the bound is missing, from 0 for an exact choice to 1."""
        return max(0.0, (self.bound - self.value) / self.bound) if self.bound > 0 else 0.0


def choose(choices: Choices, most_entries: int = MOST_ENTRIES) -> Solution:
    """The best choice, or a good one with its bound where the exact one would take too many entries."""
    options: dict[str, int] = {}
    bound = 0.0
    for part in _parts(choices):
        exact = _eliminated(part, most_entries)
        if exact is not None:
            bound, options = bound + part.value(exact), options | exact
            continue
        most, beliefs = _relaxed(part)
        bound, options = bound + most, options | _searched(part, beliefs)
    value = choices.value(options)
    return Solution({name: options[name] for name in choices.values}, value, max(bound, value))


def choose_within(
    choices: Choices, weights: Mapping[str, Sequence[float]], limit: float, most_entries: int = MOST_ENTRIES
) -> Solution:
    """The same where the weights of all options together may not exceed a limit; first options weigh nothing."""

    def weight(options: Mapping[str, int]) -> float:
        return sum(weights[name][place] for name, place in options.items())

    free = choose(choices, most_entries)
    if weight(free.options) <= limit:
        return free
    if exact := _within(choices, weights, limit, most_entries):
        return exact
    best, best_value = dict.fromkeys(choices.values, 0), choices.value(dict.fromkeys(choices.values, 0))
    bound, low, high = free.bound, 0.0, 1.0
    for _ in range(_PRICES):
        price = (low + high) / 2 if high > low and _ else high
        priced = Choices(
            {
                name: [value - price * weights[name][place] for place, value in enumerate(values)]
                for name, values in choices.values.items()
            },
            choices.together,
        )
        found = choose(priced, most_entries)
        bound = min(bound, found.bound + price * limit)
        if weight(found.options) > limit:
            low = price
            high = high * 2 if high <= low else high
            continue
        high = price
        filled = _filled(choices, weights, limit, dict(found.options))
        if (value := choices.value(filled)) > best_value:
            best, best_value = filled, value
    filled = _filled(choices, weights, limit, best)
    value = choices.value(filled)
    return Solution(filled, value, max(bound, value))


def _within(
    choices: Choices, weights: Mapping[str, Sequence[float]], limit: float, most_entries: int
) -> Solution | None:
    """The best choice of all sets that may change; None where they are too many, or options weigh differently."""
    heavy = {name: max(of_name) for name, of_name in weights.items() if any(of_name)}
    if len(heavy) > _MOST_HEAVY or any(set(weights[name]) - {0, weight} for name, weight in heavy.items()):
        return None
    best: Solution | None = None
    for kept in product((True, False), repeat=len(heavy)):
        left = [name for name, is_kept in zip(heavy, kept, strict=True) if not is_kept]
        if sum(heavy.values()) - sum(heavy[name] for name in left) > limit:
            continue
        found = choose(_unchanged(choices, left), most_entries)
        bound = max(found.bound, best.bound) if best else found.bound
        best = replace(found if best is None or found.value > best.value else best, bound=bound)
    return best


def _unchanged(choices: Choices, names: Collection[str]) -> Choices:
    """The same where some names have their first option alone."""
    values = {name: of_name[:1] if name in names else of_name for name, of_name in choices.values.items()}
    together = {
        (a, b): [row[:1] if b in names else row for row in (matrix[:1] if a in names else matrix)]
        for (a, b), matrix in choices.together.items()
    }
    return Choices(values, together)


def _filled(
    choices: Choices, weights: Mapping[str, Sequence[float]], limit: float, options: dict[str, int]
) -> dict[str, int]:
    """A choice made better by one change at a time, as long as the limit holds."""
    while True:
        used = sum(weights[name][place] for name, place in options.items())
        steps = [
            (value - given[options[name]], name, place)
            for name in options
            for given in [choices.given(name, options)]
            for place, value in enumerate(given)
            if value > given[options[name]] + 1e-9
            and used - weights[name][options[name]] + weights[name][place] <= limit
        ]
        if not steps:
            return options
        _, name, place = max(steps, key=lambda step: step[0])
        options = {**options, name: place}


def _parts(choices: Choices) -> list[Choices]:
    """The parts that have nothing to do with each other."""
    near: dict[str, set[str]] = {name: set() for name in choices.values}
    for a, b in choices.together:
        near[a].add(b)
        near[b].add(a)
    left, parts = dict.fromkeys(choices.values), []
    while left:
        waiting, names = [next(iter(left))], set()
        while waiting:
            if (name := waiting.pop()) not in names:
                names.add(name)
                waiting += near[name]
        together = {pair: matrix for pair, matrix in choices.together.items() if pair[0] in names}
        parts.append(Choices({name: choices.values[name] for name in left if name in names}, together))
        left = {name: None for name in left if name not in names}
    return parts


Table = tuple[tuple[str, ...], Mapping[tuple[int, ...], float]]
"""Names, and a value for each combination of their options."""


def _eliminated(part: Choices, most_entries: int) -> dict[str, int] | None:
    """The best options of one part; None where a table would be too large."""
    sizes = {name: len(values) for name, values in part.values.items()}
    tables: list[Table] = [((name,), {(i,): v for i, v in enumerate(vs)}) for name, vs in part.values.items()]
    for pair, matrix in part.together.items():
        tables.append((pair, {(i, j): value for i, row in enumerate(matrix) for j, value in enumerate(row)}))
    of_name: dict[str, list[Table]] = {name: [] for name in sizes}
    for table in tables:
        for name in table[0]:
            of_name[name].append(table)
    done: list[tuple[str, tuple[str, ...], dict[tuple[int, ...], int]]] = []
    entries = {name: sizes[name] * prod(sizes[other] for other in _beside(name, of_name[name])) for name in sizes}
    while entries:
        name = min(entries, key=entries.__getitem__)
        if entries.pop(name) > most_entries:
            return None
        mine = of_name.pop(name)
        beside = _beside(name, mine)
        best: dict[tuple[int, ...], int] = {}
        made: dict[tuple[int, ...], float] = {}
        for at in product(*(range(sizes[other]) for other in beside)):
            where = dict(zip(beside, at, strict=True))
            values = [_total(mine, {**where, name: option}) for option in range(sizes[name])]
            best[at] = values.index(max(values))
            made[at] = values[best[at]]
        done.append((name, beside, best))
        for other in beside:
            of_name[other] = [table for table in of_name[other] if name not in table[0]] + [(beside, made)]
            entries[other] = sizes[other] * prod(sizes[one] for one in _beside(other, of_name[other]))
    options: dict[str, int] = {}
    for name, beside, best in reversed(done):
        options[name] = best[tuple(options[other] for other in beside)]
    return options


def _beside(name: str, tables: Sequence[Table]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(other for names, _ in tables if name in names for other in names if other != name))


def _total(tables: Sequence[Table], options: Mapping[str, int]) -> float:
    return sum(values[tuple(options[name] for name in names)] for names, values in tables)


def _searched(part: Choices, beliefs: Mapping[str, Sequence[float]]) -> dict[str, int]:
    """Options that no change of one table, and none of two that belong together, makes better."""
    starts = [dict.fromkeys(part.values, 0), {name: values.index(max(values)) for name, values in beliefs.items()}]
    starts.append({name: values.index(max(values)) for name, values in part.values.items()})
    return max((_climbed(part, start) for start in starts), key=part.value)


def _climbed(part: Choices, options: dict[str, int]) -> dict[str, int]:
    near: dict[str, dict[Pair, Matrix]] = {name: {} for name in part.values}
    for pair, matrix in part.together.items():
        near[pair[0]][pair] = near[pair[1]][pair] = matrix
    of_one = {name: Choices({name: part.values[name]}, near[name]) for name in part.values}

    def gain(changes: Mapping[str, int]) -> float:
        after = {**options, **changes}
        touched = {pair: matrix for name in changes for pair, matrix in near[name].items()}
        alone = sum(part.values[name][place] - part.values[name][options[name]] for name, place in changes.items())
        return alone + sum(m[after[a]][after[b]] - m[options[a]][options[b]] for (a, b), m in touched.items())

    better = True
    while better:
        better = False
        for name, one in of_one.items():
            given = one.given(name, options)
            place = max(range(len(given)), key=given.__getitem__)
            if given[place] > given[options[name]] + 1e-9:
                options, better = {**options, name: place}, True
        for a, b in part.together:
            both = product(range(len(part.values[a])), range(len(part.values[b])))
            moves = [(gain({a: i, b: j}), {a: i, b: j}) for i, j in both]
            most, changes = max(moves, key=lambda move: move[0])
            if most > 1e-9:
                options, better = {**options, **changes}, True
    return options


def _relaxed(part: Choices, rounds: int = _ROUNDS) -> tuple[float, Mapping[str, Sequence[float]]]:
    """What no choice exceeds, and what each option may be worth.

    The former is the best of each table and of each pair alone, after the pairs' values were handed to the tables. How
    much each is handed is made better round by round (max-product linear programming: Globerson and Jaakkola, 2007); no
    round makes the bound larger.
    """
    belief = {name: list(values) for name, values in part.values.items()}
    given = {(a, b): ([0.0] * len(belief[a]), [0.0] * len(belief[b])) for a, b in part.together}
    for _ in range(rounds):
        for (a, b), matrix in part.together.items():
            to_a, to_b = given[a, b]
            alone_a = [value - part_of for value, part_of in zip(belief[a], to_a, strict=True)]
            alone_b = [value - part_of for value, part_of in zip(belief[b], to_b, strict=True)]
            most_a = [max(v + w for v, w in zip(row, alone_b, strict=True)) for row in matrix]
            most_b = [
                max(row[j] + alone for row, alone in zip(matrix, alone_a, strict=True)) for j in range(len(alone_b))
            ]
            given[a, b] = (
                [(most - alone) / 2 for most, alone in zip(most_a, alone_a, strict=True)],
                [(most - alone) / 2 for most, alone in zip(most_b, alone_b, strict=True)],
            )
            for name, alone, handed in ((a, alone_a, given[a, b][0]), (b, alone_b, given[a, b][1])):
                belief[name] = [value + part_of for value, part_of in zip(alone, handed, strict=True)]
    left = sum(
        max(
            value - given[pair][0][i] - given[pair][1][j] for i, row in enumerate(matrix) for j, value in enumerate(row)
        )
        for pair, matrix in part.together.items()
    )
    return sum(max(values) for values in belief.values()) + left, belief
