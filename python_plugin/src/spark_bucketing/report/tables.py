"""Write overviews of tables, the results of verifying tables, and file statistics, as text or as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, TextIO

from rich.console import Console
from rich.text import Text

from spark_bucketing.report.formatting import size, spec_data
from spark_bucketing.report.output import STATE_STYLES, console_on, print_rows, write_json
from spark_bucketing.report.table_specs import print_sealed, print_specs, sealed_data, specs_data
from spark_bucketing.table.bucketed_files import BucketedFiles, FileSizes, SpecFiles
from spark_bucketing.table.file_statistics import FileStats, State
from spark_bucketing.table.model import Status
from spark_bucketing.table.overview import Overview, Verification
from spark_bucketing.units import count

_WORDS = ("table", "layout", "format", "bucket columns", "sort columns")
_NUMBERS = ("buckets", "partitions", "files", "smallest", "median", "largest", "total", "rows", "skew")
_MOST_FILES = 50
_TITLES = (*_WORDS, *_NUMBERS, "metadata", "state")


def write_overviews(schema: str, overviews: Sequence[Overview], form: str, file: TextIO, details: bool = False) -> None:
    """Write the overviews of tables.

    With `details`, text reports also list partitions and files.
    """
    if form == "json":
        write_json({"schema": schema, "tables": list(map(overview_data, overviews))}, file)
    elif overviews:
        console = console_on(file)
        _print_grid(console, overviews)
        for overview in overviews if details else ():
            if overview.merging and overview.table.columns:
                print_specs(overview.table, overview.merging, console_on(file))
            elif overview.statistics is not None:
                _print_statistics(overview.table.name, overview.statistics, console_on(file))
    else:
        file.write(f"Schema {schema} has no bucketed or organized tables.\n")


def _print_grid(console: Console, overviews: Sequence[Overview]) -> None:
    print_rows(console, _TITLES, list(map(_cells, overviews)), _NUMBERS)
    for overview in overviews:
        for message in _messages(overview):
            console.print(Text.assemble((overview.table.name, STATE_STYLES[overview.state]), ": ", message))


def _messages(overview: Overview) -> Sequence[str]:
    unreadable = overview.files.unreadable if overview.files else ""
    return (*overview.findings, unreadable) if unreadable else overview.findings


def _cells(overview: Overview) -> list[Text]:
    files = overview.files
    texts = _bucketed_cells(files) if files else _other_cells(overview)
    return [
        *map(Text, (overview.table.name, *texts, _metadata(overview))),
        Text(overview.state, STATE_STYLES[overview.state]),
    ]


def _bucketed_cells(files: BucketedFiles) -> list[str]:
    spec, sizes = files.spec, files.sizes
    known = files.state != "unknown"
    numbers = sorted({part.spec.num_buckets for part in files.by_spec})
    return [
        spec.bucket_hash,
        files.file_format,
        ", ".join(spec.bucket_columns),
        ", ".join(spec.sort_columns) or "-",
        ", ".join(f"{number:,}" for number in numbers),
        f"{files.partitions:,}" if files.partitioned and known else "-",
        f"{len(files.files):,}" if known else "-",
        *(map(size, sizes) if sizes else "----"),
        f"{files.rows:,}" if known else "-",
        "-" if files.skew is None else f"{files.skew:.2f}",
    ]


def _other_cells(overview: Overview) -> list[str]:
    """Return the cells for an organized table, or for a NOT CLUSTERED table that has sealed partitions."""
    organized, partitions = overview.organized, overview.table.partitions
    if organized is None:
        total = size(sum(part.size for part in partitions))
        numbers = sorted({part.spec.num_buckets for part in partitions if part.spec})
        return [
            *("not clustered", "-", "-", "-", ", ".join(f"{number:,}" for number in numbers), f"{len(partitions):,}"),
            *(f"{sum(part.files for part in partitions):,}", "-", "-", "-", total, "-", "-"),
        ]
    sizes, rows = overview.sizes, sum(file.rows for file in overview.statistics or ())
    folders = {file.name.rpartition("/")[0] for file in overview.statistics or ()}
    return [
        *("organized", overview.file_format, "-", organized.range_by or "-", "-"),
        *(f"{len(folders):,}" if overview.table.columns else "-", f"{len(overview.statistics or ()):,}"),
        *(map(size, sizes) if sizes else "----"),
        *(f"{rows:,}", "-"),
    ]


def _metadata(overview: Overview) -> str:
    """Describe how many files of the table are sealed or have file statistics."""
    if overview.statistics is not None:
        covered = sum(file.state == State.COVERED for file in overview.statistics)
        return f"statistics of {covered:,} of {len(overview.statistics):,} files"
    if overview.merging is None:
        return "-"
    filled = [part for part in overview.table.partitions if part.status != Status.EMPTY]
    sealed = [part for part in filled if part.status == Status.SEALED]
    if not overview.table.columns:
        return "sealed" if sealed or not filled else filled[0].status
    return f"{len(sealed):,} of {len(filled):,} partitions sealed"


def overview_data(overview: Overview) -> dict[str, Any]:
    """Convert an overview to JSON types."""
    files, table, statistics = overview.files, overview.table, overview.statistics
    if files is None and statistics is None:
        # A NOT CLUSTERED table with sealed partitions.
        total = sum(part.size for part in table.partitions)
        numbers: dict[str, Any] = {
            "partitions": len(table.partitions),
            "files": sum(part.files for part in table.partitions),
            "bytes": dict.fromkeys(FileSizes._fields) | {"total": total},
            "rows": None,
        }
    else:
        known = overview.state != "unknown"
        numbers = {
            "partitions": files.partitions if files and files.partitioned and known else None,
            "files": len(files.files if files else statistics or ()) if known else None,
            "bytes": overview.sizes._asdict() if overview.sizes else None,
            "rows": (files.rows if files else sum(file.rows for file in statistics or ())) if known else None,
        }
    return {
        "table": table.name,
        "state": overview.state,
        "spec": spec_data(files.spec) if files else None,
        "range_by": overview.organized.range_by if overview.organized else None,
        "implicit_partition_by": list(overview.organized.implicit_partition_by) if overview.organized else [],
        "format": overview.file_format,
        **numbers,
        "skew": files.skew if files else None,
        "by_spec": [_spec_files(files, part) for part in files.by_spec]
        if files and overview.state != "unknown"
        else [],
        "findings": list(overview.findings),
        "unreadable": (files.unreadable if files else "") or None,
        "seals": specs_data(table, overview.merging) if overview.merging else None,
        "file_statistics": None if statistics is None else [asdict(file) for file in statistics],
    }


def _spec_files(files: BucketedFiles, part: SpecFiles) -> dict[str, Any]:
    return {
        "spec": spec_data(part.spec),
        "partitions": len(part.folders) if files.partitioned else None,
        "files": len(part.files),
        "rows": part.rows,
        "skew": part.skew,
    }


def write_verifications(
    schema: str, found: Sequence[Verification], form: str, file: TextIO, details: bool = False
) -> None:
    """Write the findings about tables.

    With `details`, text reports also list partitions and files.
    """
    if form == "json":
        write_json({"schema": schema, "tables": list(map(_verification_data, found))}, file)
        return
    console = console_on(file)
    for verification in found:
        _print_verification(verification, console, details)
    if not found:
        file.write(f"Schema {schema} has no bucketed or organized tables.\n")


def _print_verification(verification: Verification, console: Console, details: bool) -> None:
    name = verification.overview.table.name
    messages = [*verification.findings, *([verification.unknown] if verification.unknown else [])]
    for message in messages or ["ok"]:
        console.print(Text.assemble((name, STATE_STYLES[verification.state]), ": ", message))
    if details and verification.sealed:
        print_sealed(name, verification.sealed, console)
    elif details and verification.statistics:
        _print_statistics(name, verification.statistics, console)


def _verification_data(verification: Verification) -> dict[str, Any]:
    return {
        "table": verification.overview.table.name,
        "state": verification.state,
        "deep": verification.is_deep,
        "findings": list(verification.findings),
        "unknown": verification.unknown or None,
        "partitions": list(map(sealed_data, verification.sealed)),
        "file_statistics": [asdict(file) for file in verification.statistics],
    }


def write_file_statistics_report(name: str, files: Sequence[FileStats], form: str, file: TextIO) -> None:
    """Write the files of a table with their statistics."""
    if form == "json":
        write_json({"table": name, "files": [asdict(one) for one in files]}, file)
    else:
        _print_statistics(name, files, console_on(file))


def _print_statistics(name: str, files: Sequence[FileStats], console: Console) -> None:
    """Print the files of a table with their statistics.

    Files with findings come first.
    """
    console.print(Text(_statistics_headline(name, files)))
    shown = sorted(files, key=lambda one: (one.state == State.COVERED and not one.overlaps, one.name))[:_MOST_FILES]
    _print_statistics_grid(console, shown)
    if len(files) > len(shown):
        console.print(Text(f"and {count(len(files) - len(shown), 'file')} more (--format json shows all)"))


def _statistics_headline(name: str, files: Sequence[FileStats]) -> str:
    states = Counter(one.state for one in files)
    rows = sum(one.rows for one in files)
    text = f"{name}: {count(len(files), 'file')}, {count(rows, 'row')}, {size(sum(one.size for one in files))}"
    if states[State.NOT_COVERED]:
        text += f"; {count(states[State.NOT_COVERED], 'file')} without statistics, which every query reads"
    return text


def _print_statistics_grid(console: Console, files: Sequence[FileStats]) -> None:
    has_implicit_partition = any(one.implicit_partition is not None for one in files)
    has_order = any(one.nulls is not None for one in files)
    titles = ["file", "rows", "size", *["implicit partition"] * has_implicit_partition, *["from", "to"] * has_order, ""]
    rows = []
    for one in files:
        cells = [one.name, f"{one.rows:,}", size(one.size)]
        cells += [one.implicit_partition or ""] if has_implicit_partition else []
        if has_order:
            is_null = one.nulls and one.nulls == one.rows
            cells += ["null", "null"] if is_null else [one.lower or "", one.upper or ""]
        notes = [*([] if one.state == State.COVERED else [one.state]), *(["overlaps"] if one.overlaps else [])]
        rows.append([*cells, ", ".join(notes)])
    print_rows(console, titles, rows, ("rows", "size"))
