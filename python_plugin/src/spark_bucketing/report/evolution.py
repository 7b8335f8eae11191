"""The commands of evolution in text and JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from spark_bucketing.evolution.model import RecordState, Table, words
from spark_bucketing.evolution.reading import Merging, Read, Run, describe, read_together, readable_ranges, runs, span
from spark_bucketing.evolution.repair import Change, marks_evolved
from spark_bucketing.evolution.rewrite import Plan
from spark_bucketing.evolution.unfinished import Unfinished
from spark_bucketing.evolution.verify import Finding
from spark_bucketing.evolution.warehouse import total
from spark_bucketing.report.words import count, size
from spark_bucketing.spec import BucketSpec

# Wider than any line: a pipe or a file gets one line for each range.
_UNLIMITED = 10_000


def write_specs(table: Table, merging: Merging, unfinished: Unfinished | None, form: str, file: TextIO) -> None:
    """Write the specs over the partitions, which of them can be read together, and which one is being rewritten."""
    found = runs(table)
    if form == "json":
        data = {**_specs_as_data(table, found, merging), "unfinished_rewrite": _unfinished_as_data(unfinished)}
        json.dump(data, file, indent=2)
        file.write("\n")
        return
    console = _console(file)
    console.print(Text(f"{table.name}: {words(table.spec)}, {count(len(table.partitions), 'partition')}"))
    if unfinished:
        console.print(Text(f"{unfinished.partition}: {unfinished.said}: {unfinished.advice}"))
    if table.hidden:
        hidden = count(len(table.hidden), "record")
        console.print(Text(f"{hidden} that no reader asks for: run spark-bucketing evolution verify {table.name}"))
    elif not table.evolved:
        console.print(Text("No spec was ever altered: all partitions are read by the table's."))
    if not table.partitions:
        return
    _print_grid(console, ((run.name, count(len(run.partitions), "partition"), _told(table, run)) for run in found))
    together = read_together(found, merging)
    console.print(Text(f"\nRead as bucketed, as far as the files fit:\n  all partitions together: {_how(together)}"))
    if together.buckets is None:
        ranges = readable_ranges(found, merging)
        _print_grid(console, ((span(r.partitions), count(len(r.partitions), "partition"), _how(r)) for r in ranges))


def _told(table: Table, run: Run) -> str:
    if table.evolved and run.partitions[0].state is RecordState.MISSING and isinstance(run.claim, BucketSpec):
        return f"no record: the table's {words(run.claim)}"
    return describe(run.claim)


def _how(read: Read) -> str:
    if read.buckets is None:
        return f"no, {read.why}"
    return f"as {count(read.buckets, 'bucket')} by ({', '.join(read.columns)})"


def _specs_as_data(table: Table, found: Sequence[Run], merging: Merging) -> dict[str, Any]:
    together = read_together(found, merging) if found else None
    return {
        "table": table.name,
        "spec": _as_data(table.spec),
        "evolved": table.evolved,
        "ranges": [
            {
                **_range(run.partitions),
                "record": run.partitions[0].state.value,
                "spec": _as_data(run.claim) if isinstance(run.claim, BucketSpec) else None,
                "problem": None if isinstance(run.claim, BucketSpec) else run.claim,
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


def _unfinished_as_data(unfinished: Unfinished | None) -> dict[str, Any] | None:
    return unfinished.as_data() if unfinished else None


def write_findings(
    table: Table, findings: Sequence[Finding], unfinished: Unfinished | None, rows: bool, form: str, file: TextIO
) -> None:
    """Write what contradicts what, each with what to run, and which partition was not looked at."""
    if form == "json":
        data = [
            {
                "subject": item.subject,
                "found": item.found,
                "expected": item.expected,
                "run": item.run,
                "files": [{"name": file.name, "problem": file.problem} for file in item.files],
            }
            for item in findings
        ]
        found = {"table": table.name, "rows": rows, "findings": data}
        json.dump({**found, "unfinished_rewrite": _unfinished_as_data(unfinished)}, file, indent=2)
        file.write("\n")
        return
    console = _console(file)
    for item in findings:
        console.print(Text.assemble((item.subject, "red"), f": found {item.found}"))
        console.print(Text(f"    expected {item.expected}\n    run      {item.run}"))
    if unfinished:
        console.print(Text(f"{unfinished.partition}: {unfinished.said}; what it has by now was not looked at."))
    looked = "every row" if rows else "the files' names (--rows looks at every row)"
    number = count(len(findings), "finding") if findings else "nothing is wrong"
    console.print(Text(f"{table.name}: {count(len(table.partitions), 'partition')}, {looked}: {number}."))


def write_changes(table: Table, changes: Sequence[Change], dry_run: bool, file: TextIO) -> None:
    """Write which records are, or would be, written, and why."""
    console = _console(file)
    for change in changes:
        console.print(Text.assemble((change.partition.name, "bold"), f": {change.why}"))
        console.print(Text(f"    {'would write' if dry_run else 'writes'} {words(change.spec)}"))
    if table.hidden:
        verb = "would set" if dry_run else "sets"
        console.print(Text(f"{table.name}: {verb} bucketing.evolved=true, without which readers ask for no record"))
    elif marks_evolved(table, changes):
        console.print(Text(f"These are the first records of {table.name}: readers ask for them from now on."))
    changed = f"{count(len(changes), 'partition')} {'to be changed' if dry_run else 'changed'}"
    what = changed if changes else "every record is what the files are"
    console.print(Text(f"{table.name}: {count(len(table.partitions), 'partition')}, {what}."))


def write_plan(plan: Plan, file: TextIO) -> None:
    """Write what a rewrite does: partitions, files and bytes."""
    console = _console(file)
    for partition in plan.done:
        console.print(Text(f"{partition.name}: has the table's spec already"))
    for task in plan.tasks:
        files = f"{count(len(task.files), 'file')}, {size(total(task.files))}"
        what = "record only, its files have the spec" if task.proven else "write anew"
        console.print(Text.assemble((task.partition.name, "bold"), f": {files}: {what}"))
    written = [file for task in plan.tasks if not task.proven for file in task.files]
    console.print(
        Text(
            f"{plan.table.name}: {count(len(plan.tasks), 'partition')} to be brought to {words(plan.table.spec)}, "
            f"{count(len(written), 'file')} and {size(total(written))} to be written anew."
        )
    )


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
