"""Find event logs, and read their lines.

Python reads local logs that are uncompressed or compressed with gzip. Spark reads logs in other file systems, and logs
that it has compressed itself.
"""

from __future__ import annotations

import gzip
import io
import json
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, cast

from spark_bucketing.errors import EventLogError, SparkError
from spark_bucketing.session import active, open_session, spark_call
from spark_bucketing.session import is_remote as is_connect
from spark_bucketing.units import count

# eventlog_v2_<application>/events_<number>_<application>
_ROLLING = re.compile(r"events_(\d+)_(?P<application>.+?)(\.[a-z0-9]+)*$")
_COMPACTED = ".compact"
# A codec of spark.eventLog.compression.codec, in the name of a log.
_COMPRESSED = re.compile(r"\.(?:zstd|lz4|snappy|lzf)(?:\.inprogress|\.compact)?$")
_OTHER = re.compile(r"^[._]|^appstatus_|\.(crc|tmp)$")
# hdfs:/logs, s3a://logs/ or file:/logs. A Windows drive has only one letter.
_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):/")
# The packages of Spark's codecs. They raise the error if a compressed file is damaged or lacks its end.
_CODECS = ("com.github.luben.zstd.", "net.jpountz.", "org.xerial.snappy.", "com.ning.compress.")
_BUFFER = 1 << 20
GAP = b""
"""Takes the place of lines that are missing within an event log."""
EVENT = b'{"Event":'
"""The start of each line of an event log."""


@dataclass(frozen=True)
class LogFile:
    """A file of an event log."""

    path: str
    size_bytes: int
    open: Callable[[], IO[bytes]]  # returns its decompressed content

    @property
    def name(self) -> str:
        """Return the name of the file, without its directory."""
        return self.path.rsplit("/", 1)[-1]

    @property
    def number(self) -> int:
        """Return the number of a file of a rolling log; otherwise 0."""
        rolling = _ROLLING.match(self.name)
        return int(rolling[1]) if rolling else 0


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
            (self.broken_lines, "Skipped {}, so the runs next to them do not count.", "broken line"),
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
    """Return the files of each event log, in order. A rolling log consists of several files."""
    logs: dict[str, list[LogFile]] = {}
    for path in paths:
        files = _hadoop_files(path) if is_remote(path) else _local_files(path)
        found = [file for file in files if not _OTHER.search(file.name)]
        if not found:
            raise EventLogError(
                f"`{path}` contains no event log.",
                found="no file",
                expected="an event log, or a directory such as spark.eventLog.dir",
                instead="check that spark.eventLog.enabled was true",
            )
        for file in found:
            rolling = _ROLLING.match(file.name)
            key = f"{file.path.rsplit('/', 1)[0]}/{rolling['application']}" if rolling else file.path
            logs.setdefault(key, []).append(file)
    return [_in_order(files) for _, files in sorted(logs.items())]


def _in_order(files: Sequence[LogFile]) -> list[LogFile]:
    """Return each file once, by number, without compacted files whose complete files still exist."""
    # A compacted file has a longer name than the complete file.
    of_numbers = {one.number: one for one in sorted(files, key=lambda one: one.path, reverse=True)}
    return [one for _, one in sorted(of_numbers.items())]


def is_remote(path: str) -> bool:
    """Return whether a path is a URI of a file system other than the local one."""
    found = _SCHEME.match(path)
    return found is not None and found["scheme"].lower() != "file"


def _local_files(path: str) -> list[LogFile]:
    root = Path(path)
    if not root.exists():
        raise EventLogError(
            f"The event log `{path}` does not exist.",
            expected="the path of an event log or of a directory of event logs",
        )

    def opened(file: Path) -> IO[bytes]:
        if _COMPRESSED.search(file.name):
            return _hadoop_files(file.absolute().as_uri())[0].open()
        stream = file.open("rb")
        return gzip.GzipFile(fileobj=stream) if stream.peek(2)[:2] == b"\x1f\x8b" else stream  # type: ignore[return-value]

    files = sorted(one for one in root.rglob("*") if one.is_file()) if root.is_dir() else [root]
    return [LogFile(str(one), one.stat().st_size, partial(opened, one)) for one in files]


def _hadoop_files(path: str) -> list[LogFile]:
    """List the files below a path in any file system that Spark supports, such as s3a://logs/ or hdfs://name/logs/."""
    session = active()
    if session is None or is_connect(session):
        session = open_session({}, hive=False)
    context, jvm = session.sparkContext, cast("Any", session.sparkContext._jvm)
    with spark_call(f"Spark cannot list {path}."):
        root = jvm.org.apache.hadoop.fs.Path(path)
        system = root.getFileSystem(context._jsc.hadoopConfiguration())
        found: list[LogFile] = []
        entries = system.listFiles(root, True)
        while entries.hasNext():
            entry = entries.next()
            file = entry.getPath()
            found.append(LogFile(file.toString(), int(entry.getLen()), partial(_open_hadoop, jvm, system, file)))
    return found


def _open_hadoop(jvm: Any, system: Any, file: Any) -> IO[bytes]:
    with spark_call(f"Spark cannot open {file.toString()}."):
        if file.getName().endswith(".gz"):
            return gzip.GzipFile(fileobj=io.BufferedReader(_JavaStream(jvm, system.open(file)), _BUFFER))  # type: ignore[return-value]
        # It decompresses the codecs of Spark.
        stream = jvm.org.apache.spark.deploy.history.EventLogFileReader.openEventLog(file, system)
        return io.BufferedReader(_JavaStream(jvm, stream), _BUFFER)


class _JavaStream(io.RawIOBase):
    """A Python stream that reads from a Java input stream."""

    def __init__(self, jvm: Any, stream: Any) -> None:
        self._jvm, self._stream, self._is_damaged = jvm, stream, False
        self._channel = jvm.java.nio.channels.Channels.newChannel(stream)
        self._bytes = jvm.java.nio.ByteBuffer.allocate(_BUFFER)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if self._is_damaged:
            raise EOFError
        self._bytes.clear()
        self._bytes.limit(min(len(buffer), _BUFFER))
        try:
            with spark_call("Spark cannot read the event log."):
                # The class of the channel itself is not accessible.
                self._jvm.org.apache.commons.io.IOUtils.read(self._channel, self._bytes)
        except SparkError as error:
            if not str(error.__cause__).partition("\tat ")[2].startswith(_CODECS):
                raise
            # The bytes before the damage are in the buffer.
            self._is_damaged = True
        number = int(self._bytes.position())
        if self._is_damaged and not number:
            raise EOFError
        buffer[:number] = self._bytes.array()[:number]
        return number

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()


def read_lines(files: Sequence[LogFile], counts: ReadCounts) -> Iterator[bytes]:
    """Yield the lines of one event log, with GAP for missing ones, and count files that end early or are missing."""
    is_gap = False
    for file, missing in zip(files, _missing_before(files), strict=True):
        if missing or is_gap:
            yield GAP
        has_events, broken = False, counts.broken_lines
        counts.missing_files += missing
        counts.compacted_files += file.path.endswith(_COMPACTED)
        counts.files += 1
        counts.size_bytes += file.size_bytes
        is_gap = False
        try:
            with file.open() as stream:
                for line in stream:
                    if not line.endswith(b"\n"):
                        # The last line of a file may not be a complete event.
                        is_gap = True
                        with suppress(ValueError, RecursionError):
                            is_gap = not (line.startswith(EVENT) and json.loads(line))
                        if is_gap:
                            break
                    has_events = has_events or line.startswith(EVENT)
                    counts.lines += 1
                    yield line
        except (EOFError, zlib.error, gzip.BadGzipFile):
            is_gap = True
        except OSError as error:
            raise EventLogError(f"Cannot read the event log `{file.path}`: {error.strerror or error}.") from error
        if has_events:
            counts.truncated_files += is_gap
        else:
            is_gap, counts.broken_lines = True, broken
            counts.without_events.append(file.path)


def _missing_before(files: Sequence[LogFile]) -> list[int]:
    """Return for each file of a log how many files are missing between it and the previous file."""
    numbers = [file.number for file in files]
    # The numbers of a rolling log start at 1. A compacted file replaces all files with lower numbers.
    is_first = numbers[0] == 0 or files[0].path.endswith(_COMPACTED)
    before = [numbers[0] - 1 if is_first else 0, *numbers[:-1]]
    return [number - previous - 1 for previous, number in zip(before, numbers, strict=True)]
