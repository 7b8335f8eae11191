"""Bucket ids in the names of data files."""

from __future__ import annotations

import re

from spark_bucketing.spec import BucketHash

_PATTERNS: dict[BucketHash, re.Pattern[str]] = {
    # What Hive and Trino read. Spark writes 00003_0_part-..., Hive 000003_0 and 000003_0_copy_1.
    "hive": re.compile(r"(\d{1,9})_\d+.*"),
    # part-<task>-<uuid>_<bucket>.c000.<codec>.<format>, as in Spark's BucketingUtils, which alone would also read
    # bucket 0 from every file that Hive writes.
    "spark": re.compile(r"part-.*_(\d{1,9})(?:\..*)?"),
}


def bucket_of(file_name: str, bucket_hash: BucketHash) -> int | None:
    """The bucket that a data file holds by its name, without its folder; None when it has none in this layout's way."""
    match = _PATTERNS[bucket_hash].fullmatch(file_name)
    return int(match[1]) if match else None
