"""Which queries are checked: the models that were selected, and files of SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from spark_bucketing.check.checker import Subject, Task
from spark_bucketing.check.sql_text import one_statement
from spark_bucketing.errors import ProjectError
from spark_bucketing.project.dbt import SELECTED
from spark_bucketing.project.manifest import Manifest, Node

_JINJA = re.compile(r"\{\{|\{%")


def selectable(manifest: Manifest) -> tuple[str, ...]:
    """All models and snapshots that have a query of their own, parents first."""
    nodes = ((name, manifest.nodes[name]) for name in manifest.order)
    # An ephemeral model is planned in the models that use it.
    return tuple(name for name, node in nodes if node.resource_type in SELECTED and node.materialized != "ephemeral")


def model_subject(node: Node, project_dir: Path, error: str | None = None) -> Subject:
    """A model, snapshot or analysis."""
    if error is None and node.language != "sql":
        error = f"It is a {node.language.capitalize()} model, which has no SQL that could be planned."
    file = project_dir / node.path
    try:
        # The manifest's text has lost the blank lines at the top.
        raw = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raw = node.raw_sql
    sql = node.sql if node.language == "sql" else None
    return Subject(node.name, node.path, sql, raw, node.unique_id, error)


def file_subject(file: Path, project_dir: Path, manifest: Manifest, errors: Mapping[str, str]) -> Subject:
    """A file of SQL: what dbt compiled it to when it is one of the project's, otherwise its own text.

    Raises:
        ProjectError: the file cannot be read, or has Jinja that nobody compiles.
    """
    inside = file.is_relative_to(project_dir)
    path = file.relative_to(project_dir).as_posix() if inside else str(file)
    for node in manifest.nodes.values():
        if node.path == path and node.resource_type in ("model", "snapshot", "analysis"):
            return model_subject(node, project_dir, errors.get(node.unique_id))
    try:
        # With or without a byte order mark, which Spark takes for a word.
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ProjectError(f"{file} cannot be read: {error}.") from error
    if _JINJA.search(text):
        raise ProjectError(
            f"{path} has Jinja, and dbt does not compile it.\n  found:    a file that is no model and no analysis of "
            f"the project in {project_dir}\n  expected: plain SQL, or a file of the project\n"
            "  instead:  move it into the folder of the project's analyses (analysis-paths)"
        )
    return Subject(path, path, one_statement(text), text)


def offline_tasks(subjects: Sequence[Subject], manifest: Manifest) -> list[Task]:
    """Every query, and before it the stub of every table that it may read: any, for a file that is no node."""
    by_id: Mapping[str | None, Subject] = {subject.unique_id: subject for subject in subjects if subject.unique_id}
    files = [subject for subject in dict.fromkeys(subjects) if subject.unique_id not in by_id]
    wanted = set(manifest.nodes) if files else manifest.with_ancestors(str(name) for name in by_id)
    read = {parent for name in wanted for parent in manifest.nodes[name].depends_on}
    tasks: list[Task] = []
    for name in manifest.order:
        node = manifest.nodes[name]
        if name in wanted and node.resource_type != "test":
            tasks += [by_id[name]] if name in by_id else []
            tasks += [node] if name in read or files else []
    return [*tasks, *files]
