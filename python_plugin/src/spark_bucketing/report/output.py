"""Write reports to a terminal, a pipe or a file, as text or JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TextIO

from jinja2 import Environment, FileSystemLoader
from rich.console import Console

# This width exceeds every line, so that each message stays on one line in a pipe or file.
_UNLIMITED = 1_000_000


def console_on(file: TextIO, plain: bool = False, soft_wrap: bool = False) -> Console:
    """Return a console that uses colors and wraps lines only if the file is a terminal."""
    console = Console(file=file, highlight=False, soft_wrap=soft_wrap)
    if plain or not console.is_terminal:
        console = Console(file=file, highlight=False, width=_UNLIMITED, force_terminal=False if plain else None)
    return console


def pages(*functions: Callable[..., Any]) -> Environment:
    """Return the Jinja environment for HTML pages.

    The templates may call these functions by name.
    """
    here = FileSystemLoader(Path(__file__).parent)
    made = Environment(loader=here, autoescape=True, trim_blocks=True, keep_trailing_newline=True)
    made.globals |= {function.__name__: function for function in functions}
    return made


def write_json(data: dict[str, Any], file: TextIO) -> None:
    """Write data as JSON, followed by a newline."""
    json.dump(data, file, indent=2, ensure_ascii=False)
    file.write("\n")
