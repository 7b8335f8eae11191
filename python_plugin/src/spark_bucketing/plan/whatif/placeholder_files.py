"""Create placeholder files for a hypothetical bucket: sparse files of the right size, and a seal for them.

During planning, Spark reads the names, lengths and modification times of files, but does not open the files.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from spark_bucketing.spec import BucketSpec

_TIME = 1_600_000_000
# File names for bucket 0; in the Hive layout, a file name starts with a number.
_NAME = "part-00000-{:08x}-0000-0000-0000-000000000000_00000.c000.snappy.parquet"
_WORD = 1 << 64
# Common file systems do not support larger files.
_MOST_BYTES = 1 << 40


def write_files(folder: Path, number: int, size: int, hive: bool) -> tuple[tuple[str, int], ...]:
    """Write sparse files.

    Args:
        folder: directory to create.
        number: number of files, which all belong to bucket 0.
        size: total size in bytes.
        hive: whether the file names follow the Hive layout.

    Returns: the name and the length of each file.
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
    """Return the seal of these files as table properties (docs/reference/seal-format.md).

    Args:
        spec: bucket spec of the table.
        schema: for each column, by lowercase name, its index among the data columns and its type.
        files: the name and the length of each file.
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
