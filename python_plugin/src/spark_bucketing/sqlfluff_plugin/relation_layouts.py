"""Model the parts of a query as relations with columns and a bucket layout."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from spark_bucketing.spec import BucketHash, hash_name
from spark_bucketing.sqlfluff_plugin.problems import Problem

Place = tuple[str, str]
"""A column of a SELECT's input: the input's alias and the column's name, both in lower case."""


@dataclass(frozen=True)
class Column:
    """A column of a relation."""

    type: str | None = None  # the column's type; None if unknown
    certain: bool = False  # whether the files certainly have this type


@dataclass(frozen=True)
class Layout:
    """The buckets of rows: their number, their hash, and the current names of the bucket columns."""

    num_buckets: int
    bucket_hash: BucketHash
    columns: tuple[frozenset[Place], ...]  # current names of each bucket column; empty if a SELECT dropped it
    table: str  # name of the table, for messages
    names: tuple[str, ...]  # names of the bucket columns in the table, for messages
    spoiled: Problem | None = None  # why the rows are no longer partitioned by these buckets

    def called(self) -> str:
        """Return the names of the bucket columns, as used in a message."""
        return ", ".join(self.name(number) for number in range(len(self.columns)))

    def name(self, number: int) -> str:
        """Return the name of one bucket column, as used in a message."""
        return min((name for _, name in self.columns[number]), default=self.names[number])

    def described(self) -> str:
        """Describe the layout in a short phrase."""
        return f"{self.num_buckets} buckets by {self.called()}, {hash_name(self.bucket_hash)}"

    def lose_layout(self, problem: Problem) -> Layout:
        """Return the same layout, but marked as lost because of an operation.

        If several operations lose it, only the first one counts.
        """
        return self if self.spoiled else replace(self, spoiled=problem)


@dataclass(frozen=True)
class Relation:
    """The rows of a query, or of one of its inputs."""

    columns: Mapping[str, Column] = field(default_factory=dict)  # columns by lowercase name, in order
    complete: bool = False  # whether the relation has no other columns
    # The columns of a relation without an alias belong to the alias ''.
    layout: Layout | None = None
    small: bool = False  # whether Spark broadcasts the relation instead of shuffling the other side of a join
    query: str | None = None  # the SQL of a view, which determines the relation; None for a table

    def called(self, alias: str) -> Relation:
        """Return the same relation under an alias."""
        if self.layout is None:
            return self
        places = tuple(frozenset((alias, name) for _, name in one) for one in self.layout.columns)
        return replace(self, layout=replace(self.layout, columns=places))


UNKNOWN_RELATION = Relation()


def delivered(layout: Layout | None, places: Mapping[Place, str], computed: Collection[Place | None]) -> Layout | None:
    """Translate a layout to the output columns of a SELECT, or return None if the SELECT drops the bucket columns."""
    if layout is None or any(one.intersection(computed) and not one & places.keys() for one in layout.columns):
        return None
    found = [frozenset({("", places[place]) for place in one if place in places}) for one in layout.columns]
    return replace(layout, columns=tuple(found)) if any(found) else None
