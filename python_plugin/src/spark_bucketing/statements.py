"""Run SQL over a connection of any kind, and change a session's settings with SQL."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, Protocol

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
def with_settings(rows: Rows, settings: Mapping[str, str] = MappingProxyType({})) -> Iterator[None]:
    """Apply settings inside the block. At its end, restore the settings that it changed, also in other ways."""
    before = settings_of(rows)
    try:
        for key, value in settings.items():
            rows(f"set {key} = {value}")
        yield
    finally:
        for key, value in settings_of(rows).items():
            if value != before.get(key):
                rows(f"set {key} = {before[key]}" if key in before else f"reset {key}")
