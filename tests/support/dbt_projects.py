"""Write small dbt projects, and read dbt's artifacts."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

VERSION = {"dbt_schema_version": "https://schemas.getdbt.com/dbt/manifest/v12.json"}


def dbt_project(folder: Path, profile: str = "p", **output: Any) -> Path:
    """Write a project without models; its target t is a session or the given output."""
    from dbt_common.tests import enable_test_caching

    # All projects have the same macros, and dbt parses each macro only once.
    enable_test_caching()
    (folder / "models").mkdir(parents=True)
    (folder / "dbt_project.yml").write_text(json.dumps({"name": "p", "profile": profile}))
    target = {"type": "spark", "method": "session", "host": "NA", "schema": "s", **output}
    (folder / "profiles.yml").write_text(json.dumps({profile: {"target": "t", "outputs": {"t": target}}}))
    return folder


def later(path: Path, seconds: int) -> None:
    """Write a file with a modification time this many seconds in the future."""
    path.parent.mkdir(exist_ok=True)
    path.touch()
    os.utime(path, (time.time() + seconds,) * 2)


def compiled(project: Path, **arguments: object) -> Path:
    """Write a manifest, dated ten seconds ahead, and run results as if dbt had compiled; return the manifest."""
    metadata = VERSION | {"invocation_id": "1"}
    target = project / "target"
    target.mkdir()
    (target / "run_results.json").write_text(json.dumps({"metadata": metadata, "args": {"vars": {}, **arguments}}))
    (target / "manifest.json").write_text(json.dumps({"metadata": metadata, "nodes": {}}))
    later(target / "manifest.json", 10)
    return target / "manifest.json"
