"""Format names and values as Spark SQL."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_bucketing.tables.metadata import Column

_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")
# Columns of bucket_specs(). Arrays are converted to text, because some connections return them as text.
SPEC_COLUMNS = (
    "partition", "location", "status", "num_buckets", "bucket_columns", "sort_columns", "hash", "files",
    "bytes", "max_files_per_bucket", "problem",
)  # fmt: skip


def name(text: str) -> str:
    """Quote a name with backticks."""
    return "`" + text.replace("`", "``") + "`"


def readable_name(identifier: str) -> str:
    """Format an identifier for a message. The identifier is quoted only if necessary."""
    return identifier if identifier.isascii() and identifier.isidentifier() else name(identifier)


def table(text: str) -> str:
    """Quote a qualified name such as db.t. The parts of the name may already be quoted."""
    return ".".join(map(name, parts(text)))


def parts(text: str) -> tuple[str, ...]:
    """Split a qualified name into its parts, without quotes."""
    return tuple((quoted or plain).replace("``", "`") for quoted, plain in _PART.findall(text))


def text(value: str) -> str:
    """Return a string literal. Quotes in it are escaped, and Spark does not substitute ${variables} in it."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024") + "'"


def properties(values: Mapping[str, str]) -> str:
    """Return properties as a list in parentheses."""
    return f"({', '.join(f'{text(key)} = {text(value)}' for key, value in values.items())})"


def bucket_specs(table_name: str) -> str:
    """Return a query for the SPEC_COLUMNS of all partitions of a table."""
    columns = (f"to_json({name}) as {name}" if name.endswith("_columns") else name for name in SPEC_COLUMNS)
    return f"select {', '.join(columns)} from bucket_specs({text(table(table_name))})"  # noqa: S608


def literal(value: str, column: Column) -> str:
    """Return the SQL literal for a value of a partition column."""
    kind = column.type.lower()
    if kind == "date":
        return f"date {text(value)}"
    if column.is_number and re.fullmatch(r"-?\d+(\.\d+)?", value):
        return value
    return text(value) if kind == "string" else f"cast({text(value)} as {column.type})"
