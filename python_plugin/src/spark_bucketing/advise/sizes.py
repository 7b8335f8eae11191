"""What is known of tables and runs besides the plans: bytes, partitions, values of columns; from files of the user."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from spark_bucketing.errors import ProjectError
from spark_bucketing.units import parse_size


@dataclass(frozen=True)
class ColumnFacts:
    """Values of a column."""

    distinct: int | None = None  # how many there are
    largest: float | None = None  # share of the rows that have the most frequent one, from 0 to 1


@dataclass(frozen=True)
class SizeFacts:
    """How large a table is, where it is known."""

    size_bytes: int | None = None
    partitions: int | None = None
    columns: Mapping[str, ColumnFacts] = field(default_factory=dict)  # by names in lower case


def read_sizes(path: Path) -> Mapping[str, SizeFacts]:
    """Sizes by the names of models, sources (source.table) or tables (schema.table).

    Raises:
        ProjectError: the file cannot be read, or has something else.
    """
    data = _read(path)
    try:
        return {str(name).lower(): _facts(entry) for name, entry in data.items()}
    except (AttributeError, TypeError, ValueError) as error:
        raise ProjectError(
            f"{path} has no sizes that can be read.\n  found:    {error}\n"
            "  expected: names of models or tables, with bytes, or a mapping of bytes, partitions and columns\n"
            '  instead:  {"orders": "120GiB", "clicks": {"bytes": "2TiB", "partitions": 365, '
            '"columns": {"user_id": {"distinct": 1000000, "largest": 0.001}}}}'
        ) from error


def read_runs(path: Path) -> Mapping[str, float]:
    """How often models run, by their names or unique ids, in any period: a mapping, or dbt's run_results.json.

    A folder has run_results of several runs, in which the runs of each model are counted.

    Raises:
        ProjectError: the file cannot be read, or has something else.
    """
    files = sorted(path.rglob("*.json")) if path.is_dir() else [path]
    counted: Counter[str] = Counter()
    try:
        for file in files:
            data = _read(file)
            if "results" in data:
                counted.update(one["unique_id"] for one in data["results"] if one.get("status") == "success")
            elif not path.is_dir():
                runs = {str(name): float(number) for name, number in data.items()}
                if any(not 0 <= number < float("inf") for number in runs.values()):
                    raise ValueError("a number of runs that is negative or none")
                return runs
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ProjectError(
            f"{path} has no runs that can be read.\n  found:    {error}\n"
            "  expected: dbt's run_results.json, a folder of them, or a mapping of models to numbers\n"
            '  instead:  {"orders": 24, "daily_report": 1}'
        ) from error
    return {name: float(number) for name, number in counted.items()}


def _read(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8")
        data = json.loads(text) if path.suffix == ".json" else yaml.safe_load(text)
    except (OSError, ValueError, yaml.YAMLError) as error:
        raise ProjectError(f"{path} cannot be read: {error}.") from error
    if not isinstance(data, dict):
        raise ProjectError(f"{path} has no mapping.\n  found:    {type(data).__name__}\n  expected: names with values")
    return data


def _facts(entry: Any) -> SizeFacts:
    if not isinstance(entry, dict):
        return SizeFacts(parse_size(entry))
    if unknown := set(entry) - {"bytes", "partitions", "columns"}:
        raise ValueError(f"{sorted(unknown)[0]!r}")
    columns = {
        str(name).lower(): ColumnFacts(
            int(one["distinct"]) if "distinct" in one else None, float(one["largest"]) if "largest" in one else None
        )
        for name, one in (entry.get("columns") or {}).items()
    }
    size = parse_size(entry["bytes"]) if "bytes" in entry else None
    partitions = int(entry["partitions"]) if "partitions" in entry else None
    return SizeFacts(size, partitions, columns)
