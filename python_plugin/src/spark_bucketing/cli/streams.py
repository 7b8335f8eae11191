"""Configure standard output for reports."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from typing import TextIO


def standard_output(form: str) -> TextIO:
    """Return the stream for a report: UTF-8, or the terminal's encoding for text; replace unsupported characters."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding=None if form == "text" else "utf-8", errors="replace")
    return sys.stdout
