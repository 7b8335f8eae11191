"""A predicate that selects exactly some of a table's partitions."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from spark_bucketing.evolution import sql
from spark_bucketing.evolution.model import Column, Partition, Table

# Up to how many values a list is shorter to read than a range.
_LIST = 2


def covering(table: Table, chosen: Sequence[Partition]) -> str:
    """The predicate over partition columns that holds for these partitions and for no other of the table.

    Args:
        table: with all its partitions, in their order.
        chosen: some of them, in the same order.
    """
    names = {partition.name for partition in chosen}
    if not names:
        return "false"
    return _covering(table.columns, table.partitions, names, 0) or "true"


def _covering(columns: Sequence[Column], partitions: Sequence[Partition], chosen: set[str], depth: int) -> str:
    """Empty when all of these partitions are chosen, so that nothing has to be said."""
    if all(partition.name in chosen for partition in partitions):
        return ""
    column = columns[depth]
    groups = [(value, list(group)) for value, group in groupby(partitions, lambda found: found.values[depth])]
    said = [(value, _covering(columns, group, chosen, depth + 1)) for value, group in groups if _any(group, chosen)]
    whole = [value for value, rest in said if not rest]
    terms = _values(column, [value for value, _ in groups], whole)
    terms += [f"{_is(column, value)} and {rest}" for value, rest in said if rest]
    if len(terms) == 1:
        return terms[0]
    return f"({' or '.join(f'({term})' if ' and ' in term else term for term in terms)})"


def _any(group: Sequence[Partition], chosen: set[str]) -> bool:
    return any(partition.name in chosen for partition in group)


def _values(column: Column, there: Sequence[str | None], wanted: Sequence[str | None]) -> list[str]:
    """Terms for some of the values that there are: ranges where these are long, and a list of the others."""
    terms, listed = [], []
    for is_wanted, group in groupby([value for value in there if value is not None], lambda value: value in wanted):
        values = list(group)
        if not is_wanted:
            continue
        if len(values) > _LIST and column.is_ordered:
            terms.append(_range(column, values, there))
        else:
            listed += values
    if len(listed) == 1:
        terms.append(_is(column, listed[0]))
    elif listed:
        terms.append(f"{_name(column)} in ({', '.join(sql.literal(value, column) for value in listed)})")
    return terms + [_is(column, None) for value in wanted if value is None]


def _range(column: Column, values: Sequence[str], there: Sequence[str | None]) -> str:
    known = [value for value in there if value is not None]
    first, last = (sql.literal(value, column) for value in (values[0], values[-1]))
    bounds = [f"{_name(column)} >= {first}"] if values[0] != known[0] else []
    bounds += [f"{_name(column)} <= {last}"] if values[-1] != known[-1] else []
    # All values but NULL.
    return " and ".join(bounds) or f"{_name(column)} is not null"


def _is(column: Column, value: str | None) -> str:
    return f"{_name(column)} is null" if value is None else f"{_name(column)} = {sql.literal(value, column)}"


def _name(column: Column) -> str:
    plain = column.name.isascii() and column.name.isidentifier()
    return column.name if plain else sql.name(column.name)
