"""What is known of tables and runs besides the plans: bytes, partitions, values of columns; from files of the user."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

import yaml

from spark_bucketing.errors import ProjectError
from spark_bucketing.units import parse_size

# Commands of dbt whose results are of models that were built; others, such as compile, succeed without.
_BUILDING = (None, "run", "build", "retry")


@dataclass(frozen=True)
class ColumnStatistics:
    """Values of a column."""

    distinct: int | None = None  # how many there are
    largest: float | None = None  # share of the rows that have the most frequent one, from 0 to 1


@dataclass(frozen=True)
class TableSize:
    """How large a table is, where it is known."""

    size_bytes: int | None = None
    partitions: int | None = None
    columns: Mapping[str, ColumnStatistics] = field(default_factory=dict)  # by names in lower case


def read_sizes(path: Path) -> Mapping[str, TableSize]:
    """Sizes by the names of models, sources (source.table) or tables (schema.table).

    Raises:
        ProjectError: the file cannot be read, or has something else.
    """
    data = _read(path)
    try:
        return _once((str(name).lower(), _facts(entry)) for name, entry in data.items())
    except (AttributeError, TypeError, ValueError) as error:
        raise ProjectError(
            f"{path} has no sizes that can be read.\n  found:    {error}\n"
            "  expected: names of models or tables, with bytes, or a mapping of bytes, partitions and columns\n"
            '  instead:  {"orders": "120GiB", "clicks": {"bytes": "2TiB", "partitions": 365, '
            '"columns": {"user_id": {"distinct": 1000000, "largest": 0.001}}}}'
        ) from error


def read_runs(path: Path) -> Mapping[str, float]:
    """How often models run, in any period: a mapping, or dbt's run_results.json.

    A folder has run_results of several runs, in which the runs of each model are counted.

    Returns: numbers by names or unique ids, in lower case.

    Raises:
        ProjectError: the file cannot be read, or has something else.
    """
    files = sorted(path.rglob("*.json")) if path.is_dir() else [path]
    counted: Counter[str] = Counter()
    try:
        for file in files:
            data = _read(file)
            if "results" in data:
                built = (data.get("args") or {}).get("which") in _BUILDING
                counted.update(one["unique_id"] for one in data["results"] if built and one.get("status") == "success")
            elif not path.is_dir():
                counted.update({str(name): float(number) for name, number in data.items()})
        if not counted or any(not 0 <= number < inf for number in counted.values()):
            raise ValueError("a number of runs that is negative or none" if counted else "no run of any model")
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ProjectError(
            f"{path} has no runs that can be read.\n  found:    {error}\n"
            "  expected: dbt's run_results.json, a folder of them, or a mapping of models to numbers\n"
            '  instead:  {"orders": 24, "daily_report": 1}'
        ) from error
    return {name.lower(): float(number) for name, number in counted.items()}


def _read(path: Path) -> dict[str, Any]:
    try:
        data = _parsed(path.read_text(encoding="utf-8"), path.suffix)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ProjectError(f"{path} cannot be read: {error}.") from error
    if not isinstance(data, dict):
        raise ProjectError(f"{path} has no mapping.\n  found:    {type(data).__name__}\n  expected: names with values")
    return data


def _parsed(text: str, suffix: str) -> Any:
    if suffix == ".json":
        return json.loads(text, object_pairs_hook=_once)
    return yaml.load(text, _UniqueKeyLoader)  # noqa: S506 it is a safe loader


def _once(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """A mapping in which no name comes twice: the last one would win, in silence."""
    found: dict[Any, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"{name} comes twice")
        found[name] = value
    return found


class _UniqueKeyLoader(yaml.SafeLoader):
    """Of YAML whose mappings have each name once."""


_UniqueKeyLoader.add_constructor(
    yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG,
    lambda loader, node: _once(
        (loader.construct_object(key, deep=True), loader.construct_object(value, deep=True))
        for key, value in node.value
    ),
)


def _facts(entry: Any) -> TableSize:
    if not isinstance(entry, dict):
        return TableSize(parse_size(entry))
    _refuse_other_keys(entry, {"bytes", "partitions", "columns"})
    size = parse_size(entry["bytes"]) if "bytes" in entry else None
    columns = {str(name).lower(): _column(one) for name, one in (entry.get("columns") or {}).items()}
    return TableSize(size, _whole(entry, "partitions"), columns)


def _column(entry: Any) -> ColumnStatistics:
    if not isinstance(entry, dict):
        raise ValueError(f"{entry!r} for a column")
    _refuse_other_keys(entry, {"distinct", "largest"})
    largest = float(entry["largest"]) if "largest" in entry else None
    if largest is not None and not 0 <= largest <= 1:
        raise ValueError(f"largest: {entry['largest']!r} is no share from 0 to 1")
    return ColumnStatistics(_whole(entry, "distinct"), largest)


def _whole(entry: Mapping[str, Any], key: str) -> int | None:
    """A number of things that are there, if the user gives it."""
    if key not in entry:
        return None
    number = float(entry[key])
    if not 0 <= number < inf or number != int(number):
        raise ValueError(f"{key}: {entry[key]!r} is no whole number")
    return int(number)


def _refuse_other_keys(entry: Mapping[str, Any], known: set[str]) -> None:
    if unknown := set(entry) - known:
        raise ValueError(f"{min(map(str, unknown))!r}")
