"""Declare all config keys of the four materializations: types, defaults, limits, common misspellings and combinations.

Config keys are declared only here. From this module, `scripts/write_reference.py` generates the macro config_schema()
and the tables in docs/reference/configuration.md. validation.py and the macro model_config() interpret the schema. The
schema is a Python module instead of a YAML file. Therefore, mypy can check it, and the wheel needs no data file.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from spark_bucketing.spec import HASHES, STOCK_HASHES, VERSION_OF_HASH, BucketHash

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
#: The types for which a SQL expression computes the same bucket as the writer. In version 2, equal floating-point
#: numbers can have different hashes.
HASHED_TYPES: Mapping[BucketHash, tuple[str, ...]] = {
    name: (*types, "float", "double") if name in STOCK_HASHES else types for name, types in BUCKET_TYPES.items()
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
    meaning: str  # for the documentation, in Markdown
    taken_by: tuple[str, ...] = MATERIALIZATIONS
    strategies: tuple[str, ...] = ()  # the incremental strategies that use it; empty for all
    of_dbt: bool = False  # whether dbt itself uses the key, so that only the strategies above validate it
    required: bool = False  # whether the materializations need a value
    default: Any = None
    shown_default: str = ""  # for the documentation
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


def _condition(operation: str, meaning: str, *misspellings: str) -> Key:
    example = f"\"op = '{operation[0].upper()}'\""
    return Key(
        "text", meaning, ("organized_incremental",), ("merge",), pattern=r"\s*\S", expects=_CONDITION, example=example,
        misspellings=misspellings,
    )  # fmt: skip


def _file_count(type_: Type, meaning: str, maximum: int | None, example: str, *misspellings: str) -> Key:
    return Key(type_, meaning, ORGANIZED, minimum=1, maximum=maximum, example=example, misspellings=misspellings)


#: The keys that decide the number of files. A model sets exactly one of them.
FILE_COUNTS: Mapping[str, Key] = {
    "rows_per_file": _file_count(
        "integer", "Number of rows per file. The number of files in a partition is its row count divided by this "
        "number, rounded up.", 10**12, "64",
        "max_rows_per_file", "records_per_file", "max_records_per_file", "maxrecordsperfile", "rows_per_files",
    ),
    "target_file_size": _file_count(
        "size", "Size of a file [on disk](../explanation/file-layout.md#how-a-row-size-is-measured), from which the "
        "run computes the number of rows per file. An integer without a unit is a number of bytes.",
        None, "'256MiB'", "file_size", "max_file_size", "bytes_per_file", "filesize",
    ),
    "num_files": _file_count(
        "integer", "Number of files in the table. Each partition gets a share in proportion to its row count, "
        "but at least one file.", _MOST, "64",
        "files", "number_of_files", "file_count",
    ),
    "files_per_partition": _file_count(
        "integer", "Number of files in each partition.", _MOST, "64", "num_files_per_partition", "files_per_partitions",
    ),
}  # fmt: skip

KEYS: Mapping[str, Key] = {
    "clustered_by": Key(
        "columns", "Bucket columns. See [types](#column-types).", BUCKETED, required=True, example=_COLUMNS,
        misspellings=(
            "cluster_by", "bucket_by", "bucketed_by", "bucket_columns", "bucket_keys", "bucket_key", "bucket_cols",
            "cluster_columns", "cluster_cols", "cluster_key", "cluster_keys",
        ),
    ),
    "buckets": Key(
        "integer", "Number of buckets in each partition, or in an unpartitioned table.", BUCKETED,
        required=True, minimum=1, maximum=_MOST, example="64",
        misspellings=("bucket", "num_buckets", "n_buckets", "bucket_count", "number_of_buckets", "into_buckets"),
    ),
    "sorted_by": Key(
        "columns", "Columns that each file is sorted by, in ascending order. With `[]`, files are not sorted.",
        BUCKETED,
        shown_default="`clustered_by`", example=_COLUMNS,
        misspellings=("sort_by", "order_by", "ordered_by", "sort_columns", "sort_cols", "sort_keys", "sort_key"),
    ),
    "bucket_hash": Key(
        "choice", "`hive` selects the Hive layout with `bucketing_version` 1, `hive2` the Hive layout with version 2, "
        "and `spark` the Spark layout. `hive2` requires the session extension. "
        "See [which layout](../how-to/choose-buckets.md#choose-the-layout).", BUCKETED,
        default="hive", choices=HASHES, misspellings=("hash_function", "bucketing_hash", "bucketing"),
    ),
    "write_tasks": Key(
        "integer", "Number of tasks that write the table.", BUCKETED, shown_default="[see below](#write-tasks)",
        minimum=1, maximum=_MOST, example="64", misspellings=("num_tasks", "num_write_tasks"),
    ),
    **FILE_COUNTS,
    "range_by": Key(
        "columns", "Column that each file is sorted by. A file contains one range of its values, and the ranges in a "
        "partition do not overlap.", ORGANIZED, maximum=1, default=[], example="'event_time'",
        expects="one column; columns with few distinct values belong in implicit_partition_by",
        misspellings=("organized_by", "organize_by", "organised_by", "ranged_by", "zorder_by"),
    ),
    "implicit_partition_by": Key(
        "columns", "Each file contains only one combination of values in these columns. The table has no directories "
        "for these values, and queries see ordinary columns.", ORGANIZED, default=[], example=_COLUMNS,
        misspellings=("split_by", "splitted_by", "implicit_partitions_by"),
    ),
    "range_boundaries_from": Key(
        "text", "Uses the [range boundaries of another table]"
        "(../how-to/control-file-sizes.md#share-range-boundaries-between-tables).", ORGANIZED, pattern=_RELATION,
        expects="the name of a model, or text such as ref('orders') or source('shop', 'orders')",
        example="\"ref('orders')\", with the line -- depends_on: {{ ref('orders') }} in the model",
        misspellings=("bounds_from", "bounds", "intervals_from", "boundaries_from"),
    ),
    "file_strategy": Key(
        "choice", "Strategy that decides which task writes each row. "
        "See [strategies](../explanation/file-layout.md#strategies).", ORGANIZED,
        default="exact", choices=("exact", "coalesce", "repartition", "by_column", "by_column_salted", "by_range"),
        aliases={
            "hash": "by_column", "salted": "by_column_salted", "range": "by_range", "roundrobin": "repartition",
            "round_robin": "repartition", "rebalance": "exact",
        },
        misspellings=("strategy", "files_strategy", "repartition_strategy", "distribution"),
    ),
    "scale_factor": Key(
        "number", "Number of tasks per file, only for the strategy `by_column_salted`.", ORGANIZED,
        shown_default="`1`", minimum=0, maximum=100, example="3", misspellings=("scale", "scaling_factor"),
    ),
    "partition_by": Key(
        "columns", "Partition columns. They cannot be bucket or sort columns.", default=[], example=_COLUMNS,
        misspellings=("partitioned_by", "partition_columns", "partition_cols", "partition_key", "partition_keys"),
    ),
    "file_format": Key(
        "choice", "File format.", default="parquet", choices=("parquet", "orc"), misspellings=("format", "stored_as"),
    ),
    "location_root": Key(
        "text", "Directory below which the run creates an [external table](#external-tables).",
        pattern=r"(?=\s*\S)[^][{}*?]*$",
        expects="a directory without [ ] { } * ?, which Spark reads as glob patterns", example="'s3a://bucket/warehouse'",
        misspellings=("location",),
    ),
    "options": Key(
        "mapping", "Options of the file format, such as `{'compression': 'zstd'}`.", default={}, refused=(_FIXED,),
        example="{'key': 'value'}",
    ),
    "tblproperties": Key(
        "mapping", "Table properties.", default={}, refused=(_RESERVED, _FIXED), example="{'key': 'value'}",
        misspellings=("table_properties",),
    ),
    "on_bucket_change": Key(
        "choice", "What a run does if the bucket spec in the config differs from the table's spec. "
        "See [change buckets](../how-to/change-buckets.md). With `evolve`, Hive's bucket joins can "
        "[lose rows](../explanation/evolution.md#reading).", BUCKETED,
        default="fail", choices=("fail", "rebuild", "evolve"), misspellings=("on_buckets_change", "on_layout_change"),
    ),
    "incremental_strategy": Key(
        "choice", "How a run adds rows to the table. "
        "See [load incrementally](../how-to/load-incrementally.md).", INCREMENTAL,
        default="append", choices=("append", "insert_overwrite", "merge", "microbatch"),
        aliases={
            "delete+insert": "merge", "delete_insert": "merge", "upsert": "merge", "replace_where": "insert_overwrite",
            "overwrite": "insert_overwrite",
        },
    ),
    "unique_key": Key(
        "columns", "Columns that identify a row. Without this key, `merge` appends all rows and logs a warning, as in "
        "dbt.", INCREMENTAL, ("merge",), default=[], lenient=True, example=_COLUMNS,
    ),
    "merge_update_columns": Key("columns", "As in dbt.", INCREMENTAL, ("merge",), default=[], example=_COLUMNS),
    "merge_exclude_columns": Key("columns", "As in dbt.", INCREMENTAL, ("merge",), default=[], example=_COLUMNS),
    "incremental_predicates": Key("any", "As in dbt.", INCREMENTAL, ("merge",), default=[]),
    "on_schema_change": Key(
        "choice", "As in dbt.", INCREMENTAL, default="ignore",
        choices=("ignore", "fail", "append_new_columns", "sync_all_columns"),
    ),
    "event_time": Key("any", "As in dbt.", ("bucketed_incremental",), ("microbatch",), of_dbt=True),
    "batch_size": Key(
        "choice", "As in dbt.", ("bucketed_incremental",), ("microbatch",), of_dbt=True,
        choices=("hour", "day", "month", "year"),
    ),
    "begin": Key(
        "date", "As in dbt.", ("bucketed_incremental",), ("microbatch",), of_dbt=True,
        pattern=f"{_DATE}([ T]{_TIME})?$", expects="an ISO date or time", example="'2024-01-01'",
    ),
    "lookback": Key(
        "integer", "As in dbt.", ("bucketed_incremental",), ("microbatch",), of_dbt=True, default=1, minimum=0,
        maximum=_MOST, example="1",
    ),
    "delete_when": _condition(
        "delete", "Condition for rows that a merge deletes. A full build omits these rows.",
        "deletes_when", "delete_if",
        "delete_condition",
    ),
    "insert_when": _condition(
        "insert", "Condition for rows that must not exist in the table yet.", "inserts_when", "insert_if",
    ),
    "update_when": _condition(
        "update", "Condition for rows that must already exist in the table.", "updates_when", "update_if",
    ),
    "merge_checks": Key(
        "boolean", "Whether a merge compares checksums, and keys with expected changes, before it replaces files.",
        ("organized_incremental",), ("merge",), default=True, example="true", misspellings=("merge_check", "checks"),
    ),
}  # fmt: skip
