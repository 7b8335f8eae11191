"""Names, values and partitions in Spark's SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from spark_bucketing.table.model import Column, Partition

_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")
# Columns of bucket_specs(). Arrays are text over some connections, and so they are over all.
SPEC_COLUMNS = (
    "partition", "location", "status", "num_buckets", "bucket_columns", "sort_columns", "files", "bytes",
    "max_files_per_bucket", "problem",
)  # fmt: skip


def name(text: str) -> str:
    """A name in back quotes."""
    return "`" + text.replace("`", "``") + "`"


def names(columns: Sequence[Column]) -> str:
    """Names of columns in a list."""
    return ", ".join(name(column.name) for column in columns)


def readable_name(identifier: str) -> str:
    """An identifier for people to read and copy, in quotes only where it needs them."""
    return identifier if identifier.isascii() and identifier.isidentifier() else name(identifier)


def table(text: str) -> str:
    """A qualified name, db.t, whose parts may be quoted."""
    return ".".join(map(name, parts(text)))


def parts(text: str) -> tuple[str, ...]:
    """The parts of a qualified name without their quotes."""
    return tuple((quoted or plain).replace("``", "`") for quoted, plain in _PART.findall(text))


def text(value: str) -> str:
    """A string literal, which neither its quotes nor Spark's ${variables} end or change."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024") + "'"


def properties(values: Mapping[str, str]) -> str:
    """Properties in brackets."""
    return f"({', '.join(f'{text(key)} = {text(value)}' for key, value in values.items())})"


def bucket_specs(table_name: str) -> str:
    """A query for what the metastore and the files say of all partitions of a table: SPEC_COLUMNS."""
    columns = (f"to_json({name}) as {name}" if name.endswith("_columns") else name for name in SPEC_COLUMNS)
    return f"select {', '.join(columns)} from bucket_specs({text(table(table_name))})"  # noqa: S608


def literal(value: str, column: Column) -> str:
    """A value of a partition column."""
    kind = column.type.lower()
    if kind == "date":
        return f"date {text(value)}"
    if column.is_number and re.fullmatch(r"-?\d+(\.\d+)?", value):
        return value
    return text(value) if kind == "string" else f"cast({text(value)} as {column.type})"


def partition_spec(columns: Sequence[Column], partition: Partition) -> str:
    """PARTITION (ds = 'x', hour = '3'): Spark casts the text as it does for the folder's name."""
    pairs = zip(columns, partition.values, strict=True)
    given = ", ".join(f"{name(column.name)} = {'null' if value is None else text(value)}" for column, value in pairs)
    return f"partition ({given})"
