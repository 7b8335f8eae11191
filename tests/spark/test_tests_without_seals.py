"""The generic tests in a session that knows no seals: every file is looked at, by the table's own spec."""

from __future__ import annotations

from unloaded import no_extension

from conftest import Project

TESTS = """
models:
  - name: m
    data_tests:
      - spark_bucketing.one_file_per_bucket
      - spark_bucketing.rows_in_their_buckets
      - spark_bucketing.sorted_within_buckets
      - spark_bucketing.bucket_skew_below: {arguments: {ratio: 3}}
      - spark_bucketing.partition_bucket_specs_valid
"""


def outcomes(project: Project) -> dict[str, str]:
    with no_extension(project.spark):
        results, _ = project.attempt("test")
    return {name.removeprefix("spark_bucketing_").split("_m_")[0]: str(found.status) for name, found in results.items()}


def test_a_good_table_passes_and_a_damaged_one_fails(project: Project) -> None:
    project.model(
        "m",
        "select id as k, id % 2 as ds from range(80)",
        materialized="bucketed_table",
        clustered_by="k",
        buckets=4,
        partition_by="ds",
    )
    project.write("models/m.yml", TESTS)
    with no_extension(project.spark):
        project.dbt("run")
    good = {"one_file_per_bucket": "pass", "rows_in_their_buckets": "pass", "sorted_within_buckets": "pass"}
    # Only a session with the extension can tell what is sealed.
    good |= {"bucket_skew_below": "pass", "partition_bucket_specs_valid": "error"}
    assert outcomes(project) == good
    first, second, *_ = sorted((project.location("m") / "ds=0").glob("0*"))
    exchanged = first.with_name(first.name.replace(first.name[:5], second.name[:5], 1))
    first.rename(exchanged)
    project.spark.sql(f"refresh table {project.table('m')}")
    assert outcomes(project) == good | {"one_file_per_bucket": "fail", "rows_in_their_buckets": "fail"}
