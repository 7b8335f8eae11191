"""Run SQL over a connection of any kind, change a session's settings with SQL, and format names and values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from spark_bucketing.tables.metadata import Column

Rows = Callable[[str], list[dict[str, Any]]]
"""Runs a SQL statement, and returns its rows as dictionaries by column name."""


class Statements(Protocol):
    """Runs SQL statements, over a connection of any kind."""

    kind: str  # for reports

    def rows(self, statement: str) -> list[dict[str, Any]]:
        """Run a statement, and return its rows as dictionaries by column name."""

    def close(self) -> None:
        """Close the connection."""


def settings_of(rows: Rows) -> dict[str, str]:
    """Return the settings that are set explicitly in a session."""
    return {str(row["key"]): str(row["value"]) for row in rows("set")}


@contextmanager
def with_settings(rows: Rows, settings: Mapping[str, str] | None = None) -> Iterator[None]:
    """Apply settings inside the block, and restore them at its end. With None, restore all that it changed."""
    before = settings_of(rows)
    try:
        for key, value in (settings or {}).items():
            rows(f"set {key} = {value}")
        yield
    finally:
        for key, value in settings_of(rows).items():
            if value != before.get(key) and (settings is None or key in settings):
                rows(f"set {key} = {before[key]}" if key in before else f"reset {key}")


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
