"""What the parts of a query deliver: columns, and rows that lie in buckets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from spark_bucketing.spec import BucketHash
from spark_bucketing.sqlfluff_plugin.project_files import Table

Place = tuple[str, str]
"""A column of an input of a SELECT: the input's alias, and the column's name, both in lower case."""


@dataclass(frozen=True)
class Column:
    """A column that a relation delivers."""

    type: str | None = None  # None where it is not known
    certain: bool = False  # whether the type is that of the files


@dataclass(frozen=True)
class LostLayout:
    """Why rows do not lie in their buckets any more, though they did in the files."""

    rule: str
    text: str
    offset: int


@dataclass(frozen=True)
class Layout:
    """How rows lie in buckets: by which columns, each under all names that it has here."""

    num_buckets: int
    bucket_hash: BucketHash
    columns: tuple[frozenset[Place], ...]  # of no name where a SELECT has left it out
    table: str  # for messages
    names: tuple[str, ...]  # of the columns in the table, for messages
    spoiled: LostLayout | None = None

    def called(self) -> str:
        """The bucket columns as messages name them."""
        return ", ".join(self.name(number) for number in range(len(self.columns)))

    def name(self, number: int) -> str:
        """One of the bucket columns as messages name it."""
        return min((name for _, name in self.columns[number]), default=self.names[number])

    def lose_layout(self, by: LostLayout) -> Layout:
        """The same, moved by something; what moved it first counts."""
        return self if self.spoiled else replace(self, spoiled=by)


@dataclass(frozen=True)
class Relation:
    """What an input of a query, or the query itself, delivers."""

    columns: Mapping[str, Column] = field(default_factory=dict)  # in their order, by names in lower case
    complete: bool = False  # whether it has no other columns
    # Of a relation by itself, its own columns are those of the alias ''.
    layout: Layout | None = None
    table: Table | None = None  # what it is, where it is a table and nothing else
    small: bool = False  # whether Spark sends it to all tasks rather than move the other side of a join

    def called(self, alias: str) -> Relation:
        """The same as an input with an alias."""
        if self.layout is None:
            return self
        places = tuple(frozenset((alias, name) for _, name in one) for one in self.layout.columns)
        return replace(self, layout=replace(self.layout, columns=places))


UNKNOWN_RELATION = Relation()


def relation_of_table(table: Table) -> Relation:
    """What reading a table delivers."""
    spec = table.spec
    columns = {name: Column(kind.lower() if kind else None, table.certain) for name, kind in table.columns.items()}
    if spec is None:
        return Relation(columns, table.complete, None, table, table.small)
    for name in spec.bucket_columns:
        columns.setdefault(name.lower(), Column())
    places = tuple(frozenset({("", name.lower())}) for name in spec.bucket_columns)
    layout = Layout(spec.num_buckets, spec.bucket_hash, places, table.name, tuple(spec.bucket_columns))
    return Relation(columns, table.complete, layout, table, table.small)
