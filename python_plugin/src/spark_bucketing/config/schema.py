"""Declare all config keys of the four materializations: types, defaults, limits, common misspellings and combinations.

Config keys are declared only here. From this module, `scripts/write_reference.py` generates the macro config_schema(),
and the types and defaults in docs/reference/configuration.md, which states what the keys mean. validation.py and the
macro model_config() interpret the schema. The schema is a Python module instead of a YAML file. Therefore, mypy can
check it, and the wheel needs no data file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any, Literal, NamedTuple

from spark_bucketing.spec import HASH_OF_VERSION, HASHES, VERSION_OF_HASH, VERSION_PROPERTY, BucketHash

Type = Literal["columns", "integer", "number", "size", "choice", "mapping", "text", "date", "boolean", "any"]

BUCKETED = ("bucketed_table", "bucketed_incremental")
ORGANIZED = ("organized_table", "organized_incremental")
MATERIALIZATIONS = (*BUCKETED, *ORGANIZED)
INCREMENTAL = ("bucketed_incremental", "organized_incremental")

#: The types of bucket columns for which all engines compute the same hash, and all types that Spark's own hash accepts.
#: float and double are missing: Spark normalizes -0.0 before it joins or groups, so it never uses their buckets.
HIVE_TYPES = ("boolean", "tinyint", "smallint", "int", "bigint", "decimal", "string", "date")
SPARK_TYPES = (*HIVE_TYPES, "varchar", "char", "binary", "timestamp", "timestamp_ntz")
BUCKET_TYPES: Mapping[BucketHash, tuple[str, ...]] = {
    name: HIVE_TYPES if name in VERSION_OF_HASH else SPARK_TYPES for name in HASHES
}
#: Types for which the file statistics contain minimum and maximum.
RANGE_TYPES = (*HIVE_TYPES, "float", "double", "timestamp", "timestamp_ntz")


def base_type(kind: str) -> str:
    """Return a type without its parameters."""
    return re.split(r"[(<]", kind.lower())[0].strip()


#: Config keys of dbt and other adapters. They are valid here because a model may target several adapters.
OTHER_KEYS = (
    "predicates", "sort", "dist", "tags", "meta", "docs", "group", "alias", "schema", "database", "access", "enabled",
    "contract", "quoting", "grants", "packages", "materialized", "full_refresh", "persist_docs", "column_types",
    "freshness", "sql_header", "pre-hook", "post-hook", "pre_hook", "post_hook", "on_configuration_change",
    "concurrent_batches", "static_analysis", "matched_condition", "not_matched_condition",
)  # fmt: skip


@dataclass(frozen=True)
class Key:
    """A config key."""

    type: Type
    taken_by: tuple[str, ...] = MATERIALIZATIONS
    strategies: tuple[str, ...] = ()  # the incremental strategies that use it; empty for all
    of_dbt: bool = False  # whether dbt itself uses the key, so that only the strategies above validate it
    required: bool = False  # whether the materializations need a value
    default: Any = None
    minimum: int | None = None  # of a value; exclusive for the type `number`
    maximum: int | None = None  # of a value, or of the number of columns
    choices: tuple[str, ...] = ()
    aliases: Mapping[str, str] = field(default_factory=dict)  # other tools' names for a choice
    pattern: str = ""  # regular expression for text
    refused: tuple[tuple[str, str, str, str], ...] = ()  # for mappings: pattern, allowed value, expected, instead
    lenient: bool = False  # whether columns may be repeated or empty, as in dbt
    expects: str = ""  # the expected value for messages, if the type does not describe it
    example: str = ""  # a valid value
    misspellings: tuple[str, ...] = ()  # common wrong names, and retired names

    @property
    def expected(self) -> str:
        """Describe which values are valid."""
        most = f"{self.maximum:,.0f}" if self.maximum else ""
        of_type = {
            "columns": "a column name or a list of column names",
            "integer": f"an integer from {self.minimum} to {most}",
            "number": f"a number above {self.minimum}, up to {most}",
            "size": "a number of bytes, or a size in KiB, MiB, GiB or TiB",
            "choice": f"one of {', '.join(self.choices)}",
            "mapping": "a mapping of keys to values",
            "boolean": "true or false",
        }
        return self.expects or of_type.get(self.type, "")


_COLUMNS = "['column_a', 'column_b']"
_FIXED = (
    r"(?i)(maxrecordsperfile|partitionoverwritemode|path)$",
    "",
    "no option that changes the location or the number of files",
    "remove '{name}'; set the number of files with `buckets`, `target_file_size` or `num_files`, and the location with "
    "`location_root`",
)
_RESERVED = (
    r"bucketing[.]",
    "",
    "no key that starts with 'bucketing.': the package reserves this prefix for its own metadata",
    "remove or rename '{name}'",
)
_MOST = 100_000
_DATE = "[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])"
_TIME = "([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9]([.][0-9]+)?)?(Z|[+-][0-9]{2}:[0-9]{2})?"
_NAME = """ *["']?[^"'(),]+["']? *"""
_RELATION = rf" *(source *[(]{_NAME},{_NAME}[)]|ref *[(]{_NAME}(,{_NAME})?[)]|[A-Za-z0-9_.-]+) *$"
_CONDITION = "a SQL condition on columns of the model's query"


def _condition(operation: str, *misspellings: str) -> Key:
    example = f"\"op = '{operation[0].upper()}'\""
    return Key(
        "text", ("organized_incremental",), ("merge",), pattern=r"\s*\S", expects=_CONDITION, example=example,
        misspellings=misspellings,
    )  # fmt: skip


def _file_count(type_: Type, maximum: int | None, example: str, *misspellings: str) -> Key:
    return Key(type_, ORGANIZED, minimum=1, maximum=maximum, example=example, misspellings=misspellings)


#: The keys that decide the number of files. A model sets exactly one of them.
FILE_COUNTS: Mapping[str, Key] = {
    "rows_per_file": _file_count(
        "integer", 10**12, "64", "max_rows_per_file", "records_per_file", "max_records_per_file", "maxrecordsperfile",
        "rows_per_files",
    ),
    "target_file_size": _file_count(
        "size", None, "'256MiB'", "file_size", "max_file_size", "bytes_per_file", "filesize",
    ),
    "num_files": _file_count("integer", _MOST, "64", "files", "number_of_files", "file_count"),
    "files_per_partition": _file_count("integer", _MOST, "64", "num_files_per_partition", "files_per_partitions"),
}  # fmt: skip

KEYS: Mapping[str, Key] = {
    "clustered_by": Key(
        "columns", BUCKETED, required=True, example=_COLUMNS,
        misspellings=(
            "cluster_by", "bucket_by", "bucketed_by", "bucket_columns", "bucket_keys", "bucket_key", "bucket_cols",
            "cluster_columns", "cluster_cols", "cluster_key", "cluster_keys",
        ),
    ),
    "buckets": Key(
        "integer", BUCKETED, required=True, minimum=1, maximum=_MOST, example="64",
        misspellings=("bucket", "num_buckets", "n_buckets", "bucket_count", "number_of_buckets", "into_buckets"),
    ),
    "sorted_by": Key(
        "columns", BUCKETED, example=_COLUMNS,
        misspellings=("sort_by", "order_by", "ordered_by", "sort_columns", "sort_cols", "sort_keys", "sort_key"),
    ),
    "bucket_hash": Key(
        "choice", BUCKETED, default="hive", choices=HASHES,
        misspellings=("hash_function", "bucketing_hash", "bucketing"),
    ),
    "write_tasks": Key(
        "integer", BUCKETED, minimum=1, maximum=_MOST, example="64",
        misspellings=("num_tasks", "num_write_tasks"),
    ),
    **FILE_COUNTS,
    "range_by": Key(
        "columns", ORGANIZED, maximum=1, default=[], example="'event_time'",
        expects="one column; columns with few distinct values belong in implicit_partition_by",
        misspellings=("organized_by", "organize_by", "organised_by", "ranged_by", "zorder_by"),
    ),
    "implicit_partition_by": Key(
        "columns", ORGANIZED, default=[], example=_COLUMNS,
        misspellings=("split_by", "splitted_by", "implicit_partitions_by"),
    ),
    "range_boundaries_from": Key(
        "text", ORGANIZED, pattern=_RELATION,
        expects="the name of a model, or text such as ref('orders') or source('shop', 'orders')",
        example="\"ref('orders')\", with the line -- depends_on: {{ ref('orders') }} in the model",
        misspellings=("bounds_from", "bounds", "intervals_from", "boundaries_from"),
    ),
    "file_strategy": Key(
        "choice", ORGANIZED, default="exact",
        choices=("exact", "coalesce", "repartition", "by_column", "by_column_salted", "by_range"),
        aliases={
            "hash": "by_column", "salted": "by_column_salted", "range": "by_range", "roundrobin": "repartition",
            "round_robin": "repartition", "rebalance": "exact",
        },
        misspellings=("strategy", "files_strategy", "repartition_strategy", "distribution"),
    ),
    "scale_factor": Key(
        "number", ORGANIZED, minimum=0, maximum=100, example="3",
        misspellings=("scale", "scaling_factor"),
    ),
    "partition_by": Key(
        "columns", default=[], example=_COLUMNS,
        misspellings=("partitioned_by", "partition_columns", "partition_cols", "partition_key", "partition_keys"),
    ),
    "file_format": Key("choice", default="parquet", choices=("parquet", "orc"), misspellings=("format", "stored_as")),
    "location_root": Key(
        "text", pattern=r"(?=\s*\S)[^][{}*?]*$",
        expects="a directory without [ ] { } * ?, which Spark reads as glob patterns",
        example="'s3a://bucket/warehouse'", misspellings=("location",),
    ),
    "options": Key("mapping", default={}, refused=(_FIXED,), example="{'key': 'value'}"),
    "tblproperties": Key(
        "mapping", default={}, refused=(_RESERVED, _FIXED), example="{'key': 'value'}",
        misspellings=("table_properties",),
    ),
    "on_bucket_change": Key(
        "choice", BUCKETED, default="fail", choices=("fail", "rebuild", "evolve"),
        misspellings=("on_buckets_change", "on_layout_change"),
    ),
    "incremental_strategy": Key(
        "choice", INCREMENTAL, default="append", choices=("append", "insert_overwrite", "merge", "microbatch"),
        aliases={
            "delete+insert": "merge", "delete_insert": "merge", "upsert": "merge", "replace_where": "insert_overwrite",
            "overwrite": "insert_overwrite",
        },
    ),
    "unique_key": Key("columns", INCREMENTAL, ("merge",), default=[], lenient=True, example=_COLUMNS),
    "merge_update_columns": Key("columns", INCREMENTAL, ("merge",), default=[], example=_COLUMNS),
    "merge_exclude_columns": Key("columns", INCREMENTAL, ("merge",), default=[], example=_COLUMNS),
    "incremental_predicates": Key("any", INCREMENTAL, ("merge",), default=[]),
    "on_schema_change": Key(
        "choice", INCREMENTAL, default="ignore", choices=("ignore", "fail", "append_new_columns", "sync_all_columns"),
    ),
    "event_time": Key("any", ("bucketed_incremental",), ("microbatch",), of_dbt=True),
    "batch_size": Key(
        "choice", ("bucketed_incremental",), ("microbatch",), of_dbt=True, choices=("hour", "day", "month", "year"),
    ),
    "begin": Key(
        "date", ("bucketed_incremental",), ("microbatch",), of_dbt=True, pattern=f"{_DATE}([ T]{_TIME})?$",
        expects="an ISO date or time", example="'2024-01-01'",
    ),
    "lookback": Key(
        "integer", ("bucketed_incremental",), ("microbatch",), of_dbt=True, default=1, minimum=0, maximum=_MOST,
        example="1",
    ),
    "delete_when": _condition("delete", "deletes_when", "delete_if", "delete_condition"),
    "insert_when": _condition("insert", "inserts_when", "insert_if"),
    "update_when": _condition("update", "updates_when", "update_if"),
    "merge_checks": Key(
        "boolean", ("organized_incremental",), ("merge",), default=True, example="true",
        misspellings=("merge_check", "checks"),
    ),
}  # fmt: skip


class Condition(NamedTuple):
    """A condition on the value of a key, or on an entry of a mapping (`key.entry`). Entries are compared as text."""

    key: str
    negated: bool
    values: tuple[str, ...] = ()  # empty: the condition is that the key has no value or an empty value


def _is(key: str, *values: str) -> Condition:
    return Condition(key, False, values)


def _is_not(key: str, *values: str) -> Condition:
    return Condition(key, True, values)


# Without values, these conditions are about having a value at all.
_lacks, _has = _is, _is_not


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
