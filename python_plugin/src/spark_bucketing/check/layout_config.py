"""Read a table's layout from a model's config."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, get_args

from spark_bucketing.errors import ProjectError
from spark_bucketing.plan.whatif.hypothetical_table import PLANNED_FORMATS, HypotheticalTable
from spark_bucketing.spec import BucketHash, BucketSpec

_OWN = ("bucketed_table", "bucketed_incremental")


def configured_layout(config: Mapping[str, Any], materialized: str, name: str) -> HypotheticalTable:
    """Return a table without columns, with the layout that a model's config requests from this package or dbt-spark.

    Args:
        config: config of the model; or the value of `bucketing` in a source's meta, with the same keys.
        materialized: materialization of the model.
        name: name of the model, for errors.

    Raises:
        ProjectError: `buckets` is missing or not a number, or a list of columns is invalid.
    """
    partition_by = _names(config, "partition_by", name)
    clustered_by = _names(config, "clustered_by", name)
    own = materialized in _OWN
    file_format = str(config.get("file_format") or "parquet").lower()
    buckets = config.get("buckets")
    if file_format not in PLANNED_FORMATS:
        # Other formats, such as Delta, need jars that are missing here; their tables are not bucketed.
        return HypotheticalTable(name, {}, None, partition_by)
    if own and (not clustered_by or buckets is None):
        raise ProjectError(
            f"The config of model {name!r} is incomplete.\n"
            f"  found:    clustered_by={list(clustered_by)}, buckets={buckets}\n  expected: both keys\n"
            "  instead:  clustered_by=['the_join_key'], buckets=64"
        )
    plain = HypotheticalTable(name, {}, None, partition_by, file_format=file_format)
    if not clustered_by or buckets is None:
        return plain
    if isinstance(buckets, bool) or not str(buckets).isdecimal() or int(buckets) < 1:
        raise ProjectError(
            f"Invalid `buckets` of {name!r}.\n  found:    {buckets}\n"
            "  expected: an integer from 1\n  instead:  buckets=64"
        )
    default_sort = clustered_by if own else ()
    sort_columns = default_sort if config.get("sorted_by") is None else _names(config, "sorted_by", name)
    given = str(config.get("bucket_hash") or ("hive" if own else "spark")).lower()
    known: tuple[BucketHash, ...] = get_args(BucketHash)
    bucket_hash: BucketHash = next((name for name in known if name == given), "spark")
    return replace(plain, spec=BucketSpec(int(buckets), clustered_by, sort_columns, bucket_hash))


def _names(config: Mapping[str, Any], key: str, model: str) -> tuple[str, ...]:
    value = config.get(key)
    names = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise ProjectError(
            f"Invalid `{key}` of {model!r}.\n  found:    {value}\n"
            f"  expected: a column name or a list of column names\n  instead:  {key}=['a_column']"
        )
    return tuple(names)
