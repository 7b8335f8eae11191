"""Choose one option for each table, given the values of single options and of pairs of options.

A local search starts from the current options, from the best option for each table considered separately, and from the
result of a search without a limit. It changes the option of one table, or of two tables whose options have a value as a
pair, and ends when no such change increases the total value. If two options have the same value, the first one wins.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
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
    # The weight of each option, such as the bytes to rewrite. The first option of a table has no weight.
    weights: Mapping[str, Sequence[float]] = field(default_factory=dict)

    def value(self, chosen: Chosen) -> float:
        """Return the total value of the chosen options."""
        alone = sum(options[chosen[name]] for name, options in self.values.items())
        return alone + sum(matrix[chosen[a]][chosen[b]] for (a, b), matrix in self.together.items())

    def given(self, name: str, chosen: Chosen) -> list[float]:
        """Return the value of each option for one table, given the chosen options of the other tables."""
        return [self._part((name,), {**chosen, name: place}) for place in range(len(self.values[name]))]

    def choose(self, limit: float = inf) -> Chosen:
        """Choose one option for each table, whose weights add up to no more than the limit.

        Within the limit, changing the options of one table, or of two with a pair value, does not increase the total
        value.
        """
        best_alone = {name: max(range(len(values)), key=values.__getitem__) for name, values in self.values.items()}
        unlimited = self._improved(best_alone, inf)
        starts = [dict.fromkeys(self.values, 0), *(self._reduced(start, limit) for start in (best_alone, unlimited))]
        return max((self._improved(start, limit) for start in starts), key=self.value)

    @cached_property
    def _pairs(self) -> Mapping[str, Mapping[Pair, Matrix]]:
        """Return, for each table, the pairs of tables that contain it."""
        pairs: dict[str, dict[Pair, Matrix]] = {name: {} for name in self.values}
        for pair, matrix in self.together.items():
            pairs[pair[0]][pair] = pairs[pair[1]][pair] = matrix
        return pairs

    def _part(self, group: Sequence[str], options: Chosen) -> float:
        """Return the part of the total value that depends on the options of these tables."""
        pairs = {pair: matrix for name in group for pair, matrix in self._pairs[name].items()}
        alone = sum(self.values[name][options[name]] for name in group)
        return alone + sum(matrix[options[a]][options[b]] for (a, b), matrix in pairs.items())

    def _weight(self, options: Chosen) -> float:
        return sum(self.weights[name][place] for name, place in options.items() if name in self.weights)

    def _reduced(self, options: Chosen, limit: float) -> Chosen:
        """Undo changes, starting with the lowest value per weight, until the sum of weights is within the limit."""
        while self._weight(options) > limit:
            values = {}
            for name, place in options.items():
                if weight := self._weight({name: place}):
                    given = self.given(name, options)
                    values[name] = (given[place] - given[0]) / weight
            options = {**options, min(values, key=values.__getitem__): 0}
        return options

    def _improved(self, options: Chosen, limit: float) -> Chosen:
        """Apply the best change for each table and pair of tables in turn, until no change increases the value."""
        groups = [*((name,) for name in self.values), *self.together]
        chosen, is_better = dict(options), True
        least, left = _PRECISION * abs(self.value(options)), limit - self._weight(options)
        while is_better:
            is_better = False
            for group in groups:
                changes = self._changes(group, chosen, left)
                gain, weight, change = max(changes, default=(0.0, 0.0, {}), key=itemgetter(0))
                if gain > least:
                    left, is_better = left - weight, True
                    chosen |= change
        return chosen

    def _changes(
        self, group: Sequence[str], options: dict[str, int], left: float
    ) -> Iterator[tuple[float, float, dict[str, int]]]:
        """Yield each change to the options of these tables within the weight that is left: its gain and its weight."""
        before, weight = self._part(group, options), self._weight({name: options[name] for name in group})
        for places in product(*(range(len(self.values[name])) for name in group)):
            change = dict(zip(group, places, strict=True))
            added = self._weight(change) - weight
            if added <= left:
                yield self._part(group, ChainMap(change, options)) - before, added, change
