"""Names, values and partitions in Spark's SQL."""

from __future__ import annotations

import re
from collections.abc import Sequence

from spark_bucketing.evolution.model import Column, Partition
from spark_bucketing.evolution.records import EVOLVED
from spark_bucketing.spec import BucketSpec


def name(text: str) -> str:
    """A name in back quotes."""
    return "`" + text.replace("`", "``") + "`"


def names(texts: Sequence[str]) -> str:
    """Names in a list."""
    return ", ".join(map(name, texts))


def table(text: str) -> str:
    """A qualified name, db.t, whose parts may be quoted."""
    return ".".join(name(part) for part in parts(text))


_PART = re.compile(r"`((?:[^`]|``)+)`|([^.`]+)")


def parts(text: str) -> tuple[str, ...]:
    """The parts of a qualified name without their quotes."""
    return tuple((quoted or plain).replace("``", "`") for quoted, plain in _PART.findall(text))


def text(value: str) -> str:
    """A string literal, which neither its quotes nor Spark's ${variables} end or change."""
    return "'" + value.replace("\\", "\\\\").replace("'", "\\'").replace("$", "\\u0024") + "'"


def files_of(folder: str, file_format: str) -> str:
    """A query for the rows in a folder of files, whose path Hadoop takes for a pattern."""
    path = re.sub(r"[][{}*?\\]", r"\\\g<0>", folder)
    return f"SELECT * FROM {file_format}.{name(path)}"  # noqa: S608


def bucket_specs(table_name: str) -> str:
    """A query for what the metastore says of all partitions of a table."""
    return f"select * from bucket_specs({text(table(table_name))})"  # noqa: S608


def literal(value: str, column: Column) -> str:
    """A value of a partition column."""
    kind = column.type.lower()
    if kind == "date":
        return f"date {text(value)}"
    if column.is_number and re.fullmatch(r"-?\d+(\.\d+)?", value):
        return value
    return text(value) if kind == "string" else f"cast({text(value)} as {column.type})"


def partition_spec(columns: Sequence[Column], partition: Partition) -> str:
    """PARTITION (ds = 'x', hour = '3'): Spark casts the text as it does for the folder's name."""
    pairs = zip(columns, partition.values, strict=True)
    given = ", ".join(f"{name(column.name)} = {'null' if value is None else text(value)}" for column, value in pairs)
    return f"partition ({given})"


def partition_filter(columns: Sequence[Column], partition: Partition) -> str:
    """A predicate for the rows of one partition."""
    return " and ".join(
        f"{name(column.name)} is null" if value is None else f"{name(column.name)} = {literal(value, column)}"
        for column, value in zip(columns, partition.values, strict=True)
    )


def mark_evolved(table_name: str) -> str:
    """A statement after which readers ask for the records of a table's partitions."""
    return f"alter table {table(table_name)} set tblproperties ({text(EVOLVED)} = 'true')"


def clause(spec: BucketSpec | None) -> str:
    """CLUSTERED BY ... as ALTER TABLE takes it; NOT CLUSTERED for no buckets."""
    if spec is None:
        return "not clustered"
    order = f" sorted by ({names(spec.sort_columns)})" if spec.sort_columns else ""
    return f"clustered by ({names(spec.bucket_columns)}){order} into {spec.num_buckets} buckets"
