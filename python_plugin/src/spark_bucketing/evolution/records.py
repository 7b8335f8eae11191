"""What the extension's function bucket_specs() says of partitions, as data."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from spark_bucketing.evolution.model import NULL_PARTITION, Partition, RecordState
from spark_bucketing.spec import BucketSpec

_ESCAPED = re.compile("%([0-9A-Fa-f]{2})")


def partition_of(row: Sequence[Any]) -> Partition:
    """A partition out of a row of bucket_specs(), whose columns are in the order of the function."""
    name, location, state, number, columns, sorts, _, files, size, most, problem, *_ = row
    return Partition(
        name=name,
        values=tuple(_value(part) for part in name.split("/")),
        location=location,
        state=state,
        spec=spec_of(number, names_in(columns), names_in(sorts)) if state == RecordState.BUCKETED else None,
        problem=problem or "",
        files=files,
        size=size,
        files_per_bucket=most,
    )


def names_in(array: object) -> tuple[str, ...]:
    """Names in an array, which some connections return as JSON."""
    found = json.loads(array) if isinstance(array, str) else array
    return tuple(map(str, found)) if isinstance(found, list | tuple) else ()


def spec_of(number: int | None, columns: Sequence[str] | None, sorts: Sequence[str] | None) -> BucketSpec | None:
    """A spec of the Hive layout; None without buckets."""
    if not number or not columns:
        return None
    return BucketSpec(number, tuple(columns), tuple(sorts or ()), "hive")


def _value(part: str) -> str | None:
    value = part.partition("=")[2]
    return None if value == NULL_PARTITION else _ESCAPED.sub(lambda found: chr(int(found[1], 16)), value)


def lower(spec: BucketSpec | None) -> BucketSpec | None:
    """A spec with its columns as records have them, in lower case."""
    if spec is None:
        return None
    columns, sorts = (tuple(name.lower() for name in names) for names in (spec.bucket_columns, spec.sort_columns))
    return replace(spec, bucket_columns=columns, sort_columns=sorts)
