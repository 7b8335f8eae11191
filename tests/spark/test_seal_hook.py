"""Tests of `seal_buckets` as a model hook and with `dbt run-operation`, for files that other writers wrote."""

from __future__ import annotations

from bucketed_tables import no_extension

from conftest import Project

HOOK = "{{ spark_bucketing.seal_buckets(this) }}"
# A dbt-spark table is written without a seal, because tests start with the extension disabled.
STOCK = {"materialized": "table", "file_format": "parquet", "clustered_by": "k", "buckets": 2}
ROWS = "select /*+ repartition(1) */ id as k from range(20)"


def statuses(project: Project, name: str) -> dict[str, str]:
    found = project.rows(f"select partition, status from bucket_specs('{{schema}}.{name}')")
    return {row.partition: row.status for row in found}


def operation(project: Project, arguments: str) -> tuple[bool, str]:
    """Run only the macro; return whether dbt succeeded, and dbt's messages."""
    from dbt.cli.main import dbtRunner

    said: list[str] = []
    runner = dbtRunner(callbacks=[lambda event: said.append(event.info.msg)])
    command = ["run-operation", "spark_bucketing.seal_buckets", "--args", arguments, "--quiet"]
    outcome = runner.invoke([*command, *project.place])
    return bool(outcome.success), "\n".join([str(outcome.exception), *said])


def test_hook_seals_the_models_files(project: Project) -> None:
    project.model("plain", ROWS, **STOCK)
    project.model("m", ROWS, **STOCK, post_hook=HOOK)
    project.dbt("run")
    assert statuses(project, "plain") == {"": "not-sealed"}
    assert statuses(project, "m") == {"": "sealed"}


def test_operation_seals_a_source_and_warns_about_refused_files(project: Project) -> None:
    table = project.table("raw")
    project.spark.sql(
        f"create table {table} (k int) partitioned by (ds string) clustered by (k) into 2 buckets stored as parquet"
    )
    for day in ("a", "b"):
        project.spark.sql(f"insert into {table} partition (ds = '{day}') select 1")
    done, said = operation(project, f"{{relation: '{project.schema}.raw', where: \"ds = 'a'\"}}")
    assert done and "was not sealed" not in said, said
    assert statuses(project, "raw") == {"ds=a": "sealed", "ds=b": "not-sealed"}
    # Add a row to the file of another bucket.
    written = next(project.location("raw").glob("ds=b/0*.parquet"))
    written.rename(written.with_name({"0": "1", "1": "0"}[written.name[4]].join([written.name[:4], written.name[5:]])))
    done, said = operation(project, f"{{relation: '{project.schema}.raw'}}")
    assert done, said
    assert f"{project.schema}.raw ds=b was not sealed: " in said and "Spark ignores its buckets." in said, said
    assert statuses(project, "raw") == {"ds=a": "sealed", "ds=b": "not-sealed"}


def test_missing_extension_is_reported(project: Project) -> None:
    project.model("m", ROWS, **STOCK, post_hook=HOOK)
    with no_extension(project.spark):
        _, failure = project.attempt("run")
    assert "cannot be sealed" in failure and "spark-bucketing extension conf" in failure, failure
