"""Decompress event logs as streams.

Supported formats are all values of `spark.eventLog.compression.codec`, and gzip.
"""

from __future__ import annotations

import gzip
import io
import struct
from collections.abc import Iterator
from typing import IO, Any

from spark_bucketing.errors import EventLogError

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
