"""Write reports to strings."""

from __future__ import annotations

from collections.abc import Callable
from io import StringIO
from typing import TextIO, TypeVar

_Report = TypeVar("_Report")


def written(write: Callable[[_Report, TextIO], None], report: _Report) -> str:
    """Return what a function writes about a report."""
    file = StringIO()
    write(report, file)
    return file.getvalue()
