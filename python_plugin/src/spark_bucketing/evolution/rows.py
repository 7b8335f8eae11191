"""Hashing the rows of partitions, one query for all of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spark_bucketing.errors import SparkError
from spark_bucketing.evolution import sql
from spark_bucketing.evolution.covering import covering
from spark_bucketing.evolution.evidence import FileEvidence, Key, key_of
from spark_bucketing.evolution.locations import address
from spark_bucketing.evolution.model import Partition, Table
from spark_bucketing.evolution.warehouse import StoredFile, Warehouse
from spark_bucketing.session import spark_call
from spark_bucketing.spec import BucketSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Listing = Mapping[str, tuple[StoredFile, ...]]
"""Data files by the partition's name."""


def list_files(warehouse: Warehouse, partitions: Iterable[Partition]) -> dict[str, tuple[StoredFile, ...]]:
    """The data files of each partition, wherever its folder is; none for one whose folder does not exist."""
    found = list(partitions)
    listed = warehouse.listing([partition.location for partition in found])
    return {partition.name: files for partition, files in zip(found, listed, strict=True)}


def read_evidence(
    warehouse: Warehouse,
    table: Table,
    partitions: Sequence[Partition],
    listing: Listing,
    candidates: Iterable[BucketSpec],
    order: bool = True,
) -> dict[str, tuple[FileEvidence, ...]]:
    """Look at every row of these partitions.

    Args:
        warehouse: with an open session, settled.
        table: with all its partitions.
        partitions: those to look at.
        listing: their files.
        candidates: specs by which rows are hashed, and orders that are looked for.
        order: whether the order in the files is looked at, too.

    Returns:
        For each of these partitions, by name, what its files are.
    """
    candidates = list(candidates)
    keys = list(dict.fromkeys(map(key_of, candidates)))
    orders = list(
        dict.fromkeys(spec.sort_columns[:n] for spec in candidates for n in range(1, len(spec.sort_columns) + 1))
    )
    if not any(listing[partition.name] for partition in partitions):
        return {partition.name: () for partition in partitions}
    frame = warehouse.frame(sql.table(table.name)).where(covering(table, partitions))
    keys = [key for key in keys if _can_hash(frame, key)]
    orders = [columns for columns in orders if set(columns) <= {column.lower() for column in frame.columns}]
    with spark_call(f"The rows of {table.name} cannot be read."):
        hashed = _hashed(frame, keys)
        disorder = _disorder(frame, orders) if order and orders else {}
    return {partition.name: _files(warehouse, partition, listing, keys, hashed, disorder) for partition in partitions}


def _files(
    warehouse: Warehouse,
    partition: Partition,
    listing: Listing,
    keys: Sequence[Key],
    hashed: Mapping[str, Any],
    disorder: Mapping[str, Mapping[tuple[str, ...], int]],
) -> tuple[FileEvidence, ...]:
    folder = warehouse.address(partition.location)
    found = []
    for file in listing[partition.name]:
        row = hashed.get(f"{folder}/{file.name}")
        buckets = {key: (row[f"low{i}"], row[f"high{i}"]) for i, key in enumerate(keys)} if row else {}
        found.append(
            FileEvidence(file.name, row["number"] if row else 0, buckets, disorder.get(f"{folder}/{file.name}", {}))
        )
    return tuple(found)


def _can_hash(frame: DataFrame, key: Key) -> bool:
    """Whether the table has these columns, of types that Spark hashes as Hive does."""
    try:
        with spark_call(""):
            frame.selectExpr(f"hive_bucket({key[0]}, {sql.names(key[1])})")
    except SparkError:
        return False
    return True


def _hashed(frame: DataFrame, keys: Sequence[Key]) -> dict[str, Any]:
    """By file: the number of rows, and the lowest and highest bucket by each key."""
    hashes = [f"hive_bucket({number}, {sql.names(columns)}) as b{i}" for i, (number, columns) in enumerate(keys)]
    aggregates = [
        f"{function}(b{i}) as {name}{i}"
        for i in range(len(keys))
        for function, name in (("min", "low"), ("max", "high"))
    ]
    frame = frame.selectExpr("_metadata.file_path as file", *hashes)
    view = "spark_bucketing_rows"
    frame.createOrReplaceTempView(view)
    try:
        columns = ", ".join(["file", "count(*) as number", *aggregates])
        rows = frame.sparkSession.sql(f"select {columns} from {view} group by file").collect()  # noqa: S608
    finally:
        frame.sparkSession.catalog.dropTempView(view)
    return {address(row["file"]): row.asDict() for row in rows}


def _disorder(frame: DataFrame, orders: Sequence[tuple[str, ...]]) -> dict[str, dict[tuple[str, ...], int]]:
    """By file: how many rows are smaller than the one before, by each order.

    A row's place is (start of its split, its number in the reading task): a big file is read by several tasks, and a
    split by one of them from its first row to its last.
    """
    keys = [f"struct({sql.names(columns)}) as k{i}" for i, columns in enumerate(orders)]
    placed = frame.selectExpr(
        "_metadata.file_path as file",
        "input_file_block_start() as split_start",
        "monotonically_increasing_id() as number",
        *keys,
    )
    window = "over (partition by file order by split_start, number)"
    smaller = [f"k{i} < lag(k{i}) {window} as s{i}" for i in range(len(orders))]
    compared = placed.selectExpr("file", *smaller)
    summed = compared.selectExpr("file", *[f"if(s{i}, 1L, 0L) as n{i}" for i in range(len(orders))])
    rows = summed.groupBy("file").sum(*[f"n{i}" for i in range(len(orders))]).collect()
    found: dict[str, dict[tuple[str, ...], int]] = defaultdict(dict)
    for row in rows:
        for i, columns in enumerate(orders):
            found[address(row["file"])][columns] = int(row[f"sum(n{i})"] or 0)
    return found
