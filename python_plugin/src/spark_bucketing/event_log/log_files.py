"""Find event logs in local directories and in file systems that Spark supports, and read their lines."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from gzip import BadGzipFile
from pathlib import Path
from typing import IO, Any

from spark_bucketing.errors import EventLogError
from spark_bucketing.event_log.codecs import decompressed
from spark_bucketing.hadoop import hadoop_files
from spark_bucketing.units import count

# eventlog_v2_<application>/events_<number>_<application>
_ROLLING = re.compile(r"events_(\d+)_(?P<application>.+?)(\.[a-z0-9]+)*$")
_COMPACTED = ".compact"
_OTHER = re.compile(r"^[._]|^appstatus_|\.(crc|tmp)$")
# hdfs:/logs, s3a://logs/ or file:/logs. A Windows drive has only one letter.
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/")
# A longer line is damaged. This limit keeps memory use constant.
_LONGEST_LINE = 64 << 20
GAP = b""
"""Takes the place of lines that are missing within an event log."""
EVENT = b'{"Event":'
"""The start of each line of an event log."""
OnBytes = Callable[[int, int], None]


@dataclass(frozen=True)
class LogFile:
    """A file of an event log."""

    path: str
    size_bytes: int
    open: Callable[[], IO[bytes]]  # returns a stream with peek()


@dataclass
class ReadCounts:
    """How many files and lines were read, and how many of their parts were damaged."""

    files: int = 0
    size_bytes: int = 0
    lines: int = 0
    broken_lines: int = 0
    truncated_files: int = 0
    missing_files: int = 0  # numbers of rolling logs without a file
    compacted_files: int = 0
    without_events: list[str] = field(default_factory=list)  # paths of files that are no event logs
    unfinished: int = 0  # statements without an end
    copies: int = 0  # logs of an application that another log contains
    applications: int = 0

    @property
    def warnings(self) -> list[str]:
        """Return one sentence for each kind of data that is missing."""
        skipped = [
            (self.broken_lines, "Skipped {}.", "broken line"),
            (self.truncated_files, "Read {} up to a damaged or missing end.", "file"),
            (self.missing_files, "Rolling logs lack {}, so the runs next to a gap do not count.", "file"),
            (self.compacted_files, "Spark's History Server deleted finished statements from {}.", "compacted file"),
            (self.copies, "Skipped {} of other logs.", "copy"),
            (self.unfinished, "Ignored {} without an end.", "statement"),
        ]
        found = [text.format(count(number, noun)) for number, text, noun in skipped if number]
        if self.without_events:
            number = count(len(self.without_events), "file")
            found.append(f"Skipped {number} without events: {', '.join(self.without_events)}.")
        return found


def find_logs(paths: Sequence[str]) -> list[list[LogFile]]:
    """Return the files of each event log, in order.

    A rolling log consists of several files.

    Raises:
        EventLogError: a path does not exist, or contains no event log.
    """
    logs: dict[str, list[LogFile]] = {}
    for path in paths:
        files = [LogFile(*entry) for entry in hadoop_files(path)] if is_remote(path) else _local(path)
        found = [file for file in files if not _OTHER.search(file.path.rsplit("/", 1)[-1])]
        if not found:
            raise EventLogError(
                f"`{path}` contains no event log.",
                found="no file",
                expected="an event log, or a directory such as spark.eventLog.dir",
                instead="check that spark.eventLog.enabled was true",
            )
        for file in found:
            rolling = _ROLLING.match(file.path.rsplit("/", 1)[-1])
            key = f"{file.path.rsplit('/', 1)[0]}/{rolling['application']}" if rolling else file.path
            logs.setdefault(key, []).append(file)
    return [_in_order(files) for _, files in sorted(logs.items())]


def _in_order(files: Sequence[LogFile]) -> list[LogFile]:
    """Return each file once, by number, without compacted files whose complete files still exist."""
    # A compacted file has a longer name than the complete file.
    of_numbers = {_number(one): one for one in sorted(files, key=lambda one: one.path, reverse=True)}
    return [one for _, one in sorted(of_numbers.items())]


def is_remote(path: str) -> bool:
    """Return whether Spark reads a path, because it is a URI of a file system other than the local one."""
    found = _SCHEME.match(path)
    return found is not None and found["scheme"].lower() != "file"


def _number(file: LogFile) -> int:
    rolling = _ROLLING.match(file.path.rsplit("/", 1)[-1])
    return int(rolling[1]) if rolling else 0


def _local(path: str) -> list[LogFile]:
    root = Path(path)
    if not root.exists():
        raise EventLogError(
            f"The event log `{path}` does not exist.",
            expected="the path of an event log or of a directory of event logs",
        )
    files = sorted(one for one in root.rglob("*") if one.is_file()) if root.is_dir() else [root]
    return [LogFile(str(one), one.stat().st_size, lambda one=one: one.open("rb")) for one in files]  # type: ignore[misc]


def read_lines(files: Sequence[LogFile], counts: ReadCounts, on_bytes: OnBytes = lambda *_: None) -> Iterator[bytes]:
    """Yield the lines of one event log, and count files that end early or are missing.

    Where lines are missing between other lines, the function yields GAP.

    Args:
        files: the files of the log, in order.
        counts: the counters to which the function adds files and lines.
        on_bytes: called at intervals with the number of bytes read from the current file, and its size.
    """
    # Damaged files raise these errors: gzip EOFError, zlib.error and BadGzipFile, an OSError; lz4 EOFError; zstd
    # ZstdError.
    from zstandard import ZstdError

    damaged: tuple[type[Exception], ...] = (EOFError, zlib.error, BadGzipFile, ZstdError)
    is_gap = False
    for file, missing in zip(files, _missing_before(files), strict=True):
        if missing or is_gap:
            yield GAP
        has_events, truncated, broken = False, counts.truncated_files, counts.broken_lines
        counts.missing_files += missing
        counts.compacted_files += file.path.endswith(_COMPACTED)
        counts.files += 1
        counts.size_bytes += file.size_bytes
        try:
            with file.open() as raw:
                for line in _lines(decompressed(raw, file.path), raw, file.size_bytes, counts, on_bytes):
                    has_events = has_events or line.startswith(EVENT)
                    yield line
        except damaged:
            counts.truncated_files += 1
        except OSError as error:
            raise EventLogError(f"Cannot read the event log `{file.path}`: {error.strerror or error}.") from error
        is_gap = counts.truncated_files > truncated or not has_events
        if not has_events:
            counts.without_events.append(file.path)
            counts.truncated_files, counts.broken_lines = truncated, broken


def _missing_before(files: Sequence[LogFile]) -> list[int]:
    """Return for each file of a log how many files are missing between it and the previous file."""
    numbers = [_number(file) for file in files]
    # The numbers of a rolling log start at 1. A compacted file replaces all files with lower numbers.
    is_first = numbers[0] == 0 or files[0].path.endswith(_COMPACTED)
    before = [numbers[0] - 1 if is_first else 0, *numbers[:-1]]
    return [number - previous - 1 for previous, number in zip(before, numbers, strict=True)]


def _lines(stream: Any, raw: Any, size: int, counts: ReadCounts, on_bytes: OnBytes) -> Iterator[bytes]:
    partial, line = False, b""
    for number, line in enumerate(iter(lambda: stream.readline(_LONGEST_LINE), b"")):
        if number % 5000 == 0:
            on_bytes(_position(raw), size)
        whole = line.endswith(b"\n")
        if whole and not partial:
            counts.lines += 1
            yield line
        elif whole or not partial:
            counts.broken_lines += 1
        partial = not whole
    if partial:
        counts.broken_lines -= 1
        if _is_event(line):
            counts.lines += 1
            yield line + b"\n"
        else:
            counts.truncated_files += 1
    on_bytes(size, size)


def _is_event(line: bytes) -> bool:
    """Return whether the last line of a file is a complete event."""
    try:
        return line.startswith(EVENT) and bool(json.loads(line))
    except (ValueError, RecursionError):
        return False


def _position(raw: Any) -> int:
    """Return the number of bytes that were read from a file; 0 for a pipe."""
    try:
        return int(raw.tell())
    except OSError:
        return 0
