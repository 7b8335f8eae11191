"""Format words and numbers for all reports."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from spark_bucketing.spec import BucketSpec
from spark_bucketing.units import size as size


def spec_data(spec: BucketSpec | None) -> dict[str, Any] | None:
    """Convert a bucket spec to JSON types."""
    if spec is None:
        return None
    columns, sorts = list(spec.bucket_columns), list(spec.sort_columns)
    return {"num_buckets": spec.num_buckets, "bucket_columns": columns, "sort_columns": sorts, "hash": spec.bucket_hash}


def some(names: Sequence[str]) -> str:
    """List up to five names, and say how many more there are."""
    return ", ".join(names[:5]) + (f" and {len(names) - 5:,} more" if len(names) > 5 else "")


def one_line(text: str) -> str:
    """Return a text without its line breaks."""
    return re.sub(r"\s+", " ", text).strip()
