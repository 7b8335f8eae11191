"""CREATE TABLE for the empty shadow of a table, bucketed and partitioned as its config says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spark_bucketing.errors import ProjectError
from spark_bucketing.spec import BucketHash, BucketSpec

# A table of unknown size is large: nothing is to be broadcast merely because it is empty here.
UNKNOWN_SIZE = 1 << 40
_OWN = ("bucketed_table", "bucketed_incremental")
# Others, such as Delta, need jars that are not here; their tables have no buckets.
_FORMATS = ("parquet", "orc", "csv", "json", "text")


@dataclass(frozen=True)
class ShadowLayout:
    """How a shadow table is stored; the same words as in BucketSpec."""

    spec: BucketSpec | None = None
    partition_by: tuple[str, ...] = ()
    file_format: str = "parquet"


def configured_layout(config: Mapping[str, Any], materialized: str, name: str) -> ShadowLayout:
    """The layout that a model's config asks for, as this package's materializations or dbt-spark's own write it.

    Args:
        config: the model's; or the meta of a source, under `bucketing`, with the same keys.
        materialized: how it is built.
        name: the model's, for errors.

    Raises:
        ProjectError: buckets without a number, a number that is none, or columns that are no names.
    """
    partition_by = _names(config, "partition_by", name)
    clustered_by = _names(config, "clustered_by", name)
    own = materialized in _OWN
    file_format = str(config.get("file_format") or "parquet").lower()
    buckets = config.get("buckets")
    if file_format not in _FORMATS:
        return ShadowLayout(None, partition_by, "parquet")
    if own and (not clustered_by or buckets is None):
        raise ProjectError(
            f"Invalid config of model {name!r}.\n  found:    clustered_by={list(clustered_by)}, buckets={buckets}\n"
            "  expected: both\n  instead:  clustered_by=['the_join_key'], buckets=64"
        )
    if not clustered_by or buckets is None:
        return ShadowLayout(None, partition_by, file_format)
    if isinstance(buckets, bool) or not str(buckets).isdecimal() or int(buckets) < 1:
        raise ProjectError(
            f"Invalid `buckets` of {name!r}.\n  found:    {buckets}\n"
            "  expected: an integer from 1\n  instead:  buckets=64"
        )
    default_sort = clustered_by if own else ()
    sort_columns = default_sort if config.get("sorted_by") is None else _names(config, "sorted_by", name)
    bucket_hash: BucketHash = "spark"
    if str(config.get("bucket_hash") or ("hive" if own else "spark")).lower() == "hive":
        bucket_hash = "hive"
    return ShadowLayout(BucketSpec(int(buckets), clustered_by, sort_columns, bucket_hash), partition_by, file_format)


def create_table(relation: str, columns: Mapping[str, str], layout: ShadowLayout, size_bytes: int | None) -> str:
    """The statement that creates a shadow.

    Args:
        relation: qualified name, quoted where it has to be.
        columns: names and Spark types.
        layout: how it is stored.
        size_bytes: of the real table, which Spark takes for the size of this one; None for a large one.
    """
    spec, partition_by = layout.spec, [name.lower() for name in layout.partition_by]
    # Hive's metastore lower-cases the names of bucket columns; the materializations do so beforehand.
    lowered = {name.lower() for name in (*spec.bucket_columns, *spec.sort_columns)} if spec else set()
    lowered = lowered if spec and spec.bucket_hash == "hive" else set()
    names = {name: name.lower() if name.lower() in lowered else name for name in columns}
    # Partition columns come last, in the order of the config.
    data = [name for name in columns if name.lower() not in partition_by]
    last = sorted(
        (name for name in columns if name.lower() in partition_by), key=lambda n: partition_by.index(n.lower())
    )
    definitions = ", ".join(f"{_quoted(names[name])} {_storable(columns[name])}" for name in (*data, *last))
    parts = [f"create table {relation} ({definitions})"]
    hive = spec is not None and spec.bucket_hash == "hive"
    if not hive:
        parts.append(f"using {layout.file_format}")
    if partition_by:
        parts.append(f"partitioned by ({_list(layout.partition_by)})")
    if spec:
        parts.append(f"clustered by ({_list(spec.bucket_columns)})")
        if spec.sort_columns:
            parts.append(f"sorted by ({_list(spec.sort_columns)})")
        parts.append(f"into {spec.num_buckets} buckets")
    if hive:
        parts.append(f"stored as {layout.file_format}")
    parts.append(f"tblproperties ({_properties(size_bytes, hive)})")
    return "\n".join(parts)


def _properties(size_bytes: int | None, hive: bool) -> str:
    size = UNKNOWN_SIZE if size_bytes is None else size_bytes
    # Spark reads Hive's totalSize, and only where Hive says how many rows there are too.
    version = ", 'bucketing_version' = '1'" if hive else ""
    return f"'totalSize' = '{max(size, 1)}', 'numRows' = '{max(size // 100, 1)}'{version}"


def _storable(sql_type: str) -> str:
    # The type of a bare NULL, which no table has.
    return "string" if sql_type.lower() == "void" else sql_type


def _names(config: Mapping[str, Any], key: str, model: str) -> tuple[str, ...]:
    value = config.get(key)
    names = [value] if isinstance(value, str) else [] if value is None else value
    if not isinstance(names, (list, tuple)) or not all(isinstance(name, str) for name in names):
        raise ProjectError(
            f"Invalid `{key}` of {model!r}.\n  found:    {value}\n"
            f"  expected: a column's name, or a list of them\n  instead:  {key}=['a_column']"
        )
    return tuple(names)


def _list(names: Sequence[str]) -> str:
    return ", ".join(map(_quoted, names))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
