"""The commands of evolution in text and JSON."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from spark_bucketing.evolution.model import Partition, RecordState, Table, words
from spark_bucketing.evolution.reading import Merging, Read, Run, describe, read_together, readable_ranges, runs, span
from spark_bucketing.evolution.rewrite import Plan, total
from spark_bucketing.evolution.seal import REFUSED, SEALED, Sealed
from spark_bucketing.report.words import count, size
from spark_bucketing.spec import BucketSpec

# Wider than any line: a pipe or a file gets one line for each range.
_UNLIMITED = 10_000


def write_specs(table: Table, merging: Merging, form: str, file: TextIO) -> None:
    """Write the specs over the partitions, and which of them can be read together."""
    found = runs(table)
    if form == "json":
        json.dump(_specs_as_data(table, found, merging), file, indent=2)
        file.write("\n")
        return
    console = _console(file)
    console.print(Text(f"{table.name}: {words(table.spec)}, {count(len(table.partitions), 'partition')}"))
    if not table.partitions:
        return
    _print_grid(console, ((run.name, count(len(run.partitions), "partition"), _what(run)) for run in found))
    together = read_together(found, merging)
    console.print(Text(f"\nRead as bucketed:\n  all partitions together: {_how(together)}"))
    if together.buckets is None:
        ranges = readable_ranges(found, merging)
        _print_grid(console, ((span(r.partitions), count(len(r.partitions), "partition"), _how(r)) for r in ranges))


def _what(run: Run) -> str:
    first = run.partitions[0]
    if first.state in (RecordState.BUCKETED, RecordState.EMPTY):
        most = max(partition.files_per_bucket or 0 for partition in run.partitions)
        several = f", up to {most:,} files of a bucket" if most > 1 else ""
        return "empty" if first.state == RecordState.EMPTY else f"{describe(run.claim)}{several}"
    return f"[{first.state}]{f' {first.problem}' if first.problem else ''}"


def _how(read: Read) -> str:
    if read.buckets is None:
        return f"no, {read.why}"
    return f"as {count(read.buckets, 'bucket')} by ({', '.join(read.columns)})"


def _specs_as_data(table: Table, found: Sequence[Run], merging: Merging) -> dict[str, Any]:
    together = read_together(found, merging) if found else None
    return {
        "table": table.name,
        "spec": _as_data(table.spec),
        "ranges": [
            {
                **_range(run.partitions),
                "status": run.partitions[0].state,
                "spec": _as_data(run.partitions[0].spec),
                "problem": run.partitions[0].problem or None,
                "files": sum(partition.files for partition in run.partitions),
                "bytes": total(run.partitions),
                "max_files_per_bucket": max((part.files_per_bucket or 0 for part in run.partitions), default=0),
            }
            for run in found
        ],
        "all_partitions": _read_as_data(together) if together else None,
        "readable": [_read_as_data(read) for read in readable_ranges(found, merging)],
    }


def _range(partitions: Sequence[Any]) -> dict[str, Any]:
    return {"first": partitions[0].name, "last": partitions[-1].name, "partitions": len(partitions)}


def _read_as_data(read: Read) -> dict[str, Any]:
    columns = list(read.columns) if read.buckets else None
    return {**_range(read.partitions), "num_buckets": read.buckets, "bucket_columns": columns, "why": read.why or None}


def _as_data(spec: BucketSpec | None) -> dict[str, Any] | None:
    if spec is None:
        return None
    columns, sorts = list(spec.bucket_columns), list(spec.sort_columns)
    return {"num_buckets": spec.num_buckets, "bucket_columns": columns, "sort_columns": sorts, "hash": spec.bucket_hash}


def write_sealed(table: str, found: Sequence[Sealed], dry_run: bool, form: str, file: TextIO) -> None:
    """Write which partitions are, or would be, sealed, and what is wrong with the others."""
    if form == "json":
        json.dump({"table": table, "dry_run": dry_run, "partitions": list(map(_sealed_as_data, found))}, file, indent=2)
        file.write("\n")
        return
    console = _console(file)
    for item in found:
        where = item.partition or table
        if item.status == REFUSED:
            console.print(Text.assemble((where, "red"), f": found {item.problem}"))
        elif item.status == SEALED or item.problem:
            weaker = f" ({item.problem})" if item.problem else ""
            spec = f"{words(item.spec)}, {count(item.files, 'file')}, {size(item.size)}{weaker}"
            console.print(Text.assemble((where, "bold"), f": {'would be ' if dry_run else ''}{item.status}, {spec}"))
    numbers = Counter(item.status for item in found)
    told = ", ".join(f"{numbers[status]:,} {status}" for status in dict.fromkeys(item.status for item in found))
    read = count(sum(item.files_read for item in found), "file")
    console.print(Text(f"{table}: {told or 'nothing matches'}; the keys of {read} were read."))


def _sealed_as_data(item: Sealed) -> dict[str, Any]:
    return {
        "partition": item.partition,
        "status": item.status,
        "spec": _as_data(item.spec),
        "files": item.files,
        "bytes": item.size,
        "files_read": item.files_read,
        "problem": item.problem or None,
    }


def write_plan(plan: Plan, file: TextIO) -> None:
    """Write what a rewrite does: partitions, files and bytes."""
    console = _console(file)
    for part in plan.done:
        has = "has no files" if part.state == RecordState.EMPTY else "has the table's spec already"
        console.print(Text(f"{part.name}: {has}"))
    for part in plan.todo:
        files = f"{count(part.files, 'file')}, {size(part.size)}"
        console.print(Text.assemble((part.name, "bold"), f": {files}: write anew, {_why(part)}"))
    for part, obstacle in plan.left:
        console.print(Text.assemble((part.name, "red"), f": left as it is, {obstacle}"))
    written = count(sum(part.files for part in plan.todo), "file")
    console.print(
        Text(
            f"{plan.table.name}: {count(len(plan.todo), 'partition')} to be brought to {words(plan.table.spec)}, "
            f"{written} and {size(total(plan.todo))} to be written anew."
        )
    )


def _why(part: Partition) -> str:
    if part.spec is None:
        return f"[{part.state}]{f' {part.problem}' if part.problem else ''}"
    most = part.files_per_bucket or 0
    return f"{words(part.spec)}{f', up to {most:,} files of a bucket' if most > 1 else ''}"


def _print_grid(console: Console, lines: Iterator[tuple[str, str, str]]) -> None:
    grid = Grid(box=box.SIMPLE, show_header=False, show_edge=False, pad_edge=True, padding=(0, 2))
    for justify in ("left", "right", "left"):
        grid.add_column(justify=justify, overflow="fold")
    for line in lines:
        grid.add_row(*map(Text, line))
    console.print(grid)


def _console(file: TextIO) -> Console:
    console = Console(file=file, highlight=False, soft_wrap=True)
    return console if console.is_terminal else Console(file=file, highlight=False, width=_UNLIMITED)
