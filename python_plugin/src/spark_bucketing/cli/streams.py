"""Configure standard output for reports."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from typing import TextIO


def standard_output(form: str) -> TextIO:
    """Return standard output in UTF-8, or in the terminal's encoding for text, with unsupported characters replaced."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding=None if form == "text" else "utf-8", errors="replace")
    return sys.stdout
