"""Read what the user states about the sizes, values and runs of tables, in files or in event logs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any

import yaml

from spark_bucketing.advice.advice import MeasuredKeys, ProposedSpec
from spark_bucketing.advice.requirements import RequiredLayout, Requirement
from spark_bucketing.errors import ProjectError
from spark_bucketing.event_log.measured import Measured
from spark_bucketing.event_log.plan_costs import Cost, TableKeys
from spark_bucketing.units import parse_size

# dbt commands that build models; results of other commands, such as compile, do not count as runs.
_BUILDING = (None, "run", "build", "retry")


@dataclass(frozen=True)
class ColumnStatistics:
    """Statistics about a column's values."""

    distinct: int | None = None  # number of distinct values
    largest: float | None = None  # share of the rows that have the most frequent value, from 0 to 1


@dataclass(frozen=True)
class TableSize:
    """The known facts about a table's size."""

    size_bytes: int | None = None
    partitions: int | None = None
    columns: Mapping[str, ColumnStatistics] = field(default_factory=dict)  # by column name in lower case


def read_sizes(path: Path) -> Mapping[str, TableSize]:
    """Read table sizes. The keys are names of models, sources (source.table) or tables (schema.table)."""
    with ProjectError.replacing(
        (AttributeError, TypeError, ValueError),
        f"The file `{path}` contains invalid sizes.",
        "for each model or table, its bytes, or a mapping with bytes, partitions and columns",
        '{"orders": "120GiB", "clicks": {"bytes": "2TiB", "partitions": 365, '
        '"columns": {"user_id": {"distinct": 1000000, "largest": 0.001}}}}',
    ):
        return _once((str(name).lower(), _facts(entry)) for name, entry in _read(path).items())


def read_runs(path: Path) -> Mapping[str, float]:
    """Read how often each model ran, from a mapping, or from one or a directory of dbt's run_results.json."""
    files = sorted(path.rglob("*.json")) if path.is_dir() else [path]
    counted: Counter[str] = Counter()
    with ProjectError.replacing(
        (AttributeError, KeyError, TypeError, ValueError),
        f"The file `{path}` contains invalid numbers of runs.",
        "dbt's `run_results.json`, a directory of such files, or a mapping of models to numbers",
        '{"orders": 24, "daily_report": 1}',
    ):
        for file in files:
            data = _read(file)
            if "results" in data:
                built = (data.get("args") or {}).get("which") in _BUILDING
                counted.update(one["unique_id"] for one in data["results"] if built and one.get("status") == "success")
            elif not path.is_dir():
                counted.update({str(name): float(number) for name, number in data.items()})
        if not counted or any(not 0 <= number < inf for number in counted.values()):
            raise ValueError("a number of runs that is negative or not a number" if counted else "no run of any model")
    return {name.lower(): float(number) for name, number in counted.items()}


def _read(path: Path) -> dict[str, Any]:
    kinds, instead = (OSError, ValueError, yaml.YAMLError), "check the path and the content of the file"
    with ProjectError.replacing(kinds, f"The file `{path}` cannot be read.", "a JSON or YAML file", instead):
        text = path.read_text(encoding="utf-8")
        is_json = path.suffix == ".json"
        data = json.loads(text, object_pairs_hook=_once) if is_json else yaml.load(text, _Loader)  # noqa: S506  (safe)
    if not isinstance(data, dict):
        raise ProjectError(
            f"The file `{path}` does not contain a mapping.",
            found=type(data).__name__,
            expected="a mapping of names to values",
            instead='write the values as in `{"orders": 24}`',
        )
    return data


def _once(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    """Build a mapping, and reject duplicate keys, because a later entry would silently override an earlier one."""
    found: dict[Any, Any] = {}
    for name, value in pairs:
        if name in found:
            raise ValueError(f"duplicate name {name}")
        found[name] = value
    return found


class _Loader(yaml.SafeLoader):
    """A loader that rejects duplicate keys."""


_Loader.add_constructor("tag:yaml.org,2002:map", lambda loader, node: _once(loader.construct_pairs(node, deep=True)))


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
        raise ValueError(f"largest: {entry['largest']!r} is not a share from 0 to 1")
    return ColumnStatistics(_whole(entry, "distinct"), largest)


def _whole(entry: Mapping[str, Any], key: str) -> int | None:
    """Return the value of a key as an integer, or None if the key is missing."""
    if key not in entry:
        return None
    number = float(entry[key])
    if not 0 <= number < inf or number != int(number):
        raise ValueError(f"{key}: {entry[key]!r} is not a whole number")
    return int(number)


def _refuse_other_keys(entry: Mapping[str, Any], known: set[str]) -> None:
    if unknown := set(entry) - known:
        raise ValueError(f"{min(map(str, unknown))!r}")


_KINDS = ("join", "aggregate", "window")


def measured_runs(measured: Measured, nodes: Mapping[str, str]) -> dict[str, float]:
    """Return how often each model ran, by unique id, or nothing if the logs contain no run of any model."""
    found: dict[str, float] = {}
    known, commented = ({node.lower() for node in some} for some in (nodes.values(), measured.runs))
    for node in measured.nodes():
        name = nodes.get(node.removeprefix("table."), node).lower()
        # Where runs have a model's query comment, other statements that write its table are not runs of the model.
        if name in known and (name == node.lower() or name not in commented):
            found[name] = found.get(name, 0) + len(measured.runs_of(node))
    # Other tools write sources.
    return {} if all(name.startswith("source.") for name in found) else found


def unplanned_layouts(measured: Measured, models: Collection[str]) -> tuple[RequiredLayout, ...]:
    """Return the requirements of statements that are not models of the project, such as queries of BI tools."""
    return tuple(
        RequiredLayout(node or "ad-hoc query", operator.kind, sides, united=operator.kind != "join" and len(sides) > 1)
        for node, operators in measured.operators.items()
        if node not in models
        for operator, costs in operators.items()
        if operator.kind in _KINDS
        if (
            sides := tuple(_requirement(keys, cost, operator.kind) for keys, cost in costs.items() if any(keys.columns))
        )
        and len(sides) <= 2
    )


def _requirement(keys: TableKeys, cost: Cost, kind: str) -> Requirement:
    # A join and a window sort the rows that they shuffle.
    ordered = float(cost.shuffle_bytes) if kind != "aggregate" else 0.0
    order = tuple(column for column in keys.columns if column) if ordered else ()
    return Requirement(keys.table, keys.columns, float(cost.shuffle_bytes), ordered, order)


def ranked(measured: Measured) -> tuple[MeasuredKeys, ...]:
    """Return all tables and keys, first those with the most shuffle bytes, then spilled bytes, then task time."""
    sums: dict[tuple[str, tuple[str, ...]], Cost] = {}
    for keys, cost in measured.costs().items():
        columns = tuple(dict.fromkeys(column for column in keys.columns if column))
        sums.setdefault((keys.table, columns), Cost()).add(cost)
    found = [MeasuredKeys(table, columns, cost) for (table, columns), cost in sums.items()]
    return tuple(
        sorted(found, key=lambda one: (-one.cost.shuffle_bytes, -one.cost.spill_bytes, -one.cost.task_ms, one.table))
    )


def with_costs(changes: Iterable[ProposedSpec], found: Collection[MeasuredKeys]) -> tuple[ProposedSpec, ...]:
    """Add to each change the measured costs of all keys that contain all of its bucket columns."""
    measured = []
    for change in changes:
        total = Cost()
        for one in found:
            if one.table == change.table and set(change.after.bucket_columns) <= set(one.columns):
                total.add(one.cost)
        measured.append(replace(change, measured=total))
    return tuple(measured)
