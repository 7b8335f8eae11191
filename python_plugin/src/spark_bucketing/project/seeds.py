"""Determine the columns of a seed in the same way as dbt."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from spark_bucketing.errors import ProjectError


def seed_columns(file: Path, config: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the names and Spark types of a seed's columns.

    Raises:
        ProjectError: the file cannot be read.
    """
    from dbt.adapters.spark.impl import SparkAdapter
    from dbt_common.clients.agate_helper import from_csv

    given = {name.lower(): kind for name, kind in (config.get("column_types") or {}).items()}
    try:
        table = from_csv(
            file, text_columns=list(config.get("column_types") or ()), delimiter=config.get("delimiter", ",")
        )
    # agate raises various exceptions for a file that is not valid CSV.
    except Exception as error:
        raise ProjectError(
            f"The seed `{file}` cannot be read.", found=error, expected="a CSV file", instead="correct the file"
        ) from error
    return {
        name: given.get(name.lower()) or str(SparkAdapter.convert_agate_type(table, index))
        for index, name in enumerate(table.column_names)
    }
