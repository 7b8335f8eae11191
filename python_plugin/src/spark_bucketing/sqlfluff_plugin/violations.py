"""Find violations in a bucketed model's config before anything runs.

The macros below macros/bucketing apply the same rules at run time; tests/cases/shared/config_errors.yml tests both.
An unknown value is never a violation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from spark_bucketing.spec import HASH_OF_VERSION, VERSION_PROPERTY
from spark_bucketing.sqlfluff_plugin.config_calls import UNKNOWN
from spark_bucketing.sqlfluff_plugin.config_keys import ORGANIZED, OURS, meant_key, nearest_name

OWN = ("bucketed_table", "bucketed_incremental")
STRATEGIES = ("append", "insert_overwrite", "merge", "microbatch")
_OTHER_STRATEGIES = {
    "delete+insert": "merge",
    "delete_insert": "merge",
    "upsert": "merge",
    "replace_where": "insert_overwrite",
    "overwrite": "insert_overwrite",
}
_CHOICES: Mapping[str, tuple[tuple[str, ...], str]] = {
    "bucket_hash": (("hive", "hive2", "spark"), "hive"),
    "file_format": (("parquet", "orc"), "parquet"),
    "on_bucket_change": (("fail", "rebuild", "evolve"), "fail"),
}
_HIVE_TYPES = ("boolean", "tinyint", "smallint", "int", "bigint", "decimal", "string", "date")
_SPARK_TYPES = (*_HIVE_TYPES, "varchar", "char", "binary", "timestamp", "timestamp_ntz")
_MAX = 100_000


@dataclass(frozen=True)
class Violation:
    """A violation of a rule at a key of the config."""

    rule: str
    key: str  # the key to report at; it may be missing from the config
    text: str
    instead: str | None = None  # the correct key, for a fix


@dataclass(frozen=True)
class OutputColumns:
    """The columns that a query returns, in lower case, with their types where they are certain."""

    types: Mapping[str, str | None]
    complete: bool  # whether the query returns no other columns


class Config:
    """The known part of a model's config."""

    def __init__(self, values: Mapping[str, Any], whole: Callable[[str], bool] = lambda _: True) -> None:
        """Take the values by key, and a predicate: whether a key that is not among them certainly has no value."""
        self.values, self._whole = values, whole

    def __getitem__(self, key: str) -> Any:
        return self.values[key] if key in self.values else None if self._whole(key) else UNKNOWN

    def given(self, key: str) -> Any:
        """Return a known value, or None."""
        value = self[key]
        return None if value is UNKNOWN else value

    def lacks(self, key: str) -> bool:
        """Return whether the key certainly has no value."""
        return self[key] is None

    def names(self, key: str) -> tuple[str, ...] | None:
        """Return the column names of a key; None if they are unknown or invalid."""
        value = self[key]
        names = [value] if isinstance(value, str) else [] if value is None else value
        fine = isinstance(names, (list, tuple)) and all(isinstance(name, str) and name.strip() for name in names)
        return tuple(names) if fine else None

    @property
    def is_ours(self) -> bool:
        """Return whether a materialization of this package builds the model."""
        return self.given("materialized") in OWN


def violations(config: Config, columns: OutputColumns | None = None) -> Iterator[Violation]:
    """Find all violations in a config: only misspelt keys for organized models, none for models of other packages.

    Args:
        config: the model's config.
        columns: the columns that its query returns; None if they are unknown.
    """
    if config.given("materialized") in ("organized_table", "organized_incremental"):
        yield from _misspelt_keys(config, ORGANIZED)
    if not config.is_ours:
        return
    yield from _misspelt_keys(config, OURS)
    yield from _missing(config)
    yield from _wrong_values(config)
    yield from _evolution(config)
    yield from _partition_columns(config)
    yield from _order(config)
    yield from _merge(config)
    if columns:
        yield from _unknown_columns(config, columns)
        yield from _types(config, columns)


def _misspelt_keys(config: Config, keys: Mapping[str, tuple[str, ...]]) -> Iterator[Violation]:
    for key, value in config.values.items():
        if value is not None and (meant := meant_key(key, keys)):
            yield Violation("misspelt-key", key, f"Unknown config key `{key}`; did you mean `{meant}`?", meant)


def _missing(config: Config) -> Iterator[Violation]:
    meant = {meant_key(key) for key in config.values}
    for key, other, example in [("clustered_by", "buckets", "['the_join_key']"), ("buckets", "clustered_by", "64")]:
        empty = config.lacks(key) or (config[key] in ([], (), "") and key == "clustered_by")
        if empty and key not in meant:
            text = f"A bucketed model needs both `clustered_by` and `buckets`, but `{key}` is missing"
            yield Violation("missing-buckets", other, f"{text}. Add {key}={example}, or use materialized='table'.")


def _wrong_values(config: Config) -> Iterator[Violation]:
    for key, least in [("buckets", 1), ("write_tasks", 1), ("lookback", 0)]:
        value = config.given(key)
        if value is None or (isinstance(value, int) and not isinstance(value, bool) and least <= value <= _MAX):
            continue
        number = int(value) if isinstance(value, str) and re.fullmatch(r"\s*\d{1,9}\s*", value) else None
        example = number if number is not None and least <= number <= _MAX else 64 if least else 1
        yield _wrong(key, value, f"an integer from {least} to {_MAX:,}", example)
    choices = {**_CHOICES}
    if config.given("materialized") == "bucketed_incremental":
        choices["incremental_strategy"] = (STRATEGIES, "append")
        schema_changes = ("ignore", "fail", "append_new_columns", "sync_all_columns")
        choices["on_schema_change"] = (schema_changes, "ignore")
    for key, (allowed, default) in choices.items():
        value = config.given(key)
        if value is not None and (not isinstance(value, str) or value.lower() not in allowed):
            aliases = _OTHER_STRATEGIES if key == "incremental_strategy" else {}
            meant = aliases.get(str(value).lower()) or nearest_name(str(value), allowed) or default
            yield _wrong(key, value, f"one of {', '.join(allowed)}", meant)
    yield from _wrong_lists(config)
    yield from _wrong_mappings(config)
    location = config.given("location_root")
    if location is not None and (not isinstance(location, str) or not location.strip()):
        yield _wrong("location_root", location, "a directory", "s3a://bucket/warehouse")
    elif location is not None and re.search(r"[\[\]{}*?]", location):
        yield _wrong(
            "location_root",
            location,
            "a directory without the characters [ ] {} * ?, which Spark reads as a glob pattern",
            None,
        )


def _wrong(key: str, value: object, expected: str, instead: object) -> Violation:
    example = "" if instead is None else f". Use {key}={instead!r}"
    return Violation("invalid-config", key, f"Invalid {key}={value!r}: expected {expected}{example}.")


def _wrong_lists(config: Config) -> Iterator[Violation]:
    keys = ["clustered_by", "sorted_by", "partition_by"]
    if config.given("materialized") == "bucketed_incremental":
        keys += ["merge_update_columns", "merge_exclude_columns"]
    for key in keys:
        if config.given(key) is None:
            continue
        names = config.names(key)
        if names is None:
            yield _wrong(key, config[key], "a column name or a list of column names", ["column_a", "column_b"])
            continue
        lower = [name.lower() for name in names]
        twice = next((name for place, name in enumerate(names) if name.lower() in lower[:place]), None)
        if twice:
            yield _wrong(key, list(names), f"each column once, but found {twice!r} twice", None)


def _wrong_mappings(config: Config) -> Iterator[Violation]:
    for key in ("tblproperties", "options"):
        value = config.given(key)
        if value is None:
            continue
        if not isinstance(value, Mapping):
            yield _wrong(key, value, "a mapping of keys to values", {"key": "value"})
            continue
        for name, entry in value.items():
            if not isinstance(name, str) or not isinstance(entry, (str, int, float)):
                yield _wrong(key, {name: entry}, "a mapping of strings to strings, numbers or booleans", None)
            elif name.lower() in ("maxrecordsperfile", "partitionoverwritemode", "path"):
                yield _wrong(
                    key, {name: entry}, "no key that changes where files are written or how many there are", None
                )
            elif key == "tblproperties" and name == VERSION_PROPERTY and str(entry) != _version(config):
                yield _wrong(key, {name: entry}, "the version of `bucket_hash`: 1 for hive, 2 for hive2", None)
            elif key == "tblproperties" and name.startswith("bucketing."):
                yield _wrong(
                    key, {name: entry}, "no key with the prefix 'bucketing.', which this package reserves", None
                )


def _version(config: Config) -> str:
    """Return the bucketing version of a model's hash; models of the Spark layout may state 1."""
    return next((v for v, name in HASH_OF_VERSION.items() if name == str(config.given("bucket_hash")).lower()), "1")


def _evolution(config: Config) -> Iterator[Violation]:
    if str(config.given("on_bucket_change")).lower() != "evolve":
        return
    if config.given("materialized") != "bucketed_incremental":
        yield _evolves(f"materialized={config['materialized']!r}", "materialized='bucketed_incremental'")
    elif str(config.given("bucket_hash") or "hive").lower() == "spark":
        yield _evolves("the Spark layout", "bucket_hash='hive', or on_bucket_change='rebuild'")
    elif config.lacks("partition_by") or config["partition_by"] in ([], ()):
        yield _evolves("a table without partitions", "partition_by=['the_day'], or on_bucket_change='rebuild'")


def _evolves(what: str, instead: str) -> Violation:
    text = f"on_bucket_change='evolve' does not support {what}. Use {instead}."
    return Violation("invalid-config", "on_bucket_change", text)


def _partition_columns(config: Config) -> Iterator[Violation]:
    partitions = {name.lower() for name in config.names("partition_by") or ()}
    for key in ("clustered_by", "sorted_by"):
        for name in config.names(key) or ():
            if name.lower() in partitions:
                text = f"{name!r} in `{key}` is a partition column, which the files do not contain"
                instead = f"Remove it from `{key}` or from `partition_by`."
                yield Violation("partition-column-in-buckets", key, f"{text}: {instead}")


def _order(config: Config) -> Iterator[Violation]:
    by, order = config.names("clustered_by"), config.names("sorted_by")
    # An empty list is a deliberate choice.
    if not by or not order or config.lacks("sorted_by"):
        return
    first = {name.lower() for name in order[: len(by)]}
    if first != {name.lower() for name in by}:
        rest = [name for name in order if name.lower() not in {one.lower() for one in by}]
        text = f"Joins on {', '.join(by)} need another sort, because the files are sorted by {', '.join(order)}"
        yield Violation("sort-columns-mismatch", "sorted_by", f"{text}. Use sorted_by={[*by, *rest]!r}.")


def _merge(config: Config) -> Iterator[Violation]:
    if config.given("materialized") != "bucketed_incremental":
        return
    strategy = config.given("incremental_strategy")
    if str(strategy).lower() == "merge" and (config.lacks("unique_key") or config["unique_key"] in ([], "")):
        text = (
            "A merge without `unique_key` appends all rows. Add unique_key=['id'], or use "
            "incremental_strategy='append'."
        )
        yield Violation("merge-without-unique-key", "incremental_strategy", text)
    elif (
        str(strategy).lower() == "merge"
        and config.given("merge_update_columns")
        and config.given("merge_exclude_columns")
    ):
        text = "`merge_update_columns` and `merge_exclude_columns` exclude each other. Remove one of them."
        yield Violation("invalid-config", "merge_update_columns", text)
    if str(strategy).lower() == "microbatch":
        examples = {
            "partition_by": "['the_day']",
            "event_time": "'the_day'",
            "batch_size": "'day'",
            "begin": "'2024-01-01'",
        }
        for key, example in examples.items():
            if config.lacks(key):
                text = f"incremental_strategy='microbatch' requires `{key}`. Add {key}={example}."
                yield Violation("invalid-config", "incremental_strategy", text)


def _unknown_columns(config: Config, columns: OutputColumns) -> Iterator[Violation]:
    if not columns.complete:
        return
    keys = ["clustered_by", "sorted_by", "partition_by"]
    if str(config.given("incremental_strategy")).lower() == "merge":
        keys += ["unique_key", "merge_update_columns", "merge_exclude_columns"]
    for key in keys:
        for name in config.names(key) or ():
            if name.lower() not in columns.types:
                text = (
                    f"The query does not return the column {name!r} of `{key}`; it returns {', '.join(columns.types)}."
                )
                yield Violation("invalid-config", key, text)


def _types(config: Config, columns: OutputColumns) -> Iterator[Violation]:
    hive = str(config.given("bucket_hash") or "hive").lower() != "spark"
    if config["bucket_hash"] is UNKNOWN:
        hive = False
    for name in config.names("clustered_by") or ():
        kind = columns.types.get(name.lower())
        violation = _bucket_type(name, kind, hive=hive) if kind else None
        if violation:
            yield Violation("unsupported-bucket-column", "clustered_by", violation)
    for key, refused in [("partition_by", ("array", "map", "struct", "binary", "void")), ("sorted_by", ("map",))]:
        for name in config.names(key) or ():
            kind = columns.types.get(name.lower())
            if kind and base_type(kind) in refused:
                what = "sorted" if key == "sorted_by" else "partitioned"
                text = f"A table cannot be {what} by {name}, which is {kind}. Choose another column."
                yield Violation("invalid-config", key, text)


def _bucket_type(name: str, kind: str, *, hive: bool) -> str | None:
    base = base_type(kind)
    if base in (_HIVE_TYPES if hive else _SPARK_TYPES):
        return None
    if base in ("float", "double"):
        return f"Spark does not read buckets of {name}, which is {kind}. Use cast({name} as decimal(38, 9)) or bigint."
    if base == "void":
        return (
            f"{name} is a bare null, which has no type. Use cast({name} as bigint), or the type it has in other models."
        )
    if hive and base in _SPARK_TYPES:
        text = f"{name} is {kind}, which Hive and Spark hash differently"
        return f"{text}. Use cast({name} as string), or bucket_hash='spark'."
    return f"{name} is {kind}, which cannot be hashed. Bucket by another column."


def base_type(kind: str) -> str:
    """Return a type without its parameters."""
    return re.split(r"[(<]", kind.lower())[0].strip()
