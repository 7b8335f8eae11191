"""Reasons why Spark sorts without a shuffle."""

from __future__ import annotations

from dataclasses import replace

from spark_bucketing.checks.changes import (
    Changes,
    bucket,
    let_extension_read,
    match_either,
    merge_files,
    rewrite_files,
    set_to,
)
from spark_bucketing.checks.checked_query import BucketedScan
from spark_bucketing.checks.reasons.exchanges_and_sorts import SORT, ExchangeOrSort
from spark_bucketing.checks.reasons.reason import Explanation, purpose, reason, series
from spark_bucketing.checks.session_settings import MERGE_FILES, ORDERING


@reason("Spark combines several buckets, which loses their sort order", SORT, of="table")
def coalesced_buckets_unsorted(exchange_or_sort: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """Spark combines several buckets by reading them one after another, so it must sort their rows again."""
    here, there = exchange_or_sort.closest or (None, None)
    if not here or not there or here.table is None or there.table is None:
        return None
    if here.number <= there.number or any(side.exchanges for side in exchange_or_sort.op.sides):
        return None
    merging = (set_to({MERGE_FILES: "64"}),) if table.by_extension else let_extension_read(table)
    return Explanation(
        f"{here.table} has {here.number:,} buckets and {there.table} has {there.number:,}. Spark reads "
        f"{here.number // there.number} sorted files one after another and sorts their rows again.",
        (here.table, there.table),
        (*match_either(exchange_or_sort), *merging),
    )


@reason("the files have a different sort order than the operator requires", SORT, of="read")
def sort_columns_mismatch(exchange_or_sort: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """The files are not sorted, or they are sorted by other columns than the operator requires."""
    wanted = exchange_or_sort.order_columns()
    if wanted is not None and _serves(exchange_or_sort, table, wanted):
        return None
    have = table.spec.sort_columns
    order = f"sorted by {series([name.lower() for name in have])}" if have else "not sorted"
    words = ", ".join(map(str, exchange_or_sort.node.sort.order)) if exchange_or_sort.node.sort else ""
    message = f"The files of {table.name} are {order}, but the operator requires the order {words}."
    return Explanation(message, changes=_in_order(table, wanted or ()))


@reason("a bucket has one file in each of the selected partitions", SORT, of="read")
def multiple_partitions(_: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """The query reads several partitions, and each has its own file per bucket, so Spark sorts every bucket again."""
    if table.partitions_read < 2:
        return None
    which = "all" if table.scan.all_partitions else f"{table.partitions_read:,}"
    message = f"The query reads {which} partitions of {table.name}, each with its own sorted file per bucket."
    return Explanation(message, changes=(merge_files(table),))


@reason("a bucket has several files", SORT, of="read")
def multiple_files_per_bucket(_: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """A bucket consists of several sorted files, so Spark sorts its rows again."""
    files = table.facts.files_per_bucket
    if files < 2:
        return None
    message = f"A bucket of {table.name} has {files:,} files, each sorted separately."
    return Explanation(message, changes=(rewrite_files(table), merge_files(table)))


@reason("the files are sorted, but a setting prevents Spark from using their order", SORT, of="read")
def scan_ordering_disabled(_: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """The files have the required order, but stock Spark uses this order only if a setting allows it."""
    if table.by_extension or table.settings.on(ORDERING):
        return None
    extension = " Stock Spark reads this table, because the extension does not support it."
    return Explanation(
        f"The files of {table.name} have the required order, but {ORDERING}=false prevents Spark from using "
        f"it.{extension if table.settings.extension else ''}",
        changes=(set_to({ORDERING: "true"}), *let_extension_read(table)),
    )


@reason("an operator between the table and this operator does not preserve the sort order", SORT, of="table")
def ordering_not_preserved(exchange_or_sort: ExchangeOrSort, table: BucketedScan) -> Explanation | None:
    """The files have the required order, but an operator between the table and this operator does not preserve it."""
    node = exchange_or_sort.disordered_at
    if node is None or not (table.ordered or (table.readable and table.scan.by_extension)):
        return None
    message = f"The files of {table.name} are sorted, but {node.operator} does not preserve this order."
    return Explanation(message, changes=() if table.by_extension else let_extension_read(table))


@reason("an operator below shuffled the rows, so they are no longer sorted", SORT)
def unordered_input(exchange_or_sort: ExchangeOrSort) -> Explanation | None:
    """A shuffle, an aggregate or a join below this operator returns its rows unordered."""
    if exchange_or_sort.read and any(found.table for found in exchange_or_sort.partitionings):
        return None
    message = f"The rows that are {purpose(exchange_or_sort)} come from operators with unsorted output."
    return Explanation(message, exchange_or_sort.side.entry.tables)


def _serves(exchange_or_sort: ExchangeOrSort, table: BucketedScan, wanted: tuple[str, ...]) -> bool:
    have = tuple(name.lower() for name in table.spec.sort_columns)[: len(wanted)]
    # A join compares its keys in the order of the bucket columns.
    if exchange_or_sort.op.kind == "join" and sorted(wanted) == sorted(table.columns):
        return sorted(have) == sorted(wanted)
    return have == wanted


def _in_order(table: BucketedScan, wanted: tuple[str, ...]) -> Changes:
    first = [name for name in table.columns if name in wanted]
    orders = dict.fromkeys([wanted, (*first, *(name for name in wanted if name not in first))])
    specs = (replace(table.spec, sort_columns=order) for order in orders if order)
    return tuple(change for spec in specs for change in bucket(table.facts, spec))
