"""A dbt process that is killed, Spark with it, in the middle of a statement: the next run has all rows, once."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from conftest import REPOSITORY

# The statement that is running when the process dies, by a part of its text, and the seconds that it has been running.
MOMENTS = [
    ("swap", "rename to `s`.`t__dbt_backup`", 0.0),
    ("swap, a moment later", "rename to `s`.`t__dbt_backup`", 0.3),
    ("staging", "`m__dbt_staged`", 0.2),
    ("replacing", "insert overwrite table", 0.5),
    ("replacing, a moment later", "insert overwrite table", 1.5),
]
MODELS = {
    "m": """
        {{ config(materialized='bucketed_incremental', incremental_strategy='merge', unique_key='k',
                  clustered_by='k', buckets=2, partition_by='p') }}
        select id as k, id % 3 as p, {{ var('v') }} as v
        from range({% if is_incremental() %}{{ 10 * var('v') }}, {{ 10 * var('v') + 15 }}{% else %}20{% endif %})
    """,
    "t": """
        {{ config(materialized='bucketed_table', clustered_by='k', buckets=2) }}
        select id as k, {{ var('v') }} as v from range(20)
    """,
}


def dbt_command(folder: Path, *arguments: str) -> list[str]:
    main = [sys.executable, "-c", "from dbt.cli.main import cli; cli()"]
    return [*main, *arguments, "--project-dir", str(folder), "--profiles-dir", str(folder)]


def show(folder: Path, query: str) -> list[dict[str, object]]:
    arguments = ("show", "--quiet", "--output", "json", "--limit", "-1", "--vars", "{v: 0}", "--inline", query)
    done = subprocess.run(dbt_command(folder, *arguments), capture_output=True, text=True, check=True, timeout=300)
    return list(json.loads(done.stdout[done.stdout.index("{") :])["show"])


def run(folder: Path, version: int) -> None:
    arguments = dbt_command(folder, "run", "--vars", f"{{v: {version}}}")
    done = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stdout


def run_and_kill(folder: Path, version: int, statement: str, delay: float) -> None:
    """Start a run, wait until it has sent this statement, and kill the process with the Spark below it."""
    log = folder / "logs" / "dbt.log"
    log.unlink()
    arguments = dbt_command(folder, "run", "--vars", f"{{v: {version}}}")
    with subprocess.Popen(
        arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    ) as dbt:
        while dbt.poll() is None and not (log.exists() and statement in log.read_text()):
            time.sleep(0.02)
        assert dbt.poll() is None, f"the run ended before it sent {statement!r}"
        time.sleep(delay)
        os.killpg(dbt.pid, signal.SIGKILL)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose Spark lives in dbt's own process, with a metastore of its own."""
    folder = tmp_path_factory.mktemp("killed")
    settings = {
        "spark.master": "local[2]",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.local.dir": str(folder / "local"),
        "spark.hadoop.hive.downloaded.resources.dir": str(folder / "resources"),
        "spark.driver.extraJavaOptions": f"-Dderby.system.home={folder} -Djava.io.tmpdir={folder}",
    }
    output = {"type": "spark", "method": "session", "host": "NA", "schema": "s", "threads": 1}
    profile = {"t": {"target": "t", "outputs": {"t": output | {"server_side_parameters": settings}}}}
    project = {"name": "t", "profile": "t", "flags": {"send_anonymous_usage_stats": False}}
    for name, content in {"profiles.yml": profile, "dbt_project.yml": project}.items():
        (folder / name).write_text(yaml.safe_dump(content))
    (folder / "packages.yml").write_text(yaml.safe_dump({"packages": [{"local": str(REPOSITORY)}]}))
    (folder / "dbt_packages").mkdir()
    (folder / "dbt_packages" / "spark_bucketing").symlink_to(REPOSITORY)
    (folder / "models").mkdir()
    for name, sql in MODELS.items():
        (folder / "models" / f"{name}.sql").write_text(sql)
    return folder


@pytest.mark.long
def test_the_run_after_a_killed_one_has_all_rows_once(folder: Path) -> None:
    run(folder, 0)
    versions = dict.fromkeys(range(20), 0)
    for number, (moment, statement, delay) in enumerate(MOMENTS, start=1):
        run_and_kill(folder, number, statement, delay)
        run(folder, number)
        versions.update(dict.fromkeys(range(10 * number, 10 * number + 15), number))
        rows = show(folder, "select 'm' as t, k, v from {{ ref('m') }} union all select 't', k, v from {{ ref('t') }}")
        found = {table: sorted((row["k"], row["v"]) for row in rows if row["t"] == table) for table in ("m", "t")}
        assert found == {"m": sorted(versions.items()), "t": [(k, number) for k in range(20)]}, moment
    left = [path.name for path in (folder / "warehouse" / "s.db").iterdir()]
    assert sorted(left) == ["m", "t"]
