"""dbt projects of a few files, and what dbt leaves in them."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any

VERSION = {"dbt_schema_version": "https://schemas.getdbt.com/dbt/manifest/v12.json"}


def dbt_project(folder: Path, profile: str = "p", **output: Any) -> Path:
    """A project without models, whose profile's target t is a session, or whatever this output says."""
    (folder / "models").mkdir(parents=True)
    (folder / "dbt_project.yml").write_text(json.dumps({"name": "p", "profile": profile}))
    target = {"type": "spark", "method": "session", "host": "NA", "schema": "s", **output}
    (folder / "profiles.yml").write_text(json.dumps({profile: {"target": "t", "outputs": {"t": target}}}))
    return folder


def later(path: Path, seconds: int) -> None:
    """Change a file, or make it, that many seconds from now."""
    path.parent.mkdir(exist_ok=True)
    path.touch()
    os.utime(path, (time.time() + seconds,) * 2)


def compiled(project: Path, **arguments: object) -> Path:
    """A manifest of ten seconds from now, and the results of the same run of dbt with these arguments."""
    metadata = VERSION | {"invocation_id": "1"}
    target = project / "target"
    target.mkdir()
    (target / "run_results.json").write_text(json.dumps({"metadata": metadata, "args": {"vars": {}, **arguments}}))
    (target / "manifest.json").write_text(json.dumps({"metadata": metadata, "nodes": {}}))
    later(target / "manifest.json", 10)
    return target / "manifest.json"
