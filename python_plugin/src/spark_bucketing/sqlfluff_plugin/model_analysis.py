"""Collect what the rules need: a model's config, the violations in this config, and the problems in the query."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from spark_bucketing.config.schema import BUCKETED
from spark_bucketing.config.validation import Config
from spark_bucketing.config.values import Violation
from spark_bucketing.sqlfluff_plugin.config_calls import ConfigCalls
from spark_bucketing.sqlfluff_plugin.problems import Problem
from spark_bucketing.sqlfluff_plugin.project_files import Project
from spark_bucketing.sqlfluff_plugin.query_analysis import Query
from spark_bucketing.sqlfluff_plugin.violations import violations


@dataclass(frozen=True)
class Model:
    """The config in one file, and all problems in this file."""

    config: Config
    calls: ConfigCalls
    violations: Sequence[Violation]
    problems: Sequence[Problem]


# sqlfluff runs one rule after another on the same file.
@lru_cache(maxsize=4)
def examine(project: Project, path: Path | None, source: str, sql: str) -> Model:
    """Examine a file once for all rules.

    Args:
        project: the project to which the file belongs.
        path: the file's path, or None for text that is not in a file.
        source: the file's text before rendering.
        sql: the rendered text, including the fixes that sqlfluff has applied so far.
    """
    config, calls = project.config(path, source)
    query = Query(sql, project, project.own_table(path), bucketed=config["materialized"] in BUCKETED)
    return Model(config, calls, tuple(violations(config, query.columns)), tuple(query.problems))
