"""Where reports go: a terminal, a pipe or a file, as text or JSON."""

from __future__ import annotations

import json
from typing import Any, TextIO

from rich.console import Console

# Wider than any line: a pipe or a file gets each message on a line of its own.
_UNLIMITED = 1_000_000


def console_on(file: TextIO, plain: bool = False, soft_wrap: bool = False) -> Console:
    """A console; colours and wrapped lines only where a terminal wants them."""
    console = Console(file=file, highlight=False, soft_wrap=soft_wrap)
    if plain or not console.is_terminal:
        console = Console(file=file, highlight=False, width=_UNLIMITED, force_terminal=False if plain else None)
    return console


def write_json(data: dict[str, Any], file: TextIO) -> None:
    """Write data, and a line feed."""
    json.dump(data, file, indent=2, ensure_ascii=False)
    file.write("\n")
