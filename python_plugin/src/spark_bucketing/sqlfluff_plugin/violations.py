"""Find violations of the config schema and of the layout rules, and contradictions between a config and a contract.

The macros apply the same rules when dbt runs a model. The cases in tests/cases/shared/config.yml test both
implementations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from spark_bucketing.config.schema import BUCKET_TYPES, HIVE_TYPES, KEYS, RANGE_TYPES, SPARK_TYPES, base_type
from spark_bucketing.config.validation import Config, validate
from spark_bucketing.config.values import UNKNOWN, Violation, nearest_name

_PARTITIONS = ("array", "map", "struct", "binary", "void")


# A contract may also use other names of types, such as integer. The rules accept names that they do not know.
_KNOWN_TYPES = (*SPARK_TYPES, *RANGE_TYPES, *_PARTITIONS)


def violations(config: Config, columns: Mapping[str, str | None] | None = None) -> Iterator[Violation]:
    """Find all violations in a config.

    Models with other materializations have none.

    Args:
        config: the model's config.
        columns: the types of the columns in the model's contract, by lowercase name; None without a contract.
    """
    values, found = validate(config)
    yield from found
    yield from _order(values)
    if str(config["incremental_strategy"]).lower() == "merge" and values.get("incremental_strategy") == "append":
        yield Violation(
            "incremental_strategy", "merge without `unique_key`, which appends all rows", "a key that identifies a row",
            "add unique_key=['id'], or use incremental_strategy='append'", "merge-without-unique-key",
        )  # fmt: skip
    merges = values.get("incremental_strategy") == "merge"
    for key, names in values.items():
        # The default sort columns are the bucket columns, which need no second message.
        own = isinstance(names, list) and KEYS[key].type == "columns" and config[key] is not None
        if columns and own and (merges or not KEYS[key].strategies):
            yield from _columns(key, names, columns, values)


def _order(values: Mapping[str, Any]) -> Iterator[Violation]:
    by, order = values.get("clustered_by"), values.get("sorted_by")
    # Users set an empty list deliberately.
    if not isinstance(by, list) or not isinstance(order, list) or not by or not order:
        return
    first = {name.lower() for name in by}
    if {name.lower() for name in order[: len(by)]} != first:
        rest = [name for name in order if name.lower() not in first]
        expected = f"the bucket columns first; with another order, joins on {', '.join(by)} sort the rows again"
        yield Violation("sorted_by", str(order), expected, f"sorted_by={[*by, *rest]}", "sort-columns-mismatch")


def _columns(
    key: str, names: list[str], columns: Mapping[str, str | None], values: Mapping[str, Any]
) -> Iterator[Violation]:
    for name in names:
        kind = columns.get(name.lower())
        if name.lower() not in columns:
            expected = f"a column of the model's contract: {', '.join(columns)}"
            near = nearest_name(name, columns)
            yield Violation(key, name, expected, f"`{near}`" if near else "use one of these names")
        elif kind and base_type(kind) in _KNOWN_TYPES:
            yield from _type(key, name, kind, values)


def _type(key: str, name: str, kind: str, values: Mapping[str, Any]) -> Iterator[Violation]:
    base, found = base_type(kind), f"{name} {kind}"
    bucket_hash = values.get("bucket_hash", UNKNOWN)
    if key == "clustered_by":
        types = SPARK_TYPES if bucket_hash is UNKNOWN else BUCKET_TYPES[bucket_hash]
        if base not in types:
            expected = f"a column of type {', '.join(types)}"
            yield Violation(key, found, expected, _cast(name, base), "unsupported-bucket-column")
    elif (key == "partition_by" and base in _PARTITIONS) or (key == "sorted_by" and base == "map"):
        yield Violation(key, found, "a column of a simple type", "choose another column")
    elif key in ("range_by", "implicit_partition_by") and base not in RANGE_TYPES:
        expected = "a column of a numeric, string, date, timestamp or boolean type without a collation"
        yield Violation(key, found, expected, "choose another column, or cast this column in the model")


def _cast(name: str, base: str) -> str:
    if base in ("float", "double"):
        return f"`cast({name} as decimal(38, 9))` in every model that joins on it, or as bigint if it has no fractions"
    if base == "void":
        return f"`cast({name} as bigint)` in the model, or to its type in the tables that the model joins"
    if base in SPARK_TYPES and base not in HIVE_TYPES:
        return f"`cast({name} as string)` in the model, or bucket_hash='spark'"
    return "bucket by another column"
