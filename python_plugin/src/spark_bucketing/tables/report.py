"""Write overviews, verifications, bucket specs, seals, rewrites and file statistics of tables as text, JSON or HTML.

The HTML report has pictures: bars for buckets or files, and the ranges of files on one axis.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timezone
from decimal import Decimal
from itertools import groupby
from typing import Any, NamedTuple, TextIO

from rich.console import Console
from rich.text import Text

from spark_bucketing import output
from spark_bucketing.output import STATE_STYLES, console_on, print_rows, print_template, write_json
from spark_bucketing.tables.file_statistics import FileStats, Organized
from spark_bucketing.tables.metadata import (
    Merging,
    Partition,
    PartitionRun,
    Read,
    Status,
    TableMetadata,
    compatible_read,
    readable_ranges,
    runs,
    span,
    total_size,
)
from spark_bucketing.tables.overview import FileSizes, Overview, SpecFiles
from spark_bucketing.tables.rewrite import RewritePlan
from spark_bucketing.units import count, size

_WORDS = ("table", "layout", "format", "bucket columns", "sort columns")
_NUMBERS = ("buckets", "partitions", "files", "smallest", "median", "largest", "total", "rows", "skew")
_MOST_FILES = 50
_TITLES = (*_WORDS, *_NUMBERS, "metadata", "state")


def write_overviews(schema: str, overviews: Sequence[Overview], form: str, file: TextIO, details: bool = False) -> None:
    """Write the overviews of tables. With `details`, text reports also list partitions and files."""
    if form == "json":
        write_json({"schema": schema, "tables": list(map(overview_data, overviews))}, file)
    elif form == "html":
        _write_page(schema, overviews, file)
    elif overviews:
        console = console_on(file)
        print_rows(console, _TITLES, list(map(_cells, overviews)), _NUMBERS)
        for overview in overviews:
            for message in (*overview.findings, *filter(None, [overview.unreadable, overview.advice])):
                console.print(Text.assemble((overview.table.name, STATE_STYLES[overview.state]), ": ", message))
        for overview in overviews if details else ():
            if overview.merging and overview.table.columns:
                print_specs(overview.table, overview.merging, console_on(file))
            elif overview.statistics is not None:
                _print_statistics(overview.table.name, overview.statistics, console_on(file))
    else:
        file.write(f"Schema {schema} has no bucketed or organized tables.\n")


def _write_page(schema: str, overviews: Sequence[Overview], file: TextIO) -> None:
    """Write the overviews as an HTML page: first the tables with findings, and then the largest ones."""
    functions = (bucket_bars, count, file_bars, file_ranges, runs, span, zip)
    template = output.template_beside(__file__, "report.html", *functions)
    shown = sorted(overviews, key=lambda one: (one.state == "ok", -(one.sizes.total if one.sizes else 0)))
    file.write(template.render(schema=schema, overviews=shown, titles=_TITLES, cells=_cells) + "\n")


def _cells(overview: Overview) -> list[Text]:
    spec, organized, data = overview.spec, overview.organized, overview_data(overview)
    partitions = data["partitions"]
    if organized and overview.table.columns:
        partitions = len({file.name.rpartition("/")[0] for file in overview.statistics or ()})
    specs = [part.spec for part in (overview.by_spec or overview.table.partitions) if part.spec]
    sizes = (data["bytes"] or dict.fromkeys(FileSizes._fields)).values()
    texts = [
        overview.table.name,
        spec.bucket_hash if spec else "organized" if organized else "not clustered",
        overview.table.file_format if spec or organized else None,
        ", ".join(spec.bucket_columns) if spec else None,
        ", ".join(spec.sort_columns) if spec else organized and organized.range_by,
        ", ".join(f"{number:,}" for number in sorted({one.num_buckets for one in specs})),
        *(number if number is None else f"{number:,}" for number in (partitions, data["files"])),
        *(number if number is None else size(number) for number in sizes),
        data["rows"] if data["rows"] is None else f"{data['rows']:,}",
        data["skew"] if data["skew"] is None else f"{data['skew']:.2f}",
        _metadata(overview),
    ]
    return [*(Text(text or "-") for text in texts), Text(overview.state, STATE_STYLES[overview.state])]


def _metadata(overview: Overview) -> str:
    """Describe how many files of the table are sealed or have file statistics."""
    if overview.statistics is not None:
        covered = sum(file.state == "covered" for file in overview.statistics)
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
    spec, table, statistics = overview.spec, overview.table, overview.statistics
    numbers: dict[str, Any] = dict.fromkeys(("partitions", "files", "bytes", "rows"))
    if spec is None and statistics is None:
        # A NOT CLUSTERED table with sealed partitions.
        numbers |= {"partitions": len(table.partitions), "files": sum(part.files for part in table.partitions)}
        numbers["bytes"] = dict.fromkeys(FileSizes._fields) | {"total": total_size(table.partitions)}
    elif not overview.unreadable:
        numbers["partitions"] = overview.partitions if spec and table.columns else None
        numbers |= {"files": len(statistics or overview.files), "rows": overview.rows}
    if overview.sizes:
        numbers["bytes"] = overview.sizes._asdict()
    return {
        "table": table.name,
        "state": overview.state,
        "spec": spec,
        "range_by": overview.organized.range_by if overview.organized else None,
        "implicit_partition_by": list(overview.organized.implicit_partition_by) if overview.organized else [],
        "format": table.file_format,
        **numbers,
        "skew": overview.skew,
        "by_spec": [
            {
                "spec": part.spec,
                "partitions": len(part.folders) if table.columns else None,
                "files": len(part.files),
                "rows": part.rows,
                "skew": part.skew,
            }
            for part in (() if overview.unreadable else overview.by_spec)
        ],
        "findings": overview.findings,
        "advice": overview.advice or None,
        "unreadable": overview.unreadable or None,
        "seals": specs_data(table, overview.merging) if overview.merging else None,
        "file_statistics": statistics,
    }


def write_verifications(
    schema: str, verified: Sequence[Overview], form: str, file: TextIO, details: bool = False
) -> None:
    """Write the findings about tables. With `details`, text reports also list partitions and files."""
    if form == "json":
        tables = [
            {
                "table": overview.table.name,
                "state": overview.state,
                "deep": overview.is_deep,
                "findings": overview.findings,
                "unknown": overview.unknown or None,
                "partitions": overview.sealed,
                "file_statistics": overview.statistics or (),
            }
            for overview in verified
        ]
        write_json({"schema": schema, "tables": tables}, file)
        return
    console = console_on(file)
    for overview in verified:
        name = overview.table.name
        for message in [*overview.findings, *filter(None, [overview.unknown])] or ["ok"]:
            console.print(Text.assemble((name, STATE_STYLES[overview.state]), ": ", message))
        if details and overview.sealed:
            print_sealed(name, overview.sealed, console)
        elif details and overview.statistics:
            _print_statistics(name, overview.statistics, console)
    if not verified:
        file.write(f"Schema {schema} has no bucketed or organized tables.\n")


def write_file_statistics_report(name: str, files: Sequence[FileStats], form: str, file: TextIO) -> None:
    """Write the files of a table with their statistics."""
    if form == "json":
        write_json({"table": name, "files": files}, file)
    else:
        _print_statistics(name, files, console_on(file))


def _print_statistics(name: str, files: Sequence[FileStats], console: Console) -> None:
    """Print the files of a table with their statistics. Files with findings come first."""
    rows, total = sum(one.rows for one in files), size(sum(one.size for one in files))
    text = f"{name}: {count(len(files), 'file')}, {count(rows, 'row')}, {total}"
    if uncovered := sum(one.state == "not-covered" for one in files):
        text += f"; {count(uncovered, 'file')} without statistics, which every query reads"
    console.print(Text(text))
    shown = sorted(files, key=lambda one: (one.state == "covered" and not one.overlaps, one.name))[:_MOST_FILES]
    _print_statistics_grid(console, shown)
    if len(files) > len(shown):
        console.print(Text(f"and {count(len(files) - len(shown), 'file')} more (--format json shows all)"))


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
        notes = [*([] if one.state == "covered" else [one.state]), *(["overlaps"] if one.overlaps else [])]
        rows.append([*cells, ", ".join(notes)])
    print_rows(console, titles, rows, ("rows", "size"))


def specs_data(table: TableMetadata, merging: Merging) -> dict[str, Any]:
    """Convert the partitions' bucket specs, and the ranges that Spark can read together, to JSON types."""
    found = runs(table.partitions)
    return {
        "ranges": list(map(_run, found)),
        "all_partitions": _read(compatible_read(table, table.partitions, merging)) if found else None,
        "readable": list(map(_read, readable_ranges(table, merging))),
    }


def print_specs(table: TableMetadata, merging: Merging, console: Console) -> None:
    """Print the bucket specs of partitions, and the ranges of partitions that Spark can read together."""
    found = runs(table.partitions)
    console.print(Text(f"{table.name}: {table.spec or 'no buckets'}, {count(len(table.partitions), 'partition')}"))
    if not found:
        return
    together = compatible_read(table, table.partitions, merging)
    _print_ranges(console, "bucket spec", ((run, _widest(run).summary) for run in found))
    console.print(Text(f"\nRead as bucketed, all partitions together: {_how(together)}\n"))
    if table.spec and not together.spec:
        ranges = readable_ranges(table, merging)
        _print_ranges(console, "read as bucketed", ((read.partitions, _how(read)) for read in ranges))


def _widest(run: PartitionRun) -> Partition:
    return max(run, key=lambda partition: partition.files_per_bucket or 0)


def _how(read: Read) -> str:
    if read.spec is None:
        return f"no, {read.why}"
    return f"as {read.spec.buckets}"


def _run(run: PartitionRun) -> dict[str, Any]:
    return {
        **_range(run),
        "status": run[0].status,
        "spec": run[0].spec,
        "problem": run[0].problem or None,
        "files": sum(partition.files for partition in run),
        "bytes": total_size(run),
        "max_files_per_bucket": _widest(run).files_per_bucket or 0,
    }


def _range(partitions: Sequence[Partition]) -> dict[str, Any]:
    return {"first": partitions[0].name, "last": partitions[-1].name, "partitions": len(partitions)}


def _read(read: Read) -> dict[str, Any]:
    return {**_range(read.partitions), "spec": read.spec, "why": read.why or None}


def write_sealed(table: str, found: Sequence[Partition], dry_run: bool, form: str, file: TextIO) -> None:
    """Write which partitions are sealed, or can be sealed in a dry run, and why the others are not."""
    if form == "json":
        write_json({"table": table, "dry_run": dry_run, "partitions": found}, file)
    else:
        print_sealed(table, found, console_on(file))


def print_sealed(table: str, found: Sequence[Partition], console: Console) -> None:
    """Print which partitions are sealed, or can be sealed in a dry run, and why the others are not."""
    numbers = Counter(part.status for part in found)
    sums = ", ".join(f"{number:,} {status}" for status, number in numbers.items())
    values = {"table": table, "found": found, "status": Status, "sums": sums}
    print_template(console, __file__, "sealed.txt", count, size, **values)


def write_plan(plan: RewritePlan, file: TextIO) -> None:
    """Write which partitions a rewrite replaces, and their numbers of files and bytes."""
    print_template(console_on(file), __file__, "plan.txt", count, size, total_size, plan=plan)


def _print_ranges(console: Console, what: str, ranges: Iterable[tuple[Sequence[Partition], str]]) -> None:
    rows = [tuple(map(Text, (span(run), f"{len(run):,}", text))) for run, text in ranges]
    print_rows(console, ("partitions", "number", what), rows, ("number",))


MOST_BARS, MOST_FILES = 256, 200


class Mark(NamedTuple):
    """A bar or the range of a file."""

    title: str  # the text that a pointer shows
    length: float  # percent of the largest bar, or of the axis
    is_special: bool = False  # whether a bar has no rows, or a range overlaps an earlier one
    start: float = 0.0  # of a range, in percent of the axis


class Picture(NamedTuple):
    """Bars side by side, or ranges below each other."""

    caption: str
    groups: list[tuple[str, list[Mark]]]  # ranges by partition and implicit partition, or all bars
    first: str = ""  # the first bar, or the smallest value of all ranges
    last: str = ""
    mean: float | None = None  # of the bars, in percent of the largest bar


def bucket_bars(part: SpecFiles) -> Picture:
    """Return a bar for each bucket over all partitions of a spec, or for several adjacent buckets if there are many."""
    number, outside = part.spec.num_buckets, 0
    sizes, rows = [0] * number, [0] * number
    for file in part.files:
        bucket = part.bucket(file)
        if bucket is None or bucket >= number:
            outside += 1
        else:
            sizes[bucket] += file.size
            rows[bucket] += file.rows
    step = -(-number // MOST_BARS)
    bars, names = [], []
    for first in range(0, number, step):
        last = min(first + step, number) - 1
        names.append(f"bucket {first}" if first == last else f"buckets {first} to {last}")
        total, found = sum(sizes[first : last + 1]), sum(rows[first : last + 1])
        bars.append((f"{names[-1]}: {count(found, 'row')}, {size(total)}", total, not found))
    notes = [f"{rows.count(0):,} of {count(number, 'bucket')} without rows (hatched)"] if 0 in rows else []
    notes += [f"Not shown: {count(outside, 'file')} outside these buckets"] if outside else []
    each = "bucket" if step == 1 else f"{step} adjacent buckets"
    return _bars(f"Bytes per {each}", bars, size, notes)._replace(first=names[0], last=names[-1])


def file_bars(files: Sequence[FileStats]) -> Picture:
    """Return a bar for the number of rows of each file."""
    shown = sorted(files, key=lambda file: (*_group(file), file.lower or "", file.name))[:MOST_FILES]
    bars = [(_title(file), file.rows, not file.rows) for file in shown]
    return _bars("Rows per file", bars, "{:,}".format, _cut(files))


def file_ranges(organized: Organized, files: Sequence[FileStats]) -> Picture | None:
    """Return the ranges of files, or None if their values are neither numbers nor dates and times."""
    read, ranged = _reader(organized), [(file, file.lower, file.upper) for file in files if file.lower and file.upper]
    try:
        known = [(_group(file), read(lower), read(upper), file) for file, lower, upper in ranged] if read else []
    # Such as a year after 9999.
    except (ValueError, ArithmeticError):
        return None
    if not known:
        return None
    known.sort(key=lambda one: (*one[:3], one[3].name))
    shown = known[:MOST_FILES]
    first, last = min(shown, key=lambda one: one[1]), max(shown, key=lambda one: one[2])
    scale = 100 / float(last[2] - first[1] or 1)
    groups = []
    for (folder, values), found in groupby(shown, key=lambda one: one[0]):
        marks, end = list[Mark](), first[1] - 1
        for _, low, high, file in found:
            marks.append(Mark(_title(file), float(high - low) * scale, low <= end, float(low - first[1]) * scale))
            end = max(high, end)
        groups.append((f"{folder} {values}".strip(), marks))
    notes = [f"Range of {organized.range_by} in each file", *_cut(known)]
    several = sum(mark.is_special for _, marks in groups for mark in marks)
    notes += [f"{count(several, 'file')} in amber: the range overlaps an earlier file"] if several else []
    without = len(files) - len(known)
    notes += [f"Not shown: {count(without, 'file')} without a range"] if without else []
    return Picture(f"{'. '.join(notes)}.", groups, str(first[3].lower), str(last[3].upper))


def _bars(what: str, found: Sequence[tuple[str, int, bool]], text: Callable[[int], str], notes: list[str]) -> Picture:
    values = [value for _, value, _ in found]
    largest, mean = max(values), sum(values) / len(values)
    bars = [Mark(title, 100 * value / (largest or 1), is_empty) for title, value, is_empty in found]
    caption = ". ".join([f"{what}: largest {text(largest)}, mean {text(round(mean))} (dashed line)", *notes])
    return Picture(f"{caption}.", [("", bars)], mean=100 * mean / (largest or 1))


def _cut(files: Sequence[object]) -> list[str]:
    return [f"Only the first {MOST_FILES} of {count(len(files), 'file')}"] if len(files) > MOST_FILES else []


def _group(file: FileStats) -> tuple[str, str]:
    return file.name.rpartition("/")[0], file.implicit_partition or ""


def _title(file: FileStats) -> str:
    values = f"{file.lower} to {file.upper}, " if file.lower is not None else ""
    return f"{file.name}: {values}{count(file.rows, 'row')}, {size(file.size)}"


def _reader(organized: Organized) -> Callable[[str], Decimal] | None:
    """Return the function that reads a value of the range column, or None if the values have no place on an axis."""
    column = next(
        (one for one in organized.table.all_columns if one.name.lower() == (organized.range_by or "").lower()), None
    )
    if column and column.type.lower().startswith(("date", "timestamp")):
        return _moment
    return Decimal if column and column.is_number else None


def _moment(text: str) -> Decimal:
    """Return a date or a timestamp in seconds. Spark writes fractions that Python 3.10 does not read."""
    whole, _, fraction = text.partition(".")
    moment = datetime.fromisoformat(whole).replace(tzinfo=timezone.utc)
    return int(moment.timestamp()) + Decimal(f"0.{fraction or 0}")
