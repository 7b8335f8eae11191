"""Find event logs in local directories and in file systems that Spark supports, and read their lines.

Logs may be compressed with gzip, or with a codec of `spark.eventLog.compression.codec`.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import struct
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from spark_bucketing.errors import EventLogError
from spark_bucketing.event_log.hadoop_files import hadoop_files
from spark_bucketing.units import count

# LZ4BlockOutputStream of lz4-java: magic, token, compressed length, original length, checksum.
_LZ4_MAGIC, _LZ4_HEADER = b"LZ4Block", struct.Struct("<8sBiii")
_LZ4_RAW, _LZ4_COMPRESSED = 0x10, 0x20
_ZSTD_MAGIC, _GZIP_MAGIC = b"\x28\xb5\x2f\xfd", b"\x1f\x8b"
_UNSUPPORTED = {b"\x82SNAPPY\x00": "snappy", b"ZV": "lzf"}
_BUFFER = 1 << 20


def decompressed(stream: IO[bytes], name: str) -> io.BufferedReader:
    """Return a stream of the decompressed bytes.

    The first bytes of the file identify its format.

    Args:
        stream: a stream with a peek() method, such as a file that open() returns.
        name: path of the file, for messages.

    Raises:
        EventLogError: the codec is not supported.
    """
    head: bytes = stream.peek(8)[:8]  # type: ignore[attr-defined]
    for magic, codec in _UNSUPPORTED.items():
        if head.startswith(magic):
            raise EventLogError(
                f"Cannot read the event log `{name}`.",
                found=f"compression with {codec}",
                expected="zstd, lz4, gzip or no compression",
                instead="set spark.eventLog.compression.codec to zstd for new logs",
            )
    if head.startswith(_ZSTD_MAGIC):
        import zstandard

        # Spark starts a new frame after every flush.
        reader: Any = zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True)
        return io.BufferedReader(reader, _BUFFER)
    if head.startswith(_GZIP_MAGIC):
        # It buffers. A second buffer would lose the bytes before damaged ones.
        return gzip.GzipFile(fileobj=stream)  # type: ignore[return-value]
    if head.startswith(_LZ4_MAGIC):
        return io.BufferedReader(_Blocks(_lz4_blocks(stream)), _BUFFER)
    return stream  # type: ignore[return-value]


class _Blocks(io.RawIOBase):
    """A stream that returns the bytes of several blocks one after another."""

    def __init__(self, blocks: Iterator[bytes]) -> None:
        self._blocks, self._left = blocks, memoryview(b"")

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._left:
            self._left = memoryview(next(self._blocks, b""))
        number = min(len(buffer), len(self._left))
        buffer[:number] = self._left[:number]
        self._left = self._left[number:]
        return number


def _lz4_blocks(stream: IO[bytes]) -> Iterator[bytes]:
    """Yield the decompressed blocks of a file that Spark wrote with LZ4BlockOutputStream.

    Raises:
        EOFError: the file ends within a block, or a block is damaged.
    """
    import lz4.block

    while header := stream.read(_LZ4_HEADER.size):
        if len(header) < _LZ4_HEADER.size or not header.startswith(_LZ4_MAGIC):
            raise EOFError
        _, token, compressed, original, _ = _LZ4_HEADER.unpack(header)
        if min(compressed, original) < 0:
            raise EOFError
        block = stream.read(compressed)
        if len(block) < compressed or token & 0xF0 not in (_LZ4_RAW, _LZ4_COMPRESSED):
            raise EOFError
        # A stream ends with an empty block; Spark may append another stream.
        if original:
            raw = token & 0xF0 == _LZ4_RAW
            try:
                yield block if raw else lz4.block.decompress(block, uncompressed_size=original)
            except lz4.block.LZ4BlockError as error:
                raise EOFError from error


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
    # Damaged files raise these errors: gzip EOFError, zlib.error and gzip.BadGzipFile, an OSError; lz4 EOFError; zstd
    # ZstdError.
    from zstandard import ZstdError

    damaged: tuple[type[Exception], ...] = (EOFError, zlib.error, gzip.BadGzipFile, ZstdError)
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
