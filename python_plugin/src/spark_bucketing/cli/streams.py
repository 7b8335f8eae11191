"""Configure standard output for reports."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from typing import TextIO


def standard_output(form: str) -> TextIO:
    """Return standard output with an encoding that suits the report format.

    The encoding is UTF-8, or the terminal's own encoding for text. Characters that it does not support are replaced.
    """
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding=None if form == "text" else "utf-8", errors="replace")
    return sys.stdout
