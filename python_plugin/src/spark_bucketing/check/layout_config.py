"""Read a table's layout from a model's config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from spark_bucketing.config.schema import BUCKETED
from spark_bucketing.config.validation import validated, value_of
from spark_bucketing.plan.hypothetical_table import PLANNED_FORMATS, HypotheticalTable
from spark_bucketing.spec import BucketSpec


def configured_layout(config: Mapping[str, Any], materialized: str, name: str) -> HypotheticalTable:
    """Return a table with the layout that a model's config requests, but without columns.

    The config can be for a materialization of this package or of dbt-spark.

    Args:
        config: config of the model, or the value of `bucketing` in a source's meta, which has the same keys.
        materialized: materialization of the model.
        name: name of the model, for errors.

    Raises:
        ProjectError: the config is invalid.
    """
    if materialized in BUCKETED:
        given = validated({**config, "materialized": materialized}, name)
    else:
        # dbt-spark's tables have the Spark layout. dbt-spark accepts the number of buckets as a string.
        buckets = str(config.get("buckets"))
        given = {**config, "buckets": int(buckets) if buckets.isdecimal() else config.get("buckets")}
        keys = ("partition_by", "clustered_by", "sorted_by", "buckets", "bucket_hash")
        given |= {"bucket_hash": "spark"} if config.get("bucket_hash") is None else {}
        given |= {key: value_of(key, given.get(key), name) for key in keys}
    partition_by = tuple(given["partition_by"])
    file_format = str(given.get("file_format") or "parquet").lower()
    if file_format not in PLANNED_FORMATS:
        # Tables in other formats, such as Delta, are not bucketed, and need jars that are missing here.
        return HypotheticalTable(name, {}, None, partition_by)
    plain = HypotheticalTable(name, {}, None, partition_by, file_format=file_format)
    if not given["clustered_by"] or given["buckets"] is None:
        return plain
    sort_columns = tuple(given["sorted_by"] or ())
    spec = BucketSpec(given["buckets"], tuple(given["clustered_by"]), sort_columns, given["bucket_hash"])
    return replace(plain, spec=spec)
