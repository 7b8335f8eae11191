"""Standard output, on which every report is written."""

from __future__ import annotations

import sys
from io import TextIOWrapper
from typing import TextIO


def standard_output(form: str) -> TextIO:
    """The stream for a report: UTF-8 but for text, which is for people; no character is a reason to fail."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding=None if form == "text" else "utf-8", errors="replace")
    return sys.stdout
