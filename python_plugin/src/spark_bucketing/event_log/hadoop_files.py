"""Read files in any file system that Spark supports, using Hadoop's classes."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial
from typing import IO, Any

from spark_bucketing.session import active, open_session, spark_call


def hadoop_files(path: str) -> list[tuple[str, int, Callable[[], IO[bytes]]]]:
    """List the files below a path in any file system that Spark supports, such as s3a://logs/ or hdfs://name/logs/.

    Returns: for each file, its path, its length in bytes, and a function that opens it as a buffered stream.

    Raises:
        SparkError: the path does not exist, or Spark cannot read it.
    """
    session = active() or open_session({}, hive=False)
    context = session.sparkContext
    with spark_call(f"Spark cannot list {path}."):
        root = context._jvm.org.apache.hadoop.fs.Path(path)  # type: ignore[union-attr]
        system = root.getFileSystem(context._jsc.hadoopConfiguration())
        found: list[tuple[str, int, Callable[[], IO[bytes]]]] = []
        entries = system.listFiles(root, True)
        while entries.hasNext():
            entry = entries.next()
            file = entry.getPath()
            found.append((file.toString(), int(entry.getLen()), partial(_open_hadoop, system, file)))
    return found


def _open_hadoop(system: Any, path: Any) -> IO[bytes]:
    with spark_call(f"Spark cannot open {path.toString()}."):
        return io.BufferedReader(_HadoopStream(system.open(path)), 4 << 20)


class _HadoopStream(io.RawIOBase):
    """A Python stream that reads from a Hadoop input stream."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._read = stream, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with spark_call("Spark cannot read the file."):
            found = bytes(self._stream.readNBytes(len(buffer)))
        buffer[: len(found)] = found
        self._read += len(found)
        return len(found)

    def tell(self) -> int:
        return self._read

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()
