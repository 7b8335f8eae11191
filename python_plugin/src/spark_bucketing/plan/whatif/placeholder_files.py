"""Files of a hypothetical bucket: as large as the real ones, without anything in them, and sealed.

Spark looks at the names, lengths and times of files when it plans, and opens none of them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from spark_bucketing.spec import BucketSpec

_TIME = 1_600_000_000
# Names of bucket 0; those of the Hive layout have a number in front.
_NAME = "part-00000-{:08x}-0000-0000-0000-000000000000_00000.c000.snappy.parquet"
_WORD = 1 << 64
# An unknown size is larger than a file system's largest file.
_MOST_BYTES = 1 << 40


def write_files(folder: Path, number: int, size: int, hive: bool) -> tuple[tuple[str, int], ...]:
    """Write files that take no room.

    Args:
        folder: which is made.
        number: of files, all of bucket 0.
        size: bytes of all of them together.
        hive: by the Hive layout's names.

    Returns: names and lengths.
    """
    folder.mkdir()
    prefix = "00000_0_" if hive else ""
    found = tuple((prefix + _NAME.format(i), max(1, min(size, _MOST_BYTES) // number)) for i in range(number))
    for name, length in found:
        path = folder / name
        with path.open("wb") as file:
            file.truncate(length)
        os.utime(path, (_TIME, _TIME))
    return found


def seal_of(
    spec: BucketSpec, schema: Mapping[str, tuple[int, str]], files: tuple[tuple[str, int], ...]
) -> dict[str, str]:
    """The seal of such files, as properties of their table (docs/seal.md).

    Args:
        spec: by which they are the table's buckets.
        schema: place among the data columns, and type, of each column in lower case.
        files: names and lengths.
    """
    columns, sorts = ([name.lower() for name in names] for names in (spec.bucket_columns, spec.sort_columns))
    described = [
        {"name": name, "position": schema[name][0], "type": schema[name][1]} for name in dict.fromkeys(columns + sorts)
    ]
    of_spec = {
        "bucketing.num_buckets": str(spec.num_buckets),
        "bucketing.columns": json.dumps(columns),
        "bucketing.sort_columns": json.dumps(sorts),
        "bucketing.hash": spec.bucket_hash,
        "bucketing.schema": json.dumps(described),
    }
    high = low = 0
    for text in ("\n".join(of_spec.values()), *(f"{name}\n{length}\n{_TIME * 1000}" for name, length in files)):
        digest = sha256(text.encode()).digest()
        high, low = high + int.from_bytes(digest[:8], "big"), low + int.from_bytes(digest[8:16], "big")
    return {
        "bucketing.spec_version": "2",
        **of_spec,
        "bucketing.files": str(len(files)),
        "bucketing.bytes": str(sum(length for _, length in files)),
        "bucketing.digest": f"{high % _WORD:016x}{low % _WORD:016x}",
    }
