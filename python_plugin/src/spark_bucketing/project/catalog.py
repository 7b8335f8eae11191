"""The catalog of a dbt project: columns, types and sizes of its tables when `dbt docs generate` last looked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_bucketing.errors import ProjectError


@dataclass(frozen=True)
class CatalogTable:
    """A table of the catalog: column names and types in their order, and its bytes where they are known."""

    columns: Mapping[str, str]
    size_bytes: int | None = None
    partitions: int | None = None  # where they were counted


def read_catalog(path: Path) -> Mapping[str, CatalogTable]:
    """Tables of a catalog.json by unique id.

    Raises:
        ProjectError: the file cannot be read.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        entries = {**data.get("nodes", {}), **data.get("sources", {})}
        return {unique_id: _table(entry) for unique_id, entry in entries.items()}
    except (OSError, ValueError, AttributeError, KeyError, TypeError) as error:
        raise ProjectError(
            f"The catalog {path} cannot be read ({error}). Write it anew (dbt docs generate) or delete it."
        ) from error


def _table(entry: Mapping[str, Any]) -> CatalogTable:
    columns = sorted(entry["columns"].values(), key=lambda column: column.get("index") or 0)
    return CatalogTable({column["name"]: column["type"] for column in columns}, _bytes(entry.get("stats") or {}))


def _bytes(stats: Mapping[str, Any]) -> int | None:
    # dbt-spark names it by the word that Spark puts after the number.
    value = (stats.get("bytes") or {}).get("value")
    try:
        return int(float(value)) if value is not None else None
    except (TypeError, ValueError):
        return None
