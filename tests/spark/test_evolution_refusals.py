"""Tests that unsupported spec changes, and sessions that cannot evolve, fail before anything changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from bucketed_tables import no_extension
from crashes import statements
from test_evolution_runs import EVOLVING, ROWS, alterations, days, files_of, sealed_specs, source, spec

from conftest import Failed, Project
from spark_bucketing.session import setting

pytestmark = pytest.mark.usefixtures("extension")

# Changes that `evolve` refuses for an existing table: (config of the first run, changes, parts of the message).
REFUSED: dict[str, tuple[dict[str, Any], dict[str, Any], list[str]]] = {
    "format": ({"buckets": 4}, {"file_format": "orc"}, ["parquet, partitioned by (ds)", "file_format=orc"]),
    "partitions": ({"buckets": 4}, {"partition_by": ["v"]}, ["partitioned by (ds)", "partition_by=[v]"]),
    "spark_layout": (
        {"buckets": 4, "bucket_hash": "spark", "on_bucket_change": "fail"}, {"bucket_hash": "hive"},
        ["spark layout", "the same number of buckets"],
    ),
    "unpartitioned": ({"buckets": 4, "partition_by": [], "on_bucket_change": "fail"}, {}, ["partition_by=[ds]"]),
}  # fmt: skip


@pytest.mark.long
def test_other_layout_changes_do_not_evolve(new_project: Callable[..., Project]) -> None:
    project = source(new_project())
    for name, (first, _, _) in REFUSED.items():
        project.model(name, ROWS, **EVOLVING | first)
    project.dbt("run", run=0, days=days())
    before = {name: files_of(project, name) for name in REFUSED}
    for name, (_, change, _) in REFUSED.items():
        project.model(name, ROWS, **EVOLVING | {"buckets": 8} | change)
    with statements() as sent:
        results, _ = project.attempt("run", run=1, days=days(1))
    for name, (_, _, parts) in REFUSED.items():
        message = str(results[name].message)
        title = f"Model `{name}` has an invalid `on_bucket_change`"
        for part in [title, "found:    evolve", "on_bucket_change='rebuild'", *parts]:
            assert part in message, message
        assert files_of(project, name) == before[name]
    assert not alterations(sent) and not [statement for statement in sent if "insert" in statement]
    assert project.tables() == {*REFUSED, "rows"}


@pytest.mark.long
def test_unsupported_session_fails_before_anything_changes(project: Project) -> None:
    spark = source(project).spark
    project.model("m", ROWS, **EVOLVING, buckets=4)
    project.dbt("run", run=0, days=days())
    project.model("m", ROWS, **EVOLVING, buckets=8)
    before = files_of(project, "m")

    def refused(*parts: str) -> None:
        with statements() as sent, pytest.raises(Failed) as failure:
            project.dbt("run", run=1, days=days(1))
        for part in ["Model `m` has an invalid `on_bucket_change`", "expected: the session extension, enabled", *parts]:
            assert part in str(failure.value), failure.value
        assert not [statement for statement in sent if statement.startswith(("alter", "insert"))]
        assert files_of(project, "m") == before and project.tables() == {"m", "rows"}

    with setting(spark, "spark.bucketing.enabled", "false"):
        refused("evolve, in a session with spark.bucketing.enabled = false", "set spark.bucketing.enabled=true")

    with no_extension(spark):
        refused("evolve, in a session without the session extension", "spark-bucketing extension conf", "'rebuild'")
        spark.sql("create temporary function bucket_specs as 'org.apache.hadoop.hive.ql.udf.generic.GenericUDFHash'")
        try:
            refused("another function has the name `bucket_specs`", "GenericUDFHash", "drop or rename that function")
        finally:
            spark.sql("drop temporary function bucket_specs")
        # A full refresh rebuilds all partitions, so it does not need the extension.
        project.dbt("run", "--full-refresh", run=1, days=days(1))
    assert sealed_specs(project, "m") == {"1": spec(8)}
    assert project.detail("m", "Num Buckets") == "8"
