"""Write the layouts of tables as a text table followed by the problems, or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TextIO

from rich import box
from rich.table import Table
from rich.text import Text

from spark_bucketing.layout.table import SpecFiles, TableLayout
from spark_bucketing.report.formatting import size, spec_data
from spark_bucketing.report.output import console_on, write_json

_WIDEST = 100_000
_STYLES = {"ok": "green", "wrong": "red", "unknown": "yellow"}
_WORDS = ("table", "layout", "format", "bucket columns", "sort columns")
_NUMBERS = ("buckets", "partitions", "files", "smallest", "median", "largest", "total", "rows", "skew")
_TITLES = (*_WORDS, *_NUMBERS, "state")


def write_layouts(schema: str, layouts: Sequence[TableLayout], form: str, file: TextIO) -> None:
    """Write the layout of each table."""
    if form == "json":
        write_json({"schema": schema, "tables": list(map(_data, layouts))}, file)
    elif layouts:
        _write_text(layouts, file)
    else:
        file.write(f"Schema {schema} has no bucketed tables.\n")


def _write_text(layouts: Sequence[TableLayout], file: TextIO) -> None:
    console = console_on(file)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title in _TITLES:
        table.add_column(title, justify="right" if title in _NUMBERS else "left")
    for layout in layouts:
        table.add_row(*_cells(layout))
    if console.measure(table, options=console.options.update(max_width=_WIDEST)).maximum <= console.width:
        console.print(table)
    else:
        for layout in layouts:
            console.print(_record(layout))
    for layout in layouts:
        for message in (layout.unreadable,) if layout.unreadable else layout.findings:
            console.print(Text.assemble((layout.name, _STYLES[layout.state]), ": ", message))


def _record(layout: TableLayout) -> Table:
    """Write one line per column if the terminal is too narrow for the table."""
    record = Table.grid(padding=(0, 2))
    for title, cell in zip(_TITLES, _cells(layout), strict=True):
        record.add_row(Text(title, "bold"), cell)
    record.add_row()
    return record


def _cells(layout: TableLayout) -> list[Text]:
    spec, sizes = layout.spec, layout.sizes
    known = layout.state != "unknown"
    numbers = sorted({part.spec.num_buckets for part in layout.by_spec})
    texts = [
        layout.name,
        spec.bucket_hash,
        layout.file_format,
        ", ".join(spec.bucket_columns),
        ", ".join(spec.sort_columns) or "-",
        ", ".join(f"{number:,}" for number in numbers),
        f"{layout.partitions:,}" if layout.partitioned and known else "-",
        f"{len(layout.files):,}" if known else "-",
        *(map(size, sizes) if sizes else "----"),
        f"{layout.rows:,}" if known else "-",
        "-" if layout.skew is None else f"{layout.skew:.2f}",
    ]
    return [*map(Text, texts), Text(layout.state, _STYLES[layout.state])]


def _data(layout: TableLayout) -> dict[str, Any]:
    known, sizes = layout.state != "unknown", layout.sizes
    return {
        "table": layout.name,
        "state": layout.state,
        "spec": spec_data(layout.spec),
        "format": layout.file_format,
        "partitions": layout.partitions if layout.partitioned and known else None,
        "files": len(layout.files) if known else None,
        "bytes": sizes._asdict() if sizes else None,
        "rows": layout.rows if known else None,
        "skew": layout.skew,
        "by_spec": [_spec_files(layout, part) for part in layout.by_spec] if known else [],
        "findings": list(layout.findings),
        "unreadable": layout.unreadable or None,
    }


def _spec_files(layout: TableLayout, part: SpecFiles) -> dict[str, Any]:
    return {
        "spec": spec_data(part.spec),
        "partitions": len(part.folders) if layout.partitioned else None,
        "files": len(part.files),
        "rows": part.rows,
        "skew": part.skew,
    }
