"""Test whether the values before and after differ by more than the noise between them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import comb, erfc, sqrt

MOST_EXACT = 50


@dataclass(frozen=True)
class RankTest:
    """The result of a two-sided Mann-Whitney U test."""

    decreases: int  # how many more pairs of a value before and a value after show a decrease than an increase
    p_value: float


def rank_test(before: Sequence[float], after: Sequence[float]) -> RankTest:
    """Return the result of the two-sided Mann-Whitney U test.

    The function uses the exact distribution for up to MOST_EXACT values, and otherwise the normal approximation, with a
    correction for ties. Equal values share the mean of their ranks.
    """
    ranks: dict[float, int] = {}
    numbers: list[int] = []  # how often each value occurs, by rank
    both = 0
    for value, equal in groupby(sorted([*before, *after])):
        numbers.append(sum(1 for _ in equal))
        # Twice the rank is an integer.
        ranks[value] = 2 * both + numbers[-1] + 1
        both += numbers[-1]
    left, right = len(before), len(after)
    decreases = sum(ranks[value] for value in before) - left * (both + 1)
    if both <= MOST_EXACT:
        sums = _rank_sums(
            [rank for rank, number in zip(ranks.values(), numbers, strict=True) for _ in range(number)], left
        )
        extreme = sum(number for total, number in enumerate(sums) if abs(total - left * (both + 1)) >= abs(decreases))
        return RankTest(decreases, extreme / comb(both, left))
    ties = sum(number**3 - number for number in numbers)
    variance = left * right / 12 * (both + 1 - ties / (both * (both - 1)))
    distance = max(abs(decreases) / 2 - 0.5, 0)
    return RankTest(decreases, erfc(distance / sqrt(2 * variance)) if variance > 0 else 1.0)


def _rank_sums(ranks: Sequence[int], size: int) -> Iterator[int]:
    """Yield for each sum, from 0, how many choices of `size` ranks have this sum.

    A generating function counts the choices: the coefficient of x**sum. An integer contains all coefficients, each with
    as many bits as the number of all choices.
    """
    bits = comb(len(ranks), size).bit_length()
    choices = [1] + [0] * size
    for rank in ranks:
        for number in range(size, 0, -1):
            choices[number] += choices[number - 1] << (rank * bits)
    left, mask = choices[size], (1 << bits) - 1
    while left:
        yield left & mask
        left >>= bits
