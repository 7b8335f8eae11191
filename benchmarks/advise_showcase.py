"""Compare the advice for the showcase with its own bucket specs: `python benchmarks/advise_showcase.py`.

The benchmark copies the project and removes all bucket keys from its configs, with the editing code of `advise`.
Afterwards, the benchmark runs `advise`. The benchmark assumes 100 GiB per table and twelve partitions per year. The
benchmark also assumes that models that no other model reads run once an hour, and all other models once a day. The
output lists the proposed bucket columns next to the bucket columns in the showcase's own configs.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench_project import COMMAND, ROOT, change_configs, project_options
from rich.console import Console
from rich.table import Table

_STOCK = {"bucketed_table": "table", "bucketed_incremental": "incremental"}
_OURS = ("clustered_by", "buckets", "sorted_by", "bucket_hash", "on_bucket_change", "write_tasks")


def main() -> None:
    """Remove the bucket configs, run `advise`, and print the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--assume-size", default="100GiB", help="size that `advise` assumes for every table")
    parser.add_argument(
        "--runs", type=int, default=24, help="number of runs of a model that no model reads, for each run of the others"
    )
    parser.add_argument("more", nargs="*", help="further options for `advise`, after --")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "showcase"
        for name in ("macros", "models"):
            shutil.copytree(ROOT / name, folder / name)
        for name in ("dbt_project.yml", "profiles.yml"):
            shutil.copy(ROOT / name, folder)
        nodes = _remove_buckets(folder)
        partitioned = [node["name"] for node in nodes if node["config"].get("partition_by")]
        read = {name for node in nodes for name in node["depends_on"]["nodes"]}
        runs = {node["name"]: 1 if node["unique_id"] in read else options.runs for node in nodes}
        (folder / "sizes.json").write_text(json.dumps({name: {"partitions": 12} for name in partitioned}))
        (folder / "runs.json").write_text(json.dumps(runs))
        given = ["--sizes", str(folder / "sizes.json"), "--runs", str(folder / "runs.json")]
        command = [COMMAND, "advise", *project_options(folder), "--offline", "--assume-size", options.assume_size]
        command += [*given, *options.more]
        subprocess.run(command, check=True)
        report = folder / "advice.json"
        subprocess.run([*command, "--format", "json", "--output", str(report)], check=True)
        Console(width=120).print(_comparison(nodes, json.loads(report.read_text())))


def _remove_buckets(folder: Path) -> list[dict[str, Any]]:
    """Set the bucket keys of all configs to none, and return the manifest's models with their original configs."""
    subprocess.run([Path(sys.executable).with_name("dbt"), "--quiet", "parse", *project_options(folder)], check=True)
    manifest = json.loads((folder / "target" / "manifest.json").read_text())
    nodes = [node for node in manifest["nodes"].values() if node["resource_type"] == "model"]
    changes = {
        node["unique_id"]: {"materialized": _STOCK[node["config"]["materialized"]], "file_format": "parquet"}
        | {key: None for key in _OURS if key in node["config"]}
        for node in nodes
        if node["config"]["materialized"] in _STOCK
    }
    change_configs(folder, manifest, changes)
    return nodes


def _comparison(nodes: list[dict[str, Any]], advice: Mapping[str, Any]) -> Table:
    printed = Table("model", "showcase", "advised", title="Keys and buckets")
    advised = {one["model"]: one["config"] for one in advice["changes"]}
    for node in nodes:
        if node["config"]["materialized"] in _STOCK:
            printed.add_row(node["name"], _layout(node["config"]), _layout(advised.get(node["name"], {})))
    return printed


def _layout(config: Mapping[str, Any]) -> str:
    keys = config.get("clustered_by")
    if not keys:
        return "none"
    return f"{', '.join([keys] if isinstance(keys, str) else keys)} into {config['buckets']}"


if __name__ == "__main__":
    main()
