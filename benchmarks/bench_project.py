"""Write a dbt project, and run it in a benchmark's Spark session."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def write_project(folder: Path, models: Mapping[str, str], schema: str = "bench") -> Path:
    """Write a project that uses this package and has the given models."""
    packages = folder / "dbt_packages"
    packages.mkdir(parents=True)
    (packages / "spark_bucketing").symlink_to(ROOT)
    output = {"type": "spark", "method": "session", "host": "NA", "schema": schema, "threads": 1}
    flags = {"send_anonymous_usage_stats": False}
    files = {
        "dbt_project.yml": json.dumps({"name": "bench", "profile": "t", "config-version": 2, "flags": flags}),
        "packages.yml": json.dumps({"packages": [{"local": str(ROOT)}]}),
        "profiles.yml": json.dumps({"t": {"target": "t", "outputs": {"t": output}}}),
        **{f"models/{name}.sql": sql for name, sql in models.items()},
    }
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return folder


def model(sql: str, **config: Any) -> str:
    """Return a model's SQL with its config."""
    arguments = ", ".join(f"{key}={value!r}" for key, value in config.items())
    return f"{{{{ config({arguments}) }}}}\n{sql}\n"


def run(project: Path, model: str) -> float:
    """Run one model of a dbt project, and return the time in seconds."""
    return run_all(project, select=model)[model]


def run_all(project: Path, variables: Mapping[str, Any] | None = None, select: str = "*") -> dict[str, float]:
    """Run the selected models of a dbt project, and return the seconds that each model took."""
    from dbt.cli.main import dbtRunner

    place = ["--project-dir", str(project), "--profiles-dir", str(project), "--quiet"]
    outcome = dbtRunner().invoke(["run", "--select", select, "--vars", json.dumps(dict(variables or {})), *place])
    if not outcome.success:
        results = getattr(outcome.result, "results", [])
        raise SystemExit(f"{project.name}: {outcome.exception or [result.message for result in results]}")
    return {result.node.name: float(result.execution_time) for result in outcome.result.results}


def location(spark: Any, table: str) -> Path:
    """Return the directory of a table."""
    rows = spark.sql(f"describe formatted {table}").collect()
    return Path(next(str(row[1]) for row in rows if row[0] == "Location").removeprefix("file:"))
