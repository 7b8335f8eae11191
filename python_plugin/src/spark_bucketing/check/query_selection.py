"""Collect the queries to check: selected models and SQL files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from spark_bucketing.check.checker import Subject, Task
from spark_bucketing.check.hook_functions import temporary_functions
from spark_bucketing.check.sql_text import one_statement
from spark_bucketing.errors import ProjectError
from spark_bucketing.project.dbt import SELECTED
from spark_bucketing.project.manifest import Manifest, Node, table_name

_JINJA = re.compile(r"\{\{|\{%")


def selectable(manifest: Manifest) -> tuple[str, ...]:
    """Return all models and snapshots whose SQL Spark plans as a separate query, parents first."""
    nodes = ((name, manifest.nodes[name]) for name in manifest.order)
    # Spark plans an ephemeral model as part of the models that use it.
    return tuple(name for name, node in nodes if node.resource_type in SELECTED and node.materialized != "ephemeral")


def model_subject(node: Node, project_dir: Path, error: str | None = None) -> Subject:
    """Return the query to check for a model, snapshot or analysis."""
    if error is None and node.language != "sql":
        error = f"Model `{node.name}` is a {node.language.capitalize()} model, which has no SQL to plan."
    file = project_dir / node.path
    try:
        # The manifest omits blank lines at the top of the file.
        raw = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        raw = node.raw_sql
    sql = node.sql if node.language == "sql" else None
    return Subject(
        node.name,
        node.path,
        sql,
        raw,
        node.unique_id,
        error,
        table_name(node.relation) if node.relation else "",
        temporary_functions(node.config),
    )


def file_subject(file: Path, project_dir: Path, manifest: Manifest, errors: Mapping[str, str]) -> Subject:
    """Return the query to check for a SQL file.

    The query is dbt's compiled SQL if the file belongs to the project, otherwise the file's own text.

    Raises:
        ProjectError: the file cannot be read, or contains Jinja that dbt does not compile.
    """
    inside = file.is_relative_to(project_dir)
    path = file.relative_to(project_dir).as_posix() if inside else str(file)
    for node in manifest.nodes.values():
        if node.path == path and node.resource_type in ("model", "snapshot", "analysis"):
            return model_subject(node, project_dir, errors.get(node.unique_id))
    try:
        # The file may start with a byte order mark, which Spark would parse as part of a word.
        text = file.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ProjectError(
            f"The file `{file}` cannot be read.",
            found=error,
            expected="a text file with a query",
            instead="check the path and the encoding of the file",
        ) from error
    if _JINJA.search(text):
        raise ProjectError(
            f"The file `{path}` contains Jinja that dbt does not compile.",
            found=f"a file that is not a model or analysis of the project in `{project_dir}`",
            expected="plain SQL, or a file of the project",
            instead="move the file to a directory of `analysis-paths`",
        )
    return Subject(path, path, one_statement(text), text)


def offline_tasks(subjects: Sequence[Subject], manifest: Manifest) -> list[Task]:
    """Return all queries, each after the stub tables that it may read.

    A file outside the project may read any stub table, so it comes after all of them.
    """
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
