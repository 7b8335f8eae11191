"""Format reports, and write them to a terminal, a pipe or a file, as text, JSON or HTML."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, TextIO

from jinja2 import Environment, FileSystemLoader, Template, select_autoescape
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Column, Table
from rich.text import Text

STATE_STYLES = {"ok": "green", "wrong": "red", "unknown": "yellow"}
# This width exceeds every line, so that each message stays on one line in a pipe or file.
_UNLIMITED = 1_000_000


def console_on(file: TextIO, plain: bool = False) -> Console:
    """Return a console that uses colors and wraps lines only if the file is a terminal."""
    console = Console(file=file, highlight=False)
    if plain or not console.is_terminal:
        console = Console(file=file, highlight=False, width=_UNLIMITED, force_terminal=False if plain else None)
    return console


def grid(columns: Iterable[Column | str], rows: Iterable[Iterable[str | Text]]) -> Table:
    """Return a grid with a line below the titles of its columns."""
    table = Table(*columns, box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for cells in rows:
        table.add_row(*cells)
    return table


def fits(console: Console, table: Table) -> bool:
    """Return whether the console is wide enough for a table, so that no cell is wrapped."""
    return console.measure(table, options=console.options.update(max_width=_UNLIMITED)).maximum <= console.width


def print_rows(
    console: Console, titles: Sequence[str], rows: Sequence[Sequence[str | Text]], right: Collection[str]
) -> None:
    """Print a grid, or one line per cell if it is too wide, because rich would break words."""
    table = grid([Column(title, justify="right" if title in right else "left") for title in titles], rows)
    if fits(console, table):
        console.print(table)
        return
    for cells in rows:
        record = Table.grid(Column(no_wrap=True), Column(overflow="fold"), padding=(0, 2))
        for title, cell in zip(titles, cells, strict=True):
            record.add_row(Text(title, "bold"), cell)
        record.add_row()
        console.print(record)


def template_beside(
    module: str, name: str, *functions: Callable[..., Any], finalize: Callable[[Any], str] | None = None
) -> Template:
    """Return the template of a report beside a module, which may call these functions, also as filters."""
    made = Environment(
        # All pages extend page.html, which is beside this module.
        loader=FileSystemLoader([Path(module).parent, Path(__file__).parent]),
        autoescape=select_autoescape(["html"]),
        trim_blocks=True,
        keep_trailing_newline=True,
        finalize=finalize,
    )
    for function in functions:
        made.globals[function.__name__] = made.filters[function.__name__] = function
    return made.get_template(name)


class _Marked(str):
    """Text with the markup of rich."""


def style(text: object, name: str) -> _Marked:
    """Return text with the markup for a style."""
    return _Marked(f"[{name}]{escape(str(text))}[/]")


def _unmarked(value: object) -> str:
    return value if isinstance(value, _Marked) else escape(str(value))


def print_template(console: Console, module: str, name: str, *functions: Callable[..., Any], **values: Any) -> None:
    """Print what a template beside a module renders. Wrapped lines keep their indentation."""
    template = template_beside(module, name, style, *functions, finalize=_unmarked)
    for line in template.render(**values).removesuffix("\n").split("\n"):
        text = Text.from_markup(line.lstrip(" "), emoji=False)
        indent = len(line) - len(line.lstrip(" "))
        # Padding would fill the lines up to the unlimited width of a pipe.
        is_padded = indent and console.is_terminal
        console.print(Padding(text, (0, 0, 0, indent)) if is_padded else Text(" " * indent).append_text(text))


def json_data(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass, except internal ones, which also its repr() omits."""
    return {one.name: getattr(value, one.name) for one in fields(value) if one.repr}


def write_json(data: dict[str, Any], file: TextIO) -> None:
    """Write data, which may contain dataclasses, as JSON, followed by a newline."""
    json.dump(data, file, indent=2, ensure_ascii=False, default=json_data)
    file.write("\n")


def one_line(text: str) -> str:
    """Return a text without its line breaks."""
    return re.sub(r"\s+", " ", text).strip()
