"""Partitions with bucket specs of their own: which ones a scan selects, and how these are read together."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation

from spark_bucketing.eligibility.model import TableFacts
from spark_bucketing.evolution.model import Column, Partition, Table
from spark_bucketing.evolution.reading import Merging, common_buckets
from spark_bucketing.plan import Node
from spark_bucketing.spec import BucketSpec

_Holds = Callable[[str | None], bool]

_COMPARED = re.compile(r"^\(?(?P<column>.+?)#\d+L? (?P<operator>=|<=|>=|<|>) (?P<value>[^()]*?)\)?$")
_NULL = re.compile(r"^is(?P<isnot>not)?null\((?P<column>.+?)#\d+L?\)$")
_LIST = re.compile(r"^(?P<column>.+?)#\d+L? IN \((?P<values>[^()]*)\)$")
# As far as it is known here: the extension's own note in EXPLAIN goes before it.
MERGING = Merging()
_ORDER: dict[str, Callable[[Decimal | str, Decimal | str], bool]] = {
    "=": lambda a, b: a == b,
    "<": lambda a, b: a < b,  # type: ignore[operator]
    "<=": lambda a, b: a <= b,  # type: ignore[operator]
    ">": lambda a, b: a > b,  # type: ignore[operator]
    ">=": lambda a, b: a >= b,  # type: ignore[operator]
}


def selected_partitions(scan: Node, table: Table) -> tuple[Partition, ...]:
    """The partitions that a scan selects, as far as EXPLAIN tells; what it does not tell leaves out none."""
    found = table.partitions
    for text in _conjuncts(scan.details.get("PartitionFilters", "")):
        for place, column in enumerate(table.columns):
            holds = _filter(text, column)
            if holds is not None:
                found = tuple(partition for partition in found if holds(partition.values[place]))
    return found


def spec_of_selected(scan: Node, facts: TableFacts) -> BucketSpec | None:
    """The spec by which the partitions that a scan selects can be read together; the table's where all have that."""
    if facts.partitions is None:
        return facts.spec
    table = facts.partitions
    claims = [table.claim(partition) for partition in selected_partitions(scan, table)]
    specs = [claim for claim in claims if isinstance(claim, BucketSpec)]
    if not claims:
        return facts.spec
    common = common_buckets(specs, MERGING) if len(specs) == len(claims) else None
    if common is None:
        return None
    shared = zip(*(spec.sort_columns for spec in specs), strict=False)
    order: list[str] = []
    for names in shared:
        if len(set(names)) > 1:
            break
        order.append(names[0])
    return BucketSpec(common, specs[0].bucket_columns, tuple(order), "hive")


def _conjuncts(text: str) -> list[str]:
    """The filters of a list in square brackets, at whose top level commas part them."""
    parts, depth, current = [], 0, ""
    for character in text.strip().removeprefix("[").removesuffix("]"):
        depth += {"(": 1, ")": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += character
    return [part for part in [*parts, current.strip()] if part]


def _filter(text: str, column: Column) -> _Holds | None:
    """A filter on this column; None for any other, and for what is not understood."""
    if (found := _NULL.match(text)) and _same(found, column):
        return (lambda value: value is not None) if found["isnot"] else (lambda value: value is None)
    if (found := _LIST.match(text)) and _same(found, column):
        values = {_typed(value.strip(), column) for value in found["values"].split(",")}
        return lambda value: value is not None and _typed(value, column) in values
    if (found := _COMPARED.match(text)) and _same(found, column) and column.is_ordered:
        compare, bound = _ORDER[found["operator"]], _typed(found["value"], column)
        return lambda value: value is not None and compare(_typed(value, column), bound)
    return None


def _same(found: re.Match[str], column: Column) -> bool:
    return found["column"].lower() == column.name.lower()


def _typed(value: str, column: Column) -> Decimal | str:
    try:
        return Decimal(value) if column.is_number else value
    except InvalidOperation:
        return Decimal("NaN")
