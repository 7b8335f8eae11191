"""A model as the rules see it: its config, what is wrong with that, and what its query does with buckets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from spark_bucketing.sqlfluff_plugin.config_calls import ConfigCalls
from spark_bucketing.sqlfluff_plugin.problems import Problem
from spark_bucketing.sqlfluff_plugin.project_files import Project
from spark_bucketing.sqlfluff_plugin.query_analysis import Query
from spark_bucketing.sqlfluff_plugin.violations import Config, Violation, violations


@dataclass(frozen=True)
class Model:
    """All that is said of one file."""

    config: Config
    calls: ConfigCalls
    violations: Sequence[Violation]
    problems: Sequence[Problem]


# Every rule looks at the same file, one after the other.
@lru_cache(maxsize=4)
def examine(project: Project, path: Path | None, source: str, sql: str) -> Model:
    """Look at a file once for all rules.

    Args:
        project: what it belongs to.
        path: where it is, if anywhere.
        source: its text as it was written.
        sql: its text as it is rendered, after the fixes so far.
    """
    config, calls = project.config(path, source)
    query = Query(sql, project, project.own_table(path), bucketed=config.is_ours)
    return Model(config, calls, tuple(violations(config, query.columns)), tuple(query.problems))
