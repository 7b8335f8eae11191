"""Write the results of the `map` commands as text and JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TextIO

from rich import box
from rich.table import Table
from rich.text import Text

from spark_bucketing.organize.file_statistics import FileStats, State
from spark_bucketing.report.formatting import count, size
from spark_bucketing.report.output import console_on, write_json

_MOST_FILES = 50


def write_file_statistics_report(
    name: str, files: Sequence[FileStats], form: str, file: TextIO, *, verified: bool = False
) -> None:
    """Write the file statistics of a table, and whether they match the files.

    Args:
        name: name of the table.
        files: the existing files.
        form: text or json.
        file: output file.
        verified: whether rows were read to verify the statistics.
    """
    if form == "json":
        write_json({"table": name, "verified": verified, "files": [asdict(one) for one in files]}, file)
        return
    console = console_on(file, soft_wrap=True)
    console.print(Text(_headline(name, files, verified)))
    # Show files with errors first.
    shown = sorted(files, key=lambda one: (one.state == State.MAPPED and not one.overlaps, one.name))[:_MOST_FILES]
    console.print(_table(shown))
    if len(files) > len(shown):
        console.print(Text(f"and {count(len(files) - len(shown), 'file')} more (--format json shows all)"))


def _headline(name: str, files: Sequence[FileStats], verified: bool) -> str:
    states = Counter(one.state for one in files)
    rows = sum(one.rows for one in files)
    text = f"{name}: {count(len(files), 'file')}, {count(rows, 'row')}, {size(sum(one.size for one in files))}"
    if states[State.NOT_MAPPED]:
        text += f"; {count(states[State.NOT_MAPPED], 'file')} without file statistics, which every query reads"
    if states[State.WRONG]:
        text += (
            f"; wrong file statistics for {count(states[State.WRONG], 'file')}: run spark-bucketing map repair {name}"
        )
    if overlapping := sum(one.overlaps for one in files):
        text += f"; {count(overlapping, 'file')} overlapping others"
    return text + ("; all file statistics are correct" if verified and set(states) <= {State.MAPPED} else "")


def _table(files: Sequence[FileStats]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    has_implicit_partition = any(one.implicit_partition is not None for one in files)
    has_order = any(one.nulls is not None for one in files)
    table.add_column("file", overflow="fold")
    for title in ("rows", "size"):
        table.add_column(title, justify="right")
    for title in (*(["implicit partition"] if has_implicit_partition else []), *(["from", "to"] if has_order else [])):
        table.add_column(title)
    table.add_column("")
    for one in files:
        order = ["" if value is None else value for value in (one.lower, one.upper)]
        if one.nulls and one.nulls == one.rows:
            order = ["null", "null"]
        notes = [*([] if one.state == State.MAPPED else [one.state]), *(["overlaps"] if one.overlaps else [])]
        implicit_partition = [one.implicit_partition or ""] if has_implicit_partition else []
        table.add_row(
            one.name,
            f"{one.rows:,}",
            size(one.size),
            *implicit_partition,
            *(order if has_order else []),
            ", ".join(notes),
        )
    return table
