"""Write file statistics as text or as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import TextIO

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from spark_bucketing.report.formatting import size
from spark_bucketing.report.output import console_on, grid, write_json
from spark_bucketing.table.file_statistics import FileStats, State
from spark_bucketing.units import count

_MOST_FILES = 50


def write_file_statistics_report(name: str, files: Sequence[FileStats], form: str, file: TextIO) -> None:
    """Write the files of a table with their statistics."""
    if form == "json":
        write_json({"table": name, "files": [asdict(one) for one in files]}, file)
    else:
        print_file_statistics(name, files, console_on(file, soft_wrap=True))


def print_file_statistics(name: str, files: Sequence[FileStats], console: Console) -> None:
    """Print the files of a table with their statistics.

    Files with findings come first.
    """
    console.print(Text(_headline(name, files)))
    shown = sorted(files, key=lambda one: (one.state == State.COVERED and not one.overlaps, one.name))[:_MOST_FILES]
    console.print(_table(shown))
    if len(files) > len(shown):
        console.print(Text(f"and {count(len(files) - len(shown), 'file')} more (--format json shows all)"))


def _headline(name: str, files: Sequence[FileStats]) -> str:
    states = Counter(one.state for one in files)
    rows = sum(one.rows for one in files)
    text = f"{name}: {count(len(files), 'file')}, {count(rows, 'row')}, {size(sum(one.size for one in files))}"
    if states[State.NOT_COVERED]:
        text += f"; {count(states[State.NOT_COVERED], 'file')} without statistics, which every query reads"
    return text


def _table(files: Sequence[FileStats]) -> Table:
    has_implicit_partition = any(one.implicit_partition is not None for one in files)
    has_order = any(one.nulls is not None for one in files)
    columns = [Column("file", overflow="fold"), Column("rows", justify="right"), Column("size", justify="right")]
    columns += [Column("implicit partition")] if has_implicit_partition else []
    columns += [Column("from"), Column("to")] if has_order else []
    rows = []
    for one in files:
        cells = [one.name, f"{one.rows:,}", size(one.size)]
        cells += [one.implicit_partition or ""] if has_implicit_partition else []
        if has_order:
            is_null = one.nulls and one.nulls == one.rows
            cells += ["null", "null"] if is_null else [one.lower or "", one.upper or ""]
        notes = [*([] if one.state == State.COVERED else [one.state]), *(["overlaps"] if one.overlaps else [])]
        rows.append([*cells, ", ".join(notes)])
    return grid([*columns, ""], rows)
