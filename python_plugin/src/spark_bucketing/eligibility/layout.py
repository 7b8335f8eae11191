"""How rows lie in an operator's output: by which hash over which columns, and in which order."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

Renamed = Mapping[str, tuple[str, ...]]
_ASCENDING = " ASC NULLS FIRST"
_MOST_NAMES = 16


@dataclass(frozen=True)
class Hashed:
    """Rows are spread over partitions by a hash.

    Args:
        kind: hive or spark.
        keys: canonical expressions that are hashed, in this order.
        partitions: their number.
        table: whose buckets these are; None where an Exchange made them.
        direct: nothing but filters and projections lies between the table's scan and here.
    """

    kind: str
    keys: tuple[str, ...]
    partitions: int
    table: str | None = None
    direct: bool = True


@dataclass(frozen=True)
class Layout:
    """Where the rows of an operator's output are.

    Args:
        hashed: hashes that hold, any of which may be used.
        single: all rows are in one partition.
        order: in which order a partition's rows are; each place has several expressions of equal value.
    """

    hashed: tuple[Hashed, ...] = ()
    single: bool = False
    order: tuple[frozenset[str], ...] = ()

    def renamed(self, names: Callable[[str], tuple[str, ...]]) -> Layout:
        """The same in the columns of an operator above, which may drop some.

        Args:
            names: what a key is called above: several names, or none.
        """
        found: list[Hashed] = []
        for hashed in self.hashed:
            choices = itertools.islice(itertools.product(*(names(key) for key in hashed.keys)), _MOST_NAMES)
            found += [replace(hashed, keys=keys) for keys in choices]
        order = []
        for place in self.order:
            above = frozenset(name for key in place for name in _renamed_order(key, names))
            if not above:
                break
            order.append(above)
        return Layout(tuple(dict.fromkeys(found)), self.single, tuple(order))

    def gathers(self, keys: Sequence[str]) -> bool:
        """Whether rows with equal keys are in one partition."""
        return self.single or any(set(hashed.keys) <= set(keys) for hashed in self.hashed)

    def is_ordered(self, by: Sequence[str]) -> bool:
        """Whether the rows of a partition are in this order."""
        return len(by) <= len(self.order) and all(key in place for key, place in zip(by, self.order, strict=False))

    def unordered(self) -> Layout:
        """The same without an order."""
        return replace(self, order=())

    def indirect(self) -> Layout:
        """The same, seen from above an operator that is no filter or projection."""
        return replace(self, hashed=tuple(replace(hashed, direct=False) for hashed in self.hashed))


def ascending(key: str) -> str:
    """An order by this key, as Spark sorts for itself."""
    return key + _ASCENDING


def ordered_by(keys: Sequence[str]) -> tuple[frozenset[str], ...]:
    """The ascending order by these keys."""
    return tuple(frozenset({ascending(key)}) for key in keys)


def _renamed_order(key: str, names: Callable[[str], tuple[str, ...]]) -> tuple[str, ...]:
    for ending in (_ASCENDING, " DESC NULLS LAST", " ASC NULLS LAST", " DESC NULLS FIRST"):
        if key.endswith(ending):
            return tuple(name + ending for name in names(key.removesuffix(ending)))
    return ()
