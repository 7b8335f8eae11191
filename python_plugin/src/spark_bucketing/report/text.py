"""Text for people: a table, then what is wrong in whole sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from spark_bucketing.layout.table import TableLayout

_STYLES = {"ok": "green", "wrong": "red", "unknown": "yellow"}
_LEFT = ("table", "layout", "format", "bucket columns", "sort columns")
_RIGHT = ("buckets", "partitions", "files", "rows", "skew")
# Wider than any table: a pipe or a file gets one line for each table.
_UNLIMITED = 10_000


def write_layouts(layouts: Sequence[TableLayout], file: TextIO) -> None:
    """Write one line for each table and one for each finding; colours only where a terminal wants them."""
    console = Console(file=file, highlight=False)
    if not console.is_terminal:
        console = Console(file=file, highlight=False, width=_UNLIMITED)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title in _LEFT:
        table.add_column(title, overflow="fold")
    for title in _RIGHT:
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("state", no_wrap=True)
    for layout in layouts:
        table.add_row(*_cells(layout), Text(layout.state, _STYLES[layout.state]))
    console.print(table)
    for layout in layouts:
        for message in (layout.unreadable,) if layout.unreadable else layout.findings:
            console.print(Text.assemble((layout.name, _STYLES[layout.state]), ": ", message))


def _cells(layout: TableLayout) -> list[Text]:
    spec = layout.spec
    known = layout.state != "unknown"
    texts = [
        layout.name,
        spec.bucket_hash,
        layout.file_format,
        ", ".join(spec.bucket_columns),
        ", ".join(spec.sort_columns) or "-",
        f"{spec.num_buckets:,}",
        f"{layout.partitions:,}" if layout.partitioned and known else "-",
        f"{len(layout.files):,}" if known else "-",
        f"{layout.rows:,}" if known else "-",
        "-" if layout.skew is None else f"{layout.skew:.2f}",
    ]
    return [Text(text) for text in texts]
