"""Define a table's bucket spec, and read it from DESCRIBE TABLE EXTENDED."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

BucketHash = Literal["hive", "hive2", "spark"]
HASHES: tuple[BucketHash, ...] = get_args(BucketHash)
# The hashes of the Hive layout by the value of the table property bucketing_version. The default is version 1.
HASH_OF_VERSION: Mapping[str, BucketHash] = {"1": "hive", "2": "hive2"}
VERSION_OF_HASH: Mapping[str, str] = {bucket_hash: version for version, bucket_hash in HASH_OF_VERSION.items()}
# The supported values of the table property, for messages.
STATED_VERSIONS = " or ".join(f"'{version}'" for version in HASH_OF_VERSION)
VERSION_PROPERTY = "bucketing_version"

_QUOTED_NAME = re.compile("`((?:[^`]|``)+)`")


@dataclass(frozen=True)
class BucketSpec:
    """A bucket spec: the number of buckets, the bucket columns, the sort columns and the hash function."""

    num_buckets: int
    bucket_columns: tuple[str, ...]
    sort_columns: tuple[str, ...]
    bucket_hash: BucketHash

    @property
    def in_hive_layout(self) -> bool:
        """Return whether the table is in the Hive layout, with either bucketing version."""
        return self.bucket_hash in VERSION_OF_HASH

    @property
    def buckets(self) -> str:
        """Describe the buckets in words: 8 buckets by (k)."""
        number = f"{self.num_buckets:,} bucket{'' if self.num_buckets == 1 else 's'}"
        return f"{number} by ({', '.join(self.bucket_columns)})"

    def __str__(self) -> str:
        """Describe the spec in words: 8 buckets by (k), sorted by (k), hash hive."""
        order = f"sorted by ({', '.join(self.sort_columns)})" if self.sort_columns else "not sorted"
        return f"{self.buckets}, {order}, hash {self.bucket_hash}"

    @property
    def config(self) -> str:
        """Return the model config that requests this spec."""
        order = f", sorted_by={list(self.sort_columns)}" if self.sort_columns != self.bucket_columns else ""
        by = f"clustered_by={list(self.bucket_columns)}, buckets={self.num_buckets}"
        return f"{by}{order}, bucket_hash='{self.bucket_hash}'"

    @classmethod
    def from_description(cls, details: Mapping[str, str]) -> BucketSpec | None:
        """Read the bucket spec from the output of DESCRIBE TABLE EXTENDED. Return None if the table is not bucketed."""
        num_buckets = int(details.get("Num Buckets", 0))
        if num_buckets < 1:
            return None
        is_hive = details.get("Provider", "").lower() == "hive"
        return cls(
            num_buckets=num_buckets,
            bucket_columns=_names(details.get("Bucket Columns", "")),
            sort_columns=_names(details.get("Sort Columns", "")),
            # Only a seal proves that the files were written with the hash that the properties state.
            bucket_hash=HASH_OF_VERSION.get(stated_version(details), "hive") if is_hive else "spark",
        )


def are_compatible(one: int, other: int) -> bool:
    """Return whether tables with these numbers of buckets can be joined bucket by bucket."""
    return max(one, other) % min(one, other) == 0


def number_of_buckets(size: float, target_file_size: int) -> int:
    """Return a power of two as the bucket count, so that a bucket is at most about 1.5 times the target file size.

    Data of at least one file gets two buckets or more: with a single bucket, one task sorts and writes all rows.
    """
    files = size / target_file_size
    return 1 << max(1, round(math.log2(files))) if files >= 1 else 1


def described_sections(rows: Iterable[Mapping[str, object]]) -> tuple[Mapping[str, str], ...]:
    """Parse the rows of DESCRIBE TABLE EXTENDED: the types of columns and of partition columns, and the details."""
    sections: dict[str, dict[str, str]] = {}
    title = ""
    for name, value in ((str(row["col_name"] or ""), str(row["data_type"] or "")) for row in rows):
        # A column may have the same name as a section title, but only a column has a type.
        if not name or (name.startswith("# ") and not value):
            title = name or "# "
        elif (name, value) != ("# col_name", "data_type"):
            sections.setdefault(title, {})[name] = value
    return tuple(sections.get(title, {}) for title in ("", "# Partition Information", "# Detailed Table Information"))


def listed_properties(text: str) -> dict[str, str]:
    """Parse table properties in the format that DESCRIBE prints: [a=b, c=d]."""
    pairs = re.split(r", (?=[\w.-]+=)", text.strip()[1:-1])
    return {key: value for key, _, value in (pair.partition("=") for pair in pairs)}


def stated_version(details: Mapping[str, str]) -> str:
    """Return the bucketing version in the details of a table in the Hive layout; a table without the property has 1."""
    return listed_properties(details.get("Table Properties", "")).get(VERSION_PROPERTY, "1")


def hash_name(bucket_hash: BucketHash) -> str:
    """Return the name of a hash function, as used in messages."""
    version = VERSION_OF_HASH.get(bucket_hash)
    return f"Hive's hash of {VERSION_PROPERTY} {version}" if version else "Spark's hash"


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.replace("``", "`") for name in _QUOTED_NAME.findall(text))
