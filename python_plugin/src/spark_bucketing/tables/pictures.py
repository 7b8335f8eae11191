"""Compute the pictures in a table's HTML report: bars for buckets or files, and the ranges of files on one axis."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from decimal import Decimal
from itertools import groupby
from typing import NamedTuple

from spark_bucketing.tables.file_statistics import FileStats, Organized
from spark_bucketing.tables.overview import SpecFiles
from spark_bucketing.units import count, size

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
