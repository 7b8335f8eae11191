"""Parse the bucket ids in the names of data files."""

from __future__ import annotations

import re

from spark_bucketing.spec import VERSION_OF_HASH, BucketHash

# Hive and Trino read these names. Spark writes 00003_0_part-..., Hive 000003_0 and 000003_0_copy_1, Trino
# 000003_0_<query id>, and transactions of Hive bucket_00003.
_HIVE = re.compile(r"(?:bucket_(?=\d+(?:_\d+)?$)|(?=\d+_\d))(\d{1,9})(?:_\d+.*)?")
# part-<task>-<uuid>_<bucket>.c000.<codec>.<format>. Spark's BucketingUtils has no prefix, so it finds bucket 0 in every
# file that Hive writes.
_SPARK = re.compile(r"part-.*_(\d{1,9})(?:\..*)?")


def bucket_of(file_name: str, bucket_hash: BucketHash) -> int | None:
    """Return the bucket id in a file's name, or None if the name has no bucket id.

    The name does not include the directory. The format of a file's name depends on the bucket hash.
    """
    match = (_HIVE if bucket_hash in VERSION_OF_HASH else _SPARK).fullmatch(file_name)
    return int(match[1]) if match else None
