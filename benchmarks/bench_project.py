"""Write a dbt project, change its configs, and run dbt and `spark-bucketing` in it."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from spark_bucketing.edits import apply, plan_edits

ROOT = Path(__file__).parents[1]
COMMAND = str(Path(sys.executable).with_name("spark-bucketing"))


def write_project(folder: Path, models: Mapping[str, str], schema: str = "bench") -> Path:
    """Write a project that uses this package and has the given models."""
    flags = {"send_anonymous_usage_stats": False}
    files = {
        "dbt_project.yml": json.dumps({"name": "bench", "profile": "t", "config-version": 2, "flags": flags}),
        "profiles.yml": profile("t", schema),
        **{f"models/{name}.sql": sql for name, sql in models.items()},
    }
    write_files(folder, files)
    use_package(folder)
    return folder


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    """Write files with these texts, by their paths in the folder."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def use_package(folder: Path) -> None:
    """Add this package to a project."""
    write_files(folder, {"packages.yml": json.dumps({"packages": [{"local": str(ROOT)}]})})
    (folder / "dbt_packages").mkdir()
    (folder / "dbt_packages" / "spark_bucketing").symlink_to(ROOT)


def profile(name: str, schema: str, settings: Mapping[str, str] | None = None) -> str:
    """Return the text of profiles.yml for an embedded Spark with these settings."""
    output: dict[str, Any] = {"type": "spark", "method": "session", "host": "NA", "schema": schema, "threads": 1}
    if settings:
        output["server_side_parameters"] = dict(settings)
    return json.dumps({name: {"target": "t", "outputs": {"t": output}}})


def project_options(project: Path, profiles: Path | None = None) -> list[str]:
    """Return the options that select a project, and the directory of profiles.yml if it is not the same."""
    return ["--project-dir", str(project), "--profiles-dir", str(profiles or project)]


def model(sql: str, **config: Any) -> str:
    """Return a model's SQL with its config."""
    arguments = ", ".join(f"{key}={value!r}" for key, value in config.items())
    return f"{{{{ config({arguments}) }}}}\n{sql}\n"


def run(project: Path, model: str) -> float:
    """Run one model of a dbt project, and return the time in seconds."""
    return run_all(project, select=model)[model]


def run_all(project: Path, variables: Mapping[str, Any] | None = None, select: str = "*") -> dict[str, float]:
    """Run the selected models of a dbt project, and return the seconds that each model took."""
    results = run_dbt(*project_options(project), "--select", select, "--vars", json.dumps(dict(variables or {})))
    return {result.node.name: float(result.execution_time) for result in results}


def run_dbt(*options: str) -> list[Any]:
    """Run `dbt run`, and return dbt's results for the models.

    Raises:
        SystemExit: dbt failed.
    """
    from dbt.cli.main import dbtRunner

    outcome = dbtRunner().invoke(["--quiet", "run", *options])
    # The results include hooks.
    results = [one for one in getattr(outcome.result, "results", []) if one.node.resource_type == "model"]
    if not outcome.success:
        failed = [f"{one.node.name}: {one.message}" for one in results if one.status != "success"]
        raise SystemExit("\n".join(failed) or str(outcome.exception))
    return results


def in_new_process(function: Callable[..., Any], *arguments: object) -> Any:
    """Call a function in a new process, which starts its own Spark, because the embedded metastore accepts only one."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as processes:
        return processes.submit(function, *arguments).result()


def change_configs(project: Path, manifest: Mapping[str, Any], changes: Mapping[str, Mapping[str, object]]) -> None:
    """Edit the configs of models in the project's files.

    Raises:
        SystemExit: a change was refused.
    """
    edits, refusals = plan_edits(project, manifest, changes)
    if refusals:
        raise SystemExit("\n".join(f"{refusal.model}: {refusal.reason}" for refusal in refusals))
    apply(project, edits)


def location(spark: Any, table: str) -> Path:
    """Return the directory of a table."""
    rows = spark.sql(f"describe formatted {table}").collect()
    return Path(next(str(row[1]) for row in rows if row[0] == "Location").removeprefix("file:"))
