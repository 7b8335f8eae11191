"""Define a table's bucket spec, and read it from DESCRIBE TABLE EXTENDED."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

BucketHash = Literal["hive", "spark"]

_QUOTED_NAME = re.compile("`((?:[^`]|``)+)`")


@dataclass(frozen=True)
class BucketSpec:
    """The number of buckets, the bucket columns, the sort columns and the hash function."""

    num_buckets: int
    bucket_columns: tuple[str, ...]
    sort_columns: tuple[str, ...]
    bucket_hash: BucketHash

    @property
    def config(self) -> str:
        """Return the model config for this spec."""
        order = f", sorted_by={list(self.sort_columns)}" if self.sort_columns != self.bucket_columns else ""
        by = f"clustered_by={list(self.bucket_columns)}, buckets={self.num_buckets}"
        return f"{by}{order}, bucket_hash='{self.bucket_hash}'"

    @classmethod
    def from_description(cls, details: Mapping[str, str]) -> BucketSpec | None:
        """Read the spec from the details of DESCRIBE TABLE EXTENDED; None if the table is not bucketed."""
        num_buckets = int(details.get("Num Buckets", 0))
        if num_buckets < 1:
            return None
        return cls(
            num_buckets=num_buckets,
            bucket_columns=_names(details.get("Bucket Columns", "")),
            sort_columns=_names(details.get("Sort Columns", "")),
            bucket_hash="hive" if details.get("Provider", "").lower() == "hive" else "spark",
        )


@dataclass(frozen=True)
class Description:
    """The output of DESCRIBE TABLE EXTENDED for a table."""

    columns: Mapping[str, str] = field(default_factory=dict)  # types by column name, including partition columns
    partition_columns: Mapping[str, str] = field(default_factory=dict)  # types of the partition columns only
    details: Mapping[str, str] = field(default_factory=dict)  # detailed table information by name

    @classmethod
    def of(cls, rows: Iterable[Sequence[object]]) -> Description:
        """Parse rows with the columns col_name and data_type."""
        sections: dict[str, dict[str, str]] = {}
        title = ""
        for name, value in ((str(row[0] or ""), str(row[1] or "")) for row in rows):
            # A column may have the same name as a section title, but a title has no type.
            if not name or (name.startswith("# ") and not value):
                title = name or "# "
            elif (name, value) != ("# col_name", "data_type"):
                sections.setdefault(title, {})[name] = value
        titles = ("", "# Partition Information", "# Detailed Table Information")
        return cls(*(sections.get(title, {}) for title in titles))

    @property
    def file_format(self) -> str:
        """Return the format of a table's files, or the class that reads them if the format is unknown."""
        provider = self.details.get("Provider", "").lower()
        if provider not in ("", "hive"):
            return provider
        # Hive formats are identified by the class that reads them.
        input_format = self.details.get("InputFormat", "").rpartition(".")[2]
        return next((known for known in ("parquet", "orc") if known in input_format.lower()), input_format)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.replace("``", "`") for name in _QUOTED_NAME.findall(text))
