"""Read the columns of tables as dbt knows them.

A dbt project's catalog contains the columns, types and sizes of tables at the time of the last `dbt docs generate`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spark_bucketing.errors import ProjectError


@dataclass(frozen=True)
class CatalogTable:
    """A table in the catalog: its column names and types in order, and its size in bytes if known."""

    columns: Mapping[str, str]
    size_bytes: int | None = None
    partitions: int | None = None  # number of partitions; None if unknown


def read_catalog(path: Path) -> Mapping[str, CatalogTable]:
    """Read the tables in a catalog.json, by unique id."""
    kinds = (OSError, ValueError, AttributeError, KeyError, TypeError)
    expected, instead = "a `catalog.json` that dbt wrote", "run `dbt docs generate` to write it again, or delete it"
    with ProjectError.replacing(kinds, f"The catalog `{path}` cannot be read.", expected, instead):
        data = json.loads(path.read_text(encoding="utf-8"))
        entries = {**data.get("nodes", {}), **data.get("sources", {})}
        return {unique_id: _table(entry) for unique_id, entry in entries.items()}


def _table(entry: Mapping[str, Any]) -> CatalogTable:
    columns = sorted(entry["columns"].values(), key=lambda column: column.get("index") or 0)
    # dbt-spark's name for this statistic is the unit that Spark prints.
    value = ((entry.get("stats") or {}).get("bytes") or {}).get("value")
    size = re.fullmatch(r"\d+(\.\d*)?", str(value))
    return CatalogTable({column["name"]: column["type"] for column in columns}, int(float(size[0])) if size else None)


def seed_columns(file: Path, config: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the names and Spark types of a seed's columns, which are determined in the same way as by dbt."""
    from dbt.adapters.spark.impl import SparkAdapter
    from dbt_common.clients.agate_helper import from_csv

    given = {name.lower(): kind for name, kind in (config.get("column_types") or {}).items()}
    # agate raises various exceptions for a file that is not valid CSV.
    with ProjectError.replacing(Exception, f"The seed `{file}` cannot be read.", "a CSV file", "correct the file"):
        table = from_csv(
            file, text_columns=list(config.get("column_types") or ()), delimiter=config.get("delimiter", ",")
        )
    return {
        name: given.get(name.lower()) or str(SparkAdapter.convert_agate_type(table, index))
        for index, name in enumerate(table.column_names)
    }
