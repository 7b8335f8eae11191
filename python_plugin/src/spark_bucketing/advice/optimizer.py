"""Choose one option for each table, given the values of single options and of pairs of options.

A local search starts twice: from the current specs, and from the best option for each table considered separately. The
search changes the option of one table, or of two tables whose options have a value as a pair. The search ends when no
such change increases the total value. If two options have the same value, the first one wins.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import inf
from operator import itemgetter

Pair = tuple[str, str]
Matrix = Sequence[Sequence[float]]
Chosen = Mapping[str, int]

# Relative tolerance; smaller gains are treated as rounding errors.
_PRECISION = 1e-12


@dataclass(frozen=True)
class Choices:
    """The values of the options of tables, the current one first, and the further values of pairs of options."""

    values: Mapping[str, Sequence[float]]
    together: Mapping[Pair, Matrix]

    def value(self, chosen: Chosen) -> float:
        """Return the total value of the chosen options."""
        alone = sum(options[chosen[name]] for name, options in self.values.items())
        return alone + sum(matrix[chosen[a]][chosen[b]] for (a, b), matrix in self.together.items())

    def given(self, name: str, chosen: Chosen) -> list[float]:
        """Return the value of each option for one table, given the chosen options of the other tables."""
        return [self.part((name,), {**chosen, name: place}) for place in range(len(self.values[name]))]

    def part(self, group: Sequence[str], options: Chosen) -> float:
        """Return the part of the total value that depends on the options of these tables."""
        pairs = {pair: matrix for name in group for pair, matrix in self.pairs[name].items()}
        alone = sum(self.values[name][options[name]] for name in group)
        return alone + sum(matrix[options[a]][options[b]] for (a, b), matrix in pairs.items())

    @cached_property
    def pairs(self) -> Mapping[str, Mapping[Pair, Matrix]]:
        """Return, for each table, the pairs of tables that contain it."""
        found: dict[str, dict[Pair, Matrix]] = {name: {} for name in self.values}
        for pair, matrix in self.together.items():
            found[pair[0]][pair] = found[pair[1]][pair] = matrix
        return found


def choose(choices: Choices, weights: Mapping[str, Sequence[float]] | None = None, limit: float = inf) -> Chosen:
    """Choose one option for each table, whose weights, such as the bytes to rewrite, add up to no more than the limit.

    Within the limit, changing the options of one table, or of two with a pair value, does not increase the total value.
    The first option of a table has no weight.
    """
    weighed = weights or {name: [0.0] * len(values) for name, values in choices.values.items()}
    search, free = _Search(choices, weighed, limit), _Search(choices, weighed, inf)
    best_alone = {name: max(range(len(values)), key=values.__getitem__) for name, values in choices.values.items()}
    starts = [dict.fromkeys(choices.values, 0), search.reduced(best_alone), search.reduced(free.improved(best_alone))]
    return max((search.improved(start) for start in starts), key=choices.value)


@dataclass(frozen=True)
class _Search:
    choices: Choices
    weights: Mapping[str, Sequence[float]]
    limit: float

    def reduced(self, options: Chosen) -> Chosen:
        """Undo changes, starting with the lowest value per weight, until the sum of weights is within the limit."""
        while self._weight(options) > self.limit:
            heavy = [name for name, place in options.items() if self.weights[name][place] > 0]
            part = self.choices.part
            lost = {name: part((name,), options) - part((name,), {**options, name: 0}) for name in heavy}
            options = {**options, min(heavy, key=lambda name: lost[name] / self.weights[name][options[name]]): 0}
        return options

    def _weight(self, options: Chosen) -> float:
        return sum(self.weights[name][place] for name, place in options.items())

    def improved(self, options: Chosen) -> Chosen:
        """Apply the best change for each table and pair of tables in turn, until no change increases the value."""
        groups = [*((name,) for name in self.choices.values), *self.choices.together]
        chosen = dict(options)
        least, left, is_better = _PRECISION * abs(self.choices.value(options)), self.limit - self._weight(options), True
        while is_better:
            is_better = False
            for group in groups:
                gain, weight, change = max(
                    self._changes(group, chosen, left), default=(0.0, 0.0, {}), key=itemgetter(0)
                )
                if gain > least:
                    left, is_better = left - weight, True
                    chosen |= change
        return chosen

    def _changes(
        self, group: Sequence[str], options: dict[str, int], left: float
    ) -> Iterator[tuple[float, float, dict[str, int]]]:
        """Yield each change to the options of these tables within the weight that is left: its gain and its weight."""
        before, weight = self.choices.part(group, options), self._weight({name: options[name] for name in group})
        for places in product(*(range(len(self.choices.values[name])) for name in group)):
            change = dict(zip(group, places, strict=True))
            added = self._weight(change) - weight
            if added <= left:
                yield self.choices.part(group, ChainMap(change, options)) - before, added, change
