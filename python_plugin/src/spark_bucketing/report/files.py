"""Write the result of `files plan` as text or as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from spark_bucketing.organize.file_plan import FilePlan, PlannedPartition
from spark_bucketing.report.formatting import size
from spark_bucketing.report.output import console_on, print_rows, write_json
from spark_bucketing.units import count

_MOST_PARTITIONS = 20


def write_plan(plan: FilePlan, form: str, file: TextIO) -> None:
    """Write how many files each partition of a model gets, and how this number was determined."""
    if form == "json":
        write_json(_plan_data(plan), file)
        return
    console = console_on(file)
    total = f", about {size(round(plan.rows * plan.bytes_per_row))}" if plan.bytes_per_row else ""
    where = f" in {count(len(plan.partitions), 'partition')}" if plan.partition_by else ""
    console.print(Text(f"{plan.model}: {count(plan.files, 'file')} for {count(plan.rows, 'row')}{where}{total}"))
    for reason in _reasons(plan):
        console.print(Text(f"  {reason}"))
    if plan.partition_by and plan.partitions:
        _print_partitions(console, plan)
        if len(plan.partitions) > _MOST_PARTITIONS:
            left = count(len(plan.partitions) - _MOST_PARTITIONS, "smaller partition")
            console.print(Text(f"and {left} (--format json shows all)"))


def _reasons(plan: FilePlan) -> Iterator[str]:
    asked = "set in the model's config" if plan.from_config else "set by a command option"
    value = size(plan.count.value) if plan.count.setting == "target_file_size" else f"{plan.count.value:,}"
    yield f"{plan.count.setting} = {value}, {asked}; file_strategy = {plan.strategy}"
    if plan.bytes_per_row:
        source = "from --bytes-per-row"
        if plan.measured and plan.measured.bytes_per_row == plan.bytes_per_row:
            source = f"measured in the existing table: {size(plan.measured.bytes)}, {count(plan.measured.rows, 'row')}"
        yield f"bytes per row: {float(plan.bytes_per_row):.4g}, {source}"
    else:
        yield "sizes are unknown because the table does not exist yet; pass --bytes-per-row to show them"
    if plan.rows_per_file:
        yield f"rows per file: {plan.rows_per_file:,}"
    if plan.strategy not in ("exact", "by_column_salted"):
        yield f"{plan.strategy} uses this number of tasks, but can write more or fewer files"


def _print_partitions(console: Console, plan: FilePlan) -> None:
    titles = ("rows", "files", "rows per file", *(["size per file"] if plan.bytes_per_row else []))
    largest = sorted(plan.partitions, key=lambda one: -one.rows)[:_MOST_PARTITIONS]
    print_rows(console, [", ".join(plan.partition_by), *titles], [_cells(plan, one) for one in largest], titles)


def _cells(plan: FilePlan, one: PlannedPartition) -> list[str]:
    rows = -(-one.rows // one.files)
    cells = [
        ", ".join("null" if value is None else value for value in one.values),
        f"{one.rows:,}",
        f"{one.files:,}",
        f"{rows:,}",
    ]
    return [*cells, size(round(rows * plan.bytes_per_row))] if plan.bytes_per_row else cells


def _plan_data(plan: FilePlan) -> dict[str, Any]:
    def size(rows: int) -> int | None:
        return round(rows * plan.bytes_per_row) if plan.bytes_per_row else None

    return {
        "model": plan.model,
        "strategy": plan.strategy,
        "setting": plan.count.setting,
        "value": plan.count.value,
        "from_config": plan.from_config,
        "rows_per_file": plan.rows_per_file,
        "bytes_per_row": float(plan.bytes_per_row) if plan.bytes_per_row else None,
        "measured": {"rows": plan.measured.rows, "bytes": plan.measured.bytes} if plan.measured else None,
        "files": plan.files,
        "rows": plan.rows,
        "bytes": size(plan.rows),
        "partitions": [
            {
                "values": dict(zip(plan.partition_by, one.values, strict=True)),
                "rows": one.rows,
                "files": one.files,
                "largest_file_rows": -(-one.rows // one.files),
                "largest_file_bytes": size(-(-one.rows // one.files)),
            }
            for one in plan.partitions
        ],
    }
