"""Write bucket specs of partitions, results of sealing, and plans of rewrites, as text or as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, TextIO

from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from spark_bucketing.report.formatting import size, spec_data
from spark_bucketing.report.output import console_on, fits, write_json
from spark_bucketing.table.compatibility import Merging, Read, Run, compatible_read, readable_ranges, runs, span
from spark_bucketing.table.model import Partition, Status, Table, total_size, words
from spark_bucketing.table.rewrite import RewritePlan
from spark_bucketing.units import count


def specs_data(table: Table, merging: Merging) -> dict[str, Any]:
    """Convert the bucket specs of partitions to JSON types.

    Also convert the ranges of partitions that Spark can read together.
    """
    found = runs(table.partitions)
    return {
        "ranges": list(map(_run, found)),
        "all_partitions": _read(compatible_read(table, table.partitions, merging)) if found else None,
        "readable": list(map(_read, readable_ranges(table, merging))),
    }


def print_specs(table: Table, merging: Merging, console: Console) -> None:
    """Print the bucket specs of partitions, and the ranges of partitions that Spark can read together."""
    found = runs(table.partitions)
    console.print(Text(f"{table.name}: {words(table.spec)}, {count(len(table.partitions), 'partition')}"))
    if not found:
        return
    together = compatible_read(table, table.partitions, merging)
    _print_grid(console, ((run, _widest(run).summary) for run in found))
    console.print(Text(f"\nRead as bucketed:\n  all partitions together: {_how(together)}"))
    if table.spec and not together.spec:
        ranges = readable_ranges(table, merging)
        _print_grid(console, ((read.partitions, _how(read)) for read in ranges))


def _widest(run: Run) -> Partition:
    return max(run, key=lambda partition: partition.files_per_bucket or 0)


def _how(read: Read) -> str:
    if read.spec is None:
        return f"no, {read.why}"
    return f"as {count(read.spec.num_buckets, 'bucket')} by ({', '.join(read.spec.bucket_columns)})"


def _run(run: Run) -> dict[str, Any]:
    return {
        **_range(run),
        "status": run[0].status,
        "spec": spec_data(run[0].spec),
        "problem": run[0].problem or None,
        "files": sum(partition.files for partition in run),
        "bytes": total_size(run),
        "max_files_per_bucket": _widest(run).files_per_bucket or 0,
    }


def _range(partitions: Sequence[Partition]) -> dict[str, Any]:
    return {"first": partitions[0].name, "last": partitions[-1].name, "partitions": len(partitions)}


def _read(read: Read) -> dict[str, Any]:
    number, columns = (read.spec.num_buckets, list(read.spec.bucket_columns)) if read.spec else (None, None)
    return {**_range(read.partitions), "num_buckets": number, "bucket_columns": columns, "why": read.why or None}


def write_sealed(table: str, found: Sequence[Partition], dry_run: bool, form: str, file: TextIO) -> None:
    """Write which partitions are sealed, or can be sealed in a dry run, and why the others are not."""
    if form == "json":
        write_json({"table": table, "dry_run": dry_run, "partitions": list(map(sealed_data, found))}, file)
    else:
        print_sealed(table, found, console_on(file))


def print_sealed(table: str, found: Sequence[Partition], console: Console) -> None:
    """Print which partitions are sealed, or can be sealed in a dry run, and why the others are not."""
    for part in found:
        where = part.name or table
        if part.status == Status.REFUSED:
            console.print(Text.assemble((where, "red"), f": found {part.problem}"))
        elif part.status in (Status.SEALED, Status.SEALABLE) or part.problem:
            weaker = f" ({part.problem})" if part.problem else ""
            spec = f"{words(part.spec)}, {count(part.files, 'file')}, {size(part.size)}{weaker}"
            console.print(Text.assemble((where, "bold"), f": {part.status}, {spec}"))
    numbers = Counter(part.status for part in found)
    sums = ", ".join(f"{number:,} {status}" for status, number in numbers.items())
    read = count(sum(part.files_read for part in found), "file")
    status = sums or "no matching partitions"
    console.print(Text(f"{table}: {status}; the command read the bucket and sort columns of {read}."))


def sealed_data(part: Partition) -> dict[str, Any]:
    """Convert a partition from the result of SEAL BUCKETS to JSON types."""
    return {
        "partition": part.name,
        "status": part.status,
        "spec": spec_data(part.spec),
        "files": part.files,
        "bytes": part.size,
        "files_read": part.files_read,
        "problem": part.problem or None,
    }


def write_plan(plan: RewritePlan, file: TextIO) -> None:
    """Write which partitions a rewrite replaces, and their numbers of files and bytes."""
    console = console_on(file)
    for part in plan.done:
        has = "already has the table's spec" if part.has_files else "no files"
        console.print(Text(f"{part.name}: {has}"))
    for part in plan.todo:
        files = f"{count(part.files, 'file')}, {size(part.size)}"
        console.print(Text.assemble((part.name, "bold"), f": {files}: rewrite, {part.summary}"))
    for part, obstacle in plan.left:
        console.print(Text.assemble((part.name, "red"), f": skip, {obstacle}"))
    written = count(sum(part.files for part in plan.todo), "file")
    console.print(
        Text(
            f"{plan.table.name}: {count(len(plan.todo), 'partition')} to rewrite with {words(plan.table.spec)}: "
            f"{written} and {size(total_size(plan.todo))}."
        )
    )


def _print_grid(console: Console, lines: Iterator[tuple[Sequence[Partition], str]]) -> None:
    grid = Grid(box=box.SIMPLE, show_header=False, show_edge=False, pad_edge=True, padding=(0, 2))
    for justify in ("left", "right", "left"):
        grid.add_column(justify=justify, overflow="fold")
    wrapped = []
    for partitions, text in lines:
        cells = (span(partitions), count(len(partitions), "partition"), text)
        grid.add_row(*map(Text, cells))
        wrapped.append(Text("  ".join(cells)))
    if fits(console, grid):
        console.print(grid)
    else:
        console.print(*wrapped, sep="\n")
