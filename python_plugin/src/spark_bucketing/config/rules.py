"""Declare which combinations of config keys are invalid; see schema.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

from spark_bucketing.config.schema import FILE_COUNTS
from spark_bucketing.spec import HASH_OF_VERSION, HASHES, VERSION_OF_HASH, VERSION_PROPERTY


class Condition(NamedTuple):
    """A condition on the value of a key, or on an entry of a mapping (`key.entry`). Entries are compared as text."""

    key: str
    negated: bool
    values: tuple[str, ...] = ()  # empty: the condition is that the key has no value or an empty value


def _is(key: str, *values: str) -> Condition:
    return Condition(key, False, values)


def _is_not(key: str, *values: str) -> Condition:
    return Condition(key, True, values)


def _lacks(key: str) -> Condition:
    return Condition(key, False)


def _has(key: str) -> Condition:
    return Condition(key, True)


@dataclass(frozen=True)
class Rule:
    """An invalid combination of values. In the texts of a rule, `{key}` stands for the value of that key."""

    key: str  # the key to report
    when: tuple[Condition, ...]  # the combination is invalid if all of these conditions are true
    found: str
    expected: str
    instead: str
    name: str = "invalid-config"  # of the lint rule


@dataclass(frozen=True)
class Disjoint:
    """A rule that two lists of columns must not have a column in common."""

    key: str  # the key to report
    other: str
    name: str = "invalid-config"  # of the lint rule


DISJOINT = (
    Disjoint("clustered_by", "partition_by", "partition-column-in-buckets"),
    Disjoint("sorted_by", "partition_by", "partition-column-in-buckets"),
    Disjoint("implicit_partition_by", "partition_by"),
    Disjoint("range_by", "partition_by"),
    Disjoint("range_by", "implicit_partition_by"),
)

_BUCKETED = _is("materialized", "bucketed_table", "bucketed_incremental")
_ORGANIZED = _is("materialized", "organized_table", "organized_incremental")
_EVOLVES = _is("on_bucket_change", "evolve")
_MERGES = _is("incremental_strategy", "merge")
_BY_BATCHES = _is("incremental_strategy", "microbatch")
_VERSION = f"tblproperties.{VERSION_PROPERTY}"


def _bucketed() -> Iterator[Rule]:
    for key, other, what, instead in (
        ("clustered_by", "buckets", "the columns to bucket by", "clustered_by=['the_join_key']"),
        ("buckets", "clustered_by", "the number of buckets", "buckets=64"),
    ):
        yield Rule(
            key, (_BUCKETED, _lacks(key)), f"{{{key}}}", f"{what}, together with `{other}`",
            f"{instead}, or materialized='table' for a table without buckets", "missing-buckets",
        )  # fmt: skip
    yield Rule(
        "on_bucket_change", (_EVOLVES, _is_not("materialized", "bucketed_incremental")),
        "evolve, with materialized='{materialized}'",
        "materialized='bucketed_incremental'; other materializations rewrite all partitions in every run",
        "remove `on_bucket_change`, or set materialized='bucketed_incremental'",
    )  # fmt: skip
    yield Rule(
        "on_bucket_change", (_EVOLVES, _is("bucket_hash", "spark")), "evolve, with bucket_hash='{bucket_hash}'",
        "bucket_hash='hive', because in the Spark layout, stock Spark misses rows of partitions with another number of "
        "buckets than the table", "bucket_hash='hive', or on_bucket_change='rebuild'",
    )  # fmt: skip
    yield Rule(
        "on_bucket_change", (_EVOLVES, _lacks("partition_by")), "evolve, without `partition_by`",
        "a partitioned table, because evolution keeps the bucket spec of each old partition",
        "partition_by=['the_day'], or on_bucket_change='rebuild'",
    )  # fmt: skip


def _versions() -> Iterator[Rule]:
    """Reject a table property whose version differs from that of `bucket_hash`.

    In layouts other than the Hive layout, the property may be version 1.
    """
    default = HASH_OF_VERSION["1"]
    others = [name for name in HASHES if VERSION_OF_HASH.get(name, "1") != "1"]
    hint = ", ".join(f"version {VERSION_OF_HASH[name]} is bucket_hash='{name}'" for name in others)
    for of_hash, name, instead in (
        *((_is("bucket_hash", name), name, "remove 'bucketing_version'") for name in others),
        (_is_not("bucket_hash", *others), default, f"remove 'bucketing_version'; {hint}"),
    ):
        expected = VERSION_OF_HASH[name]
        yield Rule(
            "tblproperties", (of_hash, _has(_VERSION), _is_not(_VERSION, expected)),
            f"{VERSION_PROPERTY} = {{tblproperties[{VERSION_PROPERTY}]}}",
            f"{VERSION_PROPERTY} = '{expected}', the version of the config's `bucket_hash`", instead,
        )  # fmt: skip


def _organized() -> Iterator[Rule]:
    for first, second in combinations(FILE_COUNTS, 2):
        yield Rule(
            second, (_has(first), _has(second)), f"{first} and {second}", f"exactly one of {', '.join(FILE_COUNTS)}",
            f"keep `{first}` and remove the others",
        )  # fmt: skip
    yield Rule(
        "target_file_size", (_ORGANIZED, *map(_lacks, FILE_COUNTS), _lacks("range_boundaries_from")),
        f"none of {', '.join(FILE_COUNTS)}", f"exactly one of {', '.join(FILE_COUNTS)}", "target_file_size='256MiB'",
    )  # fmt: skip
    yield Rule(
        "files_per_partition", (_has("files_per_partition"), _lacks("partition_by"), _lacks("implicit_partition_by")),
        "{files_per_partition}", "a model with `partition_by` or `implicit_partition_by`",
        "num_files={files_per_partition}",
    )  # fmt: skip
    yield Rule(
        "file_strategy", (_is("file_strategy", "by_column"), _lacks("partition_by")),
        "by_column, without `partition_by`",
        "`partition_by`, because this strategy distributes rows by the partition columns",
        "partition_by=['ds'], or remove `file_strategy` to use the default, 'exact'",
    )  # fmt: skip
    for key in ("range_by", "implicit_partition_by"):
        yield Rule(
            "file_strategy", (_has(key), _is_not("file_strategy", "exact")), "{file_strategy}",
            "'exact', because `range_by` and `implicit_partition_by` support no other strategy",
            "remove `file_strategy`",
        )  # fmt: skip
    yield Rule(
        "range_boundaries_from", (_has("range_boundaries_from"), _lacks("range_by")), "{range_boundaries_from}",
        "`range_by` in the config, because the boundaries apply to that column", "range_by='order_id'",
    )  # fmt: skip
    yield Rule(
        "scale_factor", (_has("scale_factor"), _is_not("file_strategy", "by_column_salted")), "{scale_factor}",
        "no `scale_factor` with file_strategy='{file_strategy}'; it only affects 'by_column_salted'",
        "remove `scale_factor`",
    )  # fmt: skip


def _incremental() -> Iterator[Rule]:
    yield Rule(
        "merge_update_columns", (_MERGES, _has("merge_update_columns"), _has("merge_exclude_columns")),
        "{merge_update_columns}", "only one of merge_update_columns and merge_exclude_columns", "remove one of them",
    )  # fmt: skip
    yield Rule(
        "incremental_strategy", (_ORGANIZED, _BY_BATCHES), "microbatch",
        "'append', 'insert_overwrite' or 'merge' with materialized='organized_incremental'",
        "materialized='bucketed_incremental', which supports microbatch",
    )  # fmt: skip
    for key, expected, instead in (
        ("partition_by", "a partition column with the granularity of `batch_size`", "['the_day']"),
        ("event_time", "the column with each row's event time", "'the_day'"),
        ("batch_size", "one of hour, day, month, year", "'day'"),
        ("begin", "the start of the first batch", "'2024-01-01'"),
    ):
        yield Rule(
            key, (_BUCKETED, _BY_BATCHES, _lacks(key)), "None", f"{expected}, with incremental_strategy='microbatch'",
            f"{key}={instead}",
        )  # fmt: skip
    yield Rule(
        "on_schema_change", (_ORGANIZED, _is("on_schema_change", "sync_all_columns")), "sync_all_columns",
        "one of ignore, fail, append_new_columns with materialized='organized_incremental'",
        "on_schema_change='append_new_columns', or `dbt run --full-refresh` to drop columns",
    )  # fmt: skip
    yield Rule(
        "incremental_strategy", (_ORGANIZED, _MERGES, _lacks("range_by")), "merge",
        "`range_by` in the config, because a merge finds the files to rewrite by their ranges",
        "range_by='event_time', or materialized='bucketed_incremental', which rewrites partitions",
    )  # fmt: skip
    for key in ("num_files", "files_per_partition", "range_boundaries_from"):
        yield Rule(
            key, (_MERGES, _has(key), _lacks("rows_per_file"), _lacks("target_file_size")), f"{{{key}}}",
            "rows_per_file or target_file_size with incremental_strategy='merge', which splits files that grow too "
            "large",
            "target_file_size='256MiB'",
        )  # fmt: skip
    for key in ("delete_when", "insert_when", "update_when"):
        yield Rule(
            key, (_has(key), _is_not("incremental_strategy", "merge")), f"{{{key}}}",
            f"no `{key}` with incremental_strategy='{{incremental_strategy}}', which inserts every row",
            "incremental_strategy='merge' with a `unique_key`",
        )  # fmt: skip


RULES = (*_bucketed(), *_versions(), *_organized(), *_incremental())
